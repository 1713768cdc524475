"""The timeline file of a traced run: it gives the reported peaks again to the byte, by module and by kind."""

import json

import pytest

from probe.helpers import DECODER, run_here
from tui.budget.timeline import alive, by_module, by_row, peak, phase_peak, top
from tui.project.timeline import read


def traced(tmp_path, **more):
    """(the table of a traced run, its timeline)."""
    table = run_here("traced", journal=tmp_path / "t.jsonl", **more).table("traced")
    return table, read(tmp_path / "t.timeline.json")


def check(table, timeline):
    """Peaks, rows and operators of the file are those of the table."""
    for name in ("forward", "backward", "step"):
        peaks = [phase_peak(timeline, one) for one in timeline.phases if one.name == name]
        event, size = max(peaks, key=lambda one: one[1])
        reported = table["phases"][name]
        assert size == reported["requested_bytes"], name
        assert by_row(alive(timeline, event)) == reported["rows"], name
    assert peak(timeline)[1] == max(
        table["phases"][name]["requested_bytes"] for name in ("forward", "backward", "step")
    )


@pytest.mark.parametrize(
    "more",
    [
        {"args": DECODER},
        {"args": DECODER, "accumulate": 3, "clip": 1.0},
        {"args": DECODER, "accumulate": 2, "weight_by": "tokens", "tokens": "ids_BT"},
        {"args": DECODER, "checkpoint": ["Block"], "precision": "bf16-autocast"},
    ],
    ids=["one batch", "accumulated", "weighed by tokens", "recomputed under autocast"],
)
def test_the_file_gives_the_reported_peaks_to_the_byte(tmp_path, more):
    table, timeline = traced(tmp_path, source="decoder", **more)
    check(table, timeline)
    accumulate = more.get("accumulate", 1)
    assert [(one.name, one.micro) for one in timeline.phases] == [
        *((name, micro) for micro in range(accumulate) for name in ("forward", "backward")),
        ("step", None),
    ]


def test_weights_gradients_and_optimizer_state_belong_to_their_modules(tmp_path):
    _, timeline = traced(tmp_path, source="decoder", args=DECODER)
    paths = {"": by_module(alive(timeline, timeline.events - 1))}
    for path in ("blocks", "blocks.1", "blocks.1.mlp", "blocks.1.mlp.up"):
        paths[path] = next(one for one in paths[path.rpartition(".")[0]].children if one.path == path)
    size = 4 * (32 * 128 + 128)
    held = {"weights": size, "gradients": size, "optimizer_state": 2 * size + 2 * 4}
    assert (paths["blocks.1.mlp.up"].rows, paths["blocks.1.mlp.up"].children) == (held, [])


def test_the_largest_storages_are_told_with_shape_and_dtype(tmp_path):
    _, timeline = traced(tmp_path, source="decoder", args=DECODER, micro=2, length=16)
    event, _ = phase_peak(timeline, timeline.phases[0])
    found = top([one for one in alive(timeline, event) if one.row == "retained_activations"], 1)[0]
    # 2 samples of 16 tokens in each of 2 layers, 128 wide between the two layers of its perceptron.
    assert (found.count, found.bytes, found.module) == (2, 2 * 4 * 2 * 16 * 128, "blocks.*.mlp.up")
    assert (found.storage.shape, found.storage.dtype, found.storage.operator) == (
        "32x128",
        "float32",
        "addmm",
    )


def test_what_a_backward_makes_belongs_to_the_module_whose_forward_it_follows(tmp_path):
    _, timeline = traced(tmp_path, source="decoder", args=DECODER, micro=2, length=16)
    back = next(one for one in timeline.phases if one.name == "backward")
    made = [one for one in timeline.storages if back.first <= one.born < back.last]
    # Into the second layer of a perceptron goes a gradient as wide as what it was given.
    wide = [one for one in made if one.operator == "mm" and one.shape == "32x128" and one.row != "gradients"]
    assert [one.module for one in wide] == ["blocks.1.mlp.down", "blocks.0.mlp.down"]


def test_what_is_recomputed_in_a_backward_belongs_to_the_module_that_does_it(tmp_path):
    _, timeline = traced(tmp_path, source="decoder", args=DECODER, micro=2, length=16, checkpoint=["Block"])
    back = next(one for one in timeline.phases if one.name == "backward")
    again = [
        one for one in timeline.storages if back.first <= one.born < back.last and one.operator == "gelu"
    ]
    assert [one.module for one in again] == ["blocks.1.mlp", "blocks.0.mlp"]


def test_the_file_is_small(tmp_path):
    traced(tmp_path, source="decoder", args=DECODER)
    made = json.loads((tmp_path / "t.timeline.json").read_text())
    assert (tmp_path / "t.timeline.json").stat().st_size < 40 * len(made["storages"]) + 10_000
