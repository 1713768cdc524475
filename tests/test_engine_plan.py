"""What a plan tells a child of the spec: frozen parameters, weights, scheduler, and what the inventory needs."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from project_samples import USER

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


def plan(task, text=TEXT, **more):
    context = SimpleNamespace(
        device=None, journal_path=lambda id: Path(f"{id}.jsonl"), options=SimpleNamespace(nice=10)
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
    assert plan("inventory").extra["placement"] == {"ranks": 4, "strategy": "fsdp2"}
    assert plan("inventory").extra["backward"] is True
    assert set(plan("timed").extra) == {"scheduler"}


def test_a_spec_that_says_none_of_it_asks_for_none():
    made = plan("timed", USER)
    assert (made.workload["frozen"], made.batch["weight_by"], made.extra) == (
        [],
        "micro-batch",
        {"scheduler": None},
    )
