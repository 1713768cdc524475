"""What a plan tells a child of the spec: frozen parameters, weights, scheduler, and what the inventory needs."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from project_samples import USER

from tui.engine.device import Device
from tui.engine.steps import common
from tui.probe.protocol import Plan
from tui.project.load import parse

TEXT = USER.replace("[workload.batch]", 'frozen = ["wte.*", "*.bias"]\n\n[workload.batch]').replace(
    'remainder = "drop"', 'tokens = "labels"\nweight_by = "tokens"'
) + (
    '[workload.scheduler]\nname = "torch.optim.lr_scheduler.StepLR"\nargs = { step_size = 3 }\nsteps = 2\n'
    '[placement]\nranks = 4\nstrategy = "fsdp2"\n'
)
SCHEDULER = {"name": "torch.optim.lr_scheduler.StepLR", "args": {"step_size": 3}, "steps": 2}


def plan(task, text=TEXT, device=None, **more):
    context = SimpleNamespace(
        device=device,
        device_now=lambda: device,
        journal_path=lambda id: Path(f"{id}.jsonl"),
        options=SimpleNamespace(nice=10),
    )
    made = common.plan(context, parse(Path("gpt.toml"), text.encode()), task, **more)
    return Plan.load(made.dump())  # as the child reads it


@pytest.mark.parametrize("task", ["inventory", "verify", "timed", "traced", "train", "resume"])
def test_every_child_is_told_what_is_frozen_scheduled_and_weighted(task):
    made = plan(task, extra={"load": "x"})
    assert made.workload["frozen"] == ["wte.*", "*.bias"]
    assert made.batch["weight_by"] == "tokens"
    assert made.extra["scheduler"] == SCHEDULER
    assert made.extra["load"] == "x"


def test_the_inventory_is_told_the_placement_and_to_run_a_backward():
    assert plan("inventory").extra["placement"] == {
        "ranks": 4,
        "strategy": "fsdp2",
        "shard_each": [],
        "reshard_after_forward": True,
    }
    assert plan("inventory").extra["backward"] is True
    assert set(plan("timed").extra) == {"scheduler"}


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            'strategy = "fsdp2"\nshard_each = ["Block"]\nweights = "host"\ngradients = "host"\noptimizer = "host"',
            {"weights": "host", "activations": "device", "shard_each": ["Block"]},
        ),
        (
            'activations = "host-pinned"',
            {"weights": "device", "activations": "host-pinned", "shard_each": []},
        ),
    ],
)
def test_a_child_is_told_what_is_kept_on_the_host(lines, told):
    text = USER + f"[placement]\n{lines}\n"
    assert plan("timed", text).extra["placement"] == plan("verify", text).extra["placement"] == told
    assert "weights" not in plan("inventory", text).extra["placement"]


def test_a_spec_that_says_none_of_it_asks_for_none():
    made = plan("timed", USER)
    assert (made.workload["frozen"], made.batch["weight_by"], made.extra) == (
        [],
        "micro-batch",
        {"scheduler": None},
    )


def test_a_child_that_is_held_to_a_limit_on_a_gpu_is_told_what_was_free():
    device = Device("cuda", "GPU-1f0c", "H100", 80 << 30, free_bytes=60 << 30)
    assert plan("timed", device=device, limit_bytes=20 << 30).extra["free_bytes"] == 60 << 30
    assert "free_bytes" not in plan("timed", device=device).extra
    assert "free_bytes" not in plan("timed", limit_bytes=20 << 30).extra
