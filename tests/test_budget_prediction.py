"""Verdicts by prediction, the predicted column beside what was measured, and the causes of differences."""

from __future__ import annotations

from dataclasses import replace

import pytest
from predictions import AT, GIB, H100, MIB, prediction

from tui.budget import forecast, gpus
from tui.budget import prediction as predictions
from tui.budget.ledger import ledger
from tui.project.calibration import Calibration
from tui.project.measured import Environment, Measured, PhasePeak, Probe, Reading
from tui.project.model import BatchSpec, BudgetSpec, Spec, WorkloadSpec
from tui.project.prediction import Within
from tui.report import sentences
from tui.report.figures import unit_for

SPEC_HASH = "sha256:4be14be14be1"
ID, PROBE = "f-20261201T140000-a3", "p-20261201T141203-a3"
SPEC = Spec(WorkloadSpec("mlp", batch=BatchSpec(micro=8)), budget=BudgetSpec(60 * GIB, 4 * GIB))
PLACE = Environment(H100, "GPU-1f0c", 81559 * MIB, "2.13.0+cu126", "3.11")
REQUESTED = 6 * GIB


def spec(job: int | None, reserve: int = 0) -> Spec:
    return replace(SPEC, budget=BudgetSpec(job, reserve))


def probe(reserved: int = REQUESTED + 20 * MIB, context: int = 600 * MIB, **changes) -> Probe:
    peak = PhasePeak(
        REQUESTED, REQUESTED + MIB, reserved, reserved + context,
        rows={"weights": GIB, "gradients": GIB, "retained_activations": 4 * GIB},
    )  # fmt: skip
    made = Probe(AT, SPEC_HASH, "e-1", "fp32", 8, 1, "fits", device="cuda", worst_phase="backward")
    readings = {"process": Reading(reserved + context, "NVML", "process", "backward")}
    return replace(made, phases={"backward": peak}, readings=readings, **changes)


def measured(told=None, found: Probe | None = None, place: Environment = PLACE) -> Measured:
    return Measured(
        environment={"e-1": place},
        probe={} if found is None else {PROBE: found},
        prediction={ID: told or prediction(SPEC_HASH)},
    )


# --- the verdict -----------------------------------------------------------------------------------


def test_it_fits_when_the_most_that_it_may_take_leaves_the_reserve():
    found = predictions.prediction_verdict(SPEC, prediction(SPEC_HASH))
    assert (found.word, found.by, found.process_bytes) == ("FITS", "prediction", REQUESTED + 635 * MIB)


@pytest.mark.parametrize(
    ("job", "reserve", "word"),
    [
        (REQUESTED + 635 * MIB, 0, "FITS"),
        (REQUESTED + 635 * MIB, MIB, "FITS ONLY WITHOUT THE RESERVE"),
        (REQUESTED + 634 * MIB, 0, "UNKNOWN"),
        (REQUESTED + 521 * MIB, 0, "UNKNOWN"),
        (REQUESTED + 520 * MIB, 0, "DOES NOT FIT"),
    ],
)
def test_it_does_not_fit_only_when_tensors_and_the_smallest_context_are_too_much(job, reserve, word):
    assert predictions.prediction_verdict(spec(job, reserve), prediction(SPEC_HASH)).word == word


CONTEXTS = 520 * MIB, 615 * MIB
ROOM = REQUESTED + 600 * MIB
"""A budget that the prediction's reserved bytes and its largest context do not fit in, and its tensors do."""


def within(budget: int, context: int, **changes) -> Within:
    room = budget - context
    return Within(room, **{"retries": 3, "steady_retries": 1, "reserved_bytes": room - MIB, **changes})


FAILED = {
    "phase": "first.backward", "operator": "mm", "module": "head", "asked_bytes": 64 * MIB,
    "allocated_bytes": REQUESTED - 90 * MIB, "largest_free_block_bytes": 40 * MIB, "cause": "fragmentation",
}  # fmt: skip


def test_it_fits_where_emptying_the_cache_is_enough_and_says_how_often():
    told = prediction(SPEC_HASH, within=tuple(within(ROOM, one) for one in CONTEXTS))
    found = predictions.prediction_verdict(spec(ROOM), told)
    assert (found.word, found.retries, found.steady_retries) == ("FITS", 3, 1)
    assert (found.process_bytes, found.spare_bytes) == (ROOM - MIB, MIB)
    assert found.held_to == ROOM - 615 * MIB
    said = sentences.verdict(found, unit_for(GIB))
    assert "its cache emptied 3 times (once in every later iteration)" in said
    assert "if the allocator is held to 5.985 GiB" in said


