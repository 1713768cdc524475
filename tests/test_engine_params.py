"""What the step makes of a child's count."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sample_project import CUDA_INVENTORY

from tui.engine.outcome import Outcome
from tui.engine.steps import params
from tui.errors import ProjectError
from tui.project.load import parse

NOW = datetime(2026, 12, 1, tzinfo=UTC)
TABLE = {"unique_parameters": 10, "shared": ["a = b"], "unknown": {"gradient_receiving": "it did not end"}}


def outcome(word, results):
    return Outcome(
        "m-1", word, "the child was ended by SIGSEGV", NOW, NOW, "runs/m-1.jsonl", "", results=results
    )


def test_a_count_that_was_told_survives_a_crash_in_the_backward():
    table = params.counted(outcome("crashed", {"inventory": TABLE}))
    assert table is not None
    assert (table["unique_parameters"], table["shared"]) == (10, ("a = b",))
    assert table["unknown"] == {"gradient_receiving": "the child was ended by SIGSEGV"}


def test_a_count_that_the_forward_proved_wrong_is_none():
    assert params.counted(outcome("failed", {"inventory": TABLE})) is None
    assert params.counted(outcome("crashed", {})) is None


def test_gradients_that_verify_saw_stay_when_the_count_ran_no_backward():
    new = replace(CUDA_INVENTORY, gradient_receiving=None, unknown={"gradient_receiving": "too large"})
    kept = params._with_old(new, CUDA_INVENTORY)
    assert (kept.gradient_receiving, kept.unknown) == (CUDA_INVENTORY.gradient_receiving, {})


def test_gradients_of_another_spec_are_not_taken_over():
    new = replace(CUDA_INVENTORY, gradient_receiving=None, unknown={"gradient_receiving": "too large"})
    assert params._with_old(new, replace(CUDA_INVENTORY, model="sha256:other")) == new
    assert params._with_old(new, None) == new


def test_what_the_count_saw_itself_is_not_replaced():
    new = replace(CUDA_INVENTORY, gradient_receiving=7)
    assert params._with_old(new, CUDA_INVENTORY).gradient_receiving == 7


@pytest.mark.parametrize(
    ("workload", "hint"),
    [
        ('source = "mlp"', ""),
        ('source = "own.py"\nformula = "mlp"', 'formula = "none" skips the check'),
    ],
    ids=["of a family, which could not be built either", "of a formula alone"],
)
def test_arguments_that_a_formula_refuses_are_named_with_what_mends_them(workload, hint):
    text = f"schema = 1\n[workload]\n{workload}\nargs = {{ hidden = 3 }}\n"
    with pytest.raises(ProjectError, match="hidden must be a list of whole numbers, got 3") as caught:
        params.formula_of(parse(Path("p.toml"), text.encode()), None)
    assert caught.value.hint == hint
