"""Every temporary of a step has one cause, and the causes of a row add up to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from test_budget_timeline import timelines

from tui.budget import temporaries
from tui.budget import timeline as timeline_of
from tui.budget.temporaries import CAUSES, ROWS, at_peak, of_row
from tui.project.timeline import Phase, Storage, Timeline

FORWARD, BACKWARD, STEP = 1, 21, 41
PHASES = (Phase("forward", 0, 1, 20), Phase("backward", 0, 20, 40), Phase("step", None, 40, 60))


def made(born, operator, module="fc", shape="4x8", dtype="float32", row="step_temporaries", died=None):
    return Storage(born, died, 128, row, module, operator, shape, dtype)


def causes(*storages, phase="step"):
    """Cause by operator and module of temporaries that all live to the end of the step."""
    found = at_peak(Timeline(PHASES, 60, storages), phase)
    return {(one.row, one.cause): one.count for one in found}


WEIGHT = made(-1, "normal_", "fc", "8x8", row="weights")


@pytest.mark.parametrize(
    ("storage", "cause"),
    [
        (made(FORWARD, "_log_softmax", "lm_head", "32x50"), "logits and loss"),
        (made(BACKWARD, "_log_softmax_backward_data", "", "32x50"), "logits and loss"),
        (made(FORWARD, "mse_loss"), "logits and loss"),
        (made(FORWARD, "_to_copy", "fc", "8x8", "bfloat16"), "autocast weight copies"),
        (made(FORWARD, "_to_copy", "fc", "4x8", "bfloat16"), "casts"),
        (made(BACKWARD, "_to_copy", "fc", "8x8", "float32"), "casts"),
        (made(BACKWARD, "mm"), "gradients on their way back"),
        (made(FORWARD, "mul"), "temporaries of the forward"),
        (made(STEP, "_foreach_sqrt", ""), "foreach lists"),
        (made(STEP, "_foreach_norm", ""), "gradient clipping"),
        (made(STEP, "linalg_vector_norm", ""), "gradient clipping"),
        (made(STEP, "sqrt", ""), "temporaries of the optimizer"),
        (made(0, "randn"), "other"),
    ],
    ids=lambda value: value.operator if isinstance(value, Storage) else value,
)
def test_a_temporary_is_named_for_what_made_it(storage, cause):
    assert causes(WEIGHT, storage) == {("step_temporaries", cause): 1}


def test_a_copy_of_the_logits_is_told_by_its_number_of_elements():
    logits = made(FORWARD, "_log_softmax", "", "32x50")
    assert causes(logits, made(FORWARD, "_to_copy", "", "4x8x50", "float32")) == {
        ("step_temporaries", "logits and loss"): 2
    }


def test_a_copy_of_a_tied_weight_is_one_of_a_weight_in_whatever_module_it_is_made():
    copy = made(FORWARD, "_to_copy", "lm_head", "8x8", "bfloat16")
    assert causes(WEIGHT, copy) == {("step_temporaries", "autocast weight copies"): 1}
    alike = made(FORWARD, "relu", "act", "8x8", row="retained_activations")
    assert causes(WEIGHT, alike, copy) == {("step_temporaries", "casts"): 1}


def test_what_the_backward_makes_as_the_forward_did_is_recomputed():
    both = [made(born, "gelu", "h.0", died=died) for born, died in ((FORWARD, 3), (BACKWARD, None))]
    assert causes(*both) == {("step_temporaries", "recomputed activations"): 1}
    product = [made(born, "mm", "h.0", died=died) for born, died in ((FORWARD, 3), (BACKWARD, None))]
    # A product alone is what a backward does too; beside a recomputed gelu it is part of the recomputation.
    assert causes(*product) == {("step_temporaries", "gradients on their way back"): 1}
    assert causes(*both, *product) == {("step_temporaries", "recomputed activations"): 2}


def test_buffers_of_ranks_are_told_apart():
    gathered = made(FORWARD, "empty", "h.0", row="unsharded_weights")
    bucket = made(-1, "zeros", "", row="reduction_buckets")
    reduced = made(BACKWARD, "empty", "", row="reduction_buckets", died=59)
    assert causes(gathered, bucket, reduced) == {
        ("unsharded_weights", "all-gather buffers"): 1,
        ("reduction_buckets", "DDP buckets"): 1,
        ("reduction_buckets", "reduce buffers"): 1,
    }


def test_a_phase_that_the_timeline_has_not_is_none():
    assert at_peak(Timeline(PHASES[:1], 20, ()), "validate") is None


def test_the_largest_are_said_in_words():
    same = [made(FORWARD + one, "_foreach_sqrt", f"h.{one}.fc") for one in range(3)]
    (only,) = of_row(at_peak(Timeline(PHASES, 60, tuple(same))), "step_temporaries")
    assert only.what == "3 x 4x8 float32 by _foreach_sqrt in h.*.fc"
    other = made(FORWARD + 3, "mul", "", "")
    (only,) = of_row(at_peak(Timeline(PHASES, 60, (same[0], other))), "step_temporaries")
    assert only.what == "4x8 float32 by _foreach_sqrt in h.0.fc, 1 more"


@given(timelines())
def test_every_byte_of_a_row_has_exactly_one_cause_at_every_instant(timeline):
    for event in range(-1, timeline.events):
        found = temporaries.at(timeline, event)
        rows = timeline_of.by_row(timeline_of.alive(timeline, event))
        sums = {row: sum(one.bytes for one in of_row(found, row)) for row in ROWS}
        assert sums == {row: rows.get(row, 0) for row in ROWS}
        assert {one.cause for one in found} <= set(CAUSES)
        assert len({(one.row, one.cause) for one in found}) == len(found)