def test_it_fits_only_without_the_reserve_where_emptying_reaches_the_budget_alone():
    limits = {ROOM - MIB: FAILED, ROOM: {}}
    told = prediction(
        SPEC_HASH,
        within=tuple(within(limit, one, **how) for limit, how in limits.items() for one in CONTEXTS),
    )
    found = predictions.prediction_verdict(spec(ROOM, MIB), told)
    assert (found.word, found.retries) == ("FITS ONLY WITHOUT THE RESERVE", 3)


def test_it_does_not_fit_where_the_allocator_gives_up_at_both_ends_and_says_where():
    told = prediction(SPEC_HASH, within=tuple(within(ROOM - 70 * MIB, one, **FAILED) for one in CONTEXTS))
    found = predictions.prediction_verdict(spec(ROOM - 70 * MIB), told)
    assert found.word == "DOES NOT FIT"
    assert found.why == (
        "out of memory in first.backward in operator mm of head: it asks for 64.0 MiB and 5.912 GiB of 6.010 GiB "
        "are allocated; the largest free block has 40.0 MiB: fragmentation"
    )
    lines = sentences.budget(found, unit_for(GIB))
    assert lines[0].startswith("budget 6.518 = process 6.620 + reserve 0 - short 0.103 GiB")


def test_it_is_unknown_only_where_the_two_ends_of_the_context_differ():
    told = prediction(SPEC_HASH, within=(within(ROOM, 615 * MIB, **FAILED), within(ROOM, 520 * MIB)))
    found = predictions.prediction_verdict(spec(ROOM), told)
    assert found.word == "UNKNOWN"
    assert found.why.startswith("with a context of 520 MiB it fits")
    assert "with a context of 615 MiB it does not fit (out of memory in first.backward" in found.why
    assert sentences.budget(found, unit_for(GIB))


def test_a_budget_that_was_not_simulated_says_to_predict_again():
    told = prediction(SPEC_HASH, within=tuple(within(ROOM + 1, one) for one in CONTEXTS))
    found = predictions.prediction_verdict(spec(ROOM), told)
    assert (found.word, found.why) == ("UNKNOWN", predictions.NOT_SIMULATED)


def test_the_allocator_is_tried_within_the_budget_with_and_without_its_reserve_at_both_ends():
    found = predictions.capacities(spec(10 * GIB, GIB), 80 * GIB, CONTEXTS)
    assert found == [9 * GIB - 615 * MIB, 9 * GIB - 520 * MIB, 10 * GIB - 615 * MIB, 10 * GIB - 520 * MIB]
    assert predictions.capacities(spec(None), None, CONTEXTS) == []
    assert predictions.capacities(spec(600 * MIB), None, CONTEXTS) == [80 * MIB]


def test_without_a_budget_the_gpu_is_the_limit_and_without_either_nothing_is_known():
    told = prediction(SPEC_HASH)
    assert predictions.prediction_verdict(spec(None), told).budget_from == "the GPU's total"
    nowhere = replace(told, target="", target_total_bytes=None)
    assert predictions.prediction_verdict(spec(None), nowhere).word == "UNKNOWN"


def test_on_the_cpu_only_what_cannot_fit_is_decided():
    told = prediction(SPEC_HASH, semantics="cpu", context_low_bytes=None, context_high_bytes=None)
    assert predictions.prediction_verdict(spec(60 * GIB), told).word == "UNKNOWN"
    assert predictions.prediction_verdict(spec(REQUESTED - 1), told).word == "DOES NOT FIT"


def test_a_calibration_of_the_same_gpu_comes_before_what_is_published():
    gpu = gpus.find(H100)
    old, new = (Calibration(AT.replace(hour=hour), f"p-{hour}", H100, "2.13", hour * MIB) for hour in (1, 2))
    both = Measured(calibration={"e-2": new, "e-1": old})
    assert predictions.context_of(gpu, both)[0] == (2 * MIB, 2 * MIB)
    assert predictions.context_of(gpu, Measured())[0] == (520 * MIB, 615 * MIB)
    assert predictions.context_of(gpus.find("T4"), both)[0] == (300 * MIB, 615 * MIB)


def test_the_limit_is_the_smaller_of_budget_and_gpu_less_reserve_and_the_largest_context():
    context = 520 * MIB, 615 * MIB
    assert predictions.reserved_limit(SPEC, 80 * GIB, context) == (56 * GIB - 615 * MIB, "")
    assert predictions.reserved_limit(SPEC, 22 * GIB, context) == (18 * GIB - 615 * MIB, "")
    assert predictions.reserved_limit(spec(None), None, context)[0] is None
    assert predictions.reserved_limit(SPEC, 4 * GIB, context)[0] is None


def test_nccl_widens_the_range_for_several_ranks():
    low, high = predictions.context_of(gpus.find(H100), Measured(), ranks=8)[0] or (0, 0)
    assert (low, high) == (520 * MIB + 920 * MIB, 615 * MIB + 2970 * MIB)


