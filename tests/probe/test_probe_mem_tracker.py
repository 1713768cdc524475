"""The tracker's total against torch's own MemTracker, an independent count by weak references to storages.

It is the same to the byte, but for what each cannot see; those bytes have a name here.
"""

import dataclasses
import warnings

import pytest
import torch
from zoo_models import kind

from probe.helpers import Events, plan, run_here
from tui.budget.timeline import peak
from tui.probe.families import tokens
from tui.probe.iteration import tensors_of
from tui.probe.session import Session
from tui.project.timeline import read

mem_tracker = pytest.importorskip("torch.distributed._tools.mem_tracker")


def ours(tmp_path, asked):
    run_here("traced", journal=tmp_path / "t.jsonl", **asked)
    return read(tmp_path / "t.timeline.json")


def theirs(asked):
    """Peak of the second iteration, the first of which made the optimizer's state."""
    built = Session(plan("traced", **asked), Events())
    built.iterate()
    tracker = mem_tracker.MemTracker()
    tracker.track_external(built.model, built.optimizer)
    built.placed = lambda batch: tracker.track_external(*tensors_of(batch))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with tracker:
            built.iterate()
    return tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]


def unseen(one):
    """What no dispatch mode sees: scratch within an operator, and numbers that torch wraps outside of any."""
    return one.row == "operator_scratch" or (one.operator == "" and one.born >= 0)


def unknown_to_it(one):
    """Data that the workload made before and keeps, which MemTracker was not told of."""
    return one.row == "input_batch" and one.born == -1


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("two-layer LSTM", set()),
        ("nn.TransformerEncoder ViT", set()),
        ("Fourier operator, complex weights", set()),
        ("channels-last ResNet", {"scratch"}),
        ("U-Net", {"scratch"}),
        ("mlp", {"numbers", "scratch"}),
        ("GPT-2-like decoder", {"data"}),
        ("GPT-2", {"numbers"}),
    ],
)
def test_the_trackers_total_is_that_of_mem_tracker_but_for_named_bytes(tmp_path, name, differs):
    chosen = kind(name)
    if chosen.config:
        pytest.importorskip("transformers")
    asked = chosen.plan(tmp_path)
    tokens.transitions.cache_clear()  # as in a fresh process, whatever ran before in this one
    made = ours(tmp_path, asked)
    common = tuple(one for one in made.storages if not unseen(one) and not unknown_to_it(one))
    assert peak(dataclasses.replace(made, storages=common))[1] == theirs(asked)
    if not differs:
        assert peak(made)[1] == theirs(asked)
    named = {
        "scratch": any(one.row == "operator_scratch" for one in made.storages),
        "numbers": any(one.operator == "" and one.born >= 0 for one in made.storages),
        "data": any(unknown_to_it(one) for one in made.storages),
    }
    assert all(named[one] for one in differs)