# --- the predicted column ----------------------------------------------------------------------------


def test_the_predicted_column_adds_up_and_the_process_is_a_range():
    found = ledger(SPEC, measured(found=probe()))
    assert found.prediction_id == ID
    told = {row.key: row.predicted for row in found.rows}
    assert (told["requested"], told["rounding"], told["tensor_allocated"]) == (
        REQUESTED,
        MIB,
        REQUESTED + MIB,
    )
    assert (told["cached"], told["allocator_reserved"]) == (19 * MIB, REQUESTED + 20 * MIB)
    context, process = found.row("context"), found.row("process")
    assert (context.predicted, context.predicted_range, context.within) == (
        None,
        (520 * MIB, 615 * MIB),
        True,
    )
    assert "0.50-0.61 GiB, a range" in context.reasons["predicted"]
    assert process.predicted_range == (REQUESTED + 540 * MIB, REQUESTED + 635 * MIB)
    assert all(row.difference == 0 for row in found.rows if row.difference is not None)


def test_a_calibrated_process_is_one_figure():
    told = prediction(SPEC_HASH, context_low_bytes=600 * MIB, context_high_bytes=600 * MIB)
    found = ledger(SPEC, measured(told, probe()))
    assert (found.row("context").predicted, found.row("context").difference) == (600 * MIB, 0)
    assert found.row("process").predicted == REQUESTED + 620 * MIB


@pytest.mark.parametrize(
    "changes",
    [
        {"semantics": "cpu"},
        {"precision": "bf16"},
        {"micro_batch": 9},
        {"accumulate": 2},
        {"length": 8},
        {"spec": "sha256:000000000000"},
        {"target": "NVIDIA L4"},
        {"target": ""},
        {"allocator": "expandable_segments:True"},
        {"ranks": 2},
    ],
    ids=lambda changes: str(changes),
)
def test_a_prediction_of_anything_else_does_not_stand_beside_a_measurement(changes):
    found = ledger(SPEC, measured(replace(prediction(SPEC_HASH), **changes), probe()))
    assert (found.prediction_id, found.row("weights").predicted) == (None, None)
    assert found.row("weights").reasons["predicted"] == "not predicted"


def test_a_cpu_prediction_stands_beside_a_cpu_measurement():
    told = prediction(SPEC_HASH, semantics="cpu", target="", context_low_bytes=None, context_high_bytes=None)
    found = ledger(SPEC, measured(told, probe(device="cpu")))
    assert found.row("tensor_allocated").predicted == REQUESTED
    assert found.row("process").reasons["predicted"] == predictions.ON_CPU


def test_reserved_that_differs_by_a_few_segments_is_the_history_of_the_cache():
    found = ledger(SPEC, measured(found=probe(reserved=REQUESTED + 120 * MIB)))
    assert (found.row("cached").difference, found.row("cached").cause) == (100 * MIB, "history of the cache")
    assert found.row("requested").cause == ""


def test_reserved_that_differs_by_more_is_unexplained():
    found = ledger(SPEC, measured(found=probe(reserved=REQUESTED + 420 * MIB)))
    assert found.row("cached").cause == forecast.UNEXPLAINED


def test_another_torch_is_named_as_the_cause():
    told = prediction(SPEC_HASH, torch="2.6.0+cpu")
    peak = replace(told.phases["backward"], rows={"weights": 2 * GIB, "retained_activations": 4 * GIB})
    found = ledger(SPEC, measured(replace(told, phases={"backward": peak}), probe()))
    assert (found.row("weights").cause, found.row("weights").evidence) == (
        "other torch version",
        "predicted with torch 2.6.0+cpu, measured with 2.13.0+cu126",
    )


def test_the_limit_of_what_needs_no_cause_is_a_mebibyte_or_a_hundredth():
    assert not forecast.needs_cause(MIB, 0)
    assert forecast.needs_cause(MIB + 1, 0)
    assert not forecast.needs_cause(-(GIB // 100), GIB)
    assert forecast.needs_cause(-(GIB // 100) - 1, GIB)


# --- without a measurement ---------------------------------------------------------------------------


def test_without_a_measurement_the_ledger_is_of_the_prediction():
    found = ledger(SPEC, measured())
    assert (found.probe_id, found.prediction_id, found.phase) == (None, ID, "backward")
    assert found.situation.device == "cuda"
    assert (found.verdict.word, found.verdict.by) == ("FITS", "prediction")
    assert found.row("weights").measured is None
    assert found.row("retained_activations").predicted == 4 * GIB


def test_a_phase_that_was_not_predicted_is_refused():
    with pytest.raises(KeyError, match="validate"):
        ledger(SPEC, measured(), phase="validate")
