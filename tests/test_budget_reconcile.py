"""Every difference of predicted and measured has one cause of a closed list with its evidence, or is unexplained.

One planted case of every cause, and for each one that is nearly it and must not be called so.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from predictions import AT, GIB, H100, MIB, prediction

from tui.budget import reconcile_causes as causes
from tui.budget.forecast import UNEXPLAINED, needs_cause
from tui.budget.ledger import Timelines, ledger
from tui.probe.protocol import REQUESTED_ROWS
from tui.project.measured import Environment, Measured, PhasePeak, Probe
from tui.project.model import BatchSpec, BudgetSpec, Spec, WorkloadSpec
from tui.project.prediction import PredictedPeak
from tui.project.timeline import Phase, Storage, Timeline

SPEC_HASH = "sha256:4be14be14be1"
SPEC = Spec(WorkloadSpec("mlp", batch=BatchSpec(micro=8)), budget=BudgetSpec(60 * GIB, 4 * GIB))
ROWS = {"weights": GIB, "gradients": GIB, "retained_activations": 4 * GIB}
PHASES = (Phase("forward", 0, 0, 10), Phase("backward", 0, 10, 20), Phase("step", None, 20, 30))


def compared(
    rows=ROWS,
    told=ROWS,
    *,
    reserved=20 * MIB,
    phase="backward",
    device="cuda",
    place="2.13.0+cu126",
    measured_in=("mm", "layers.0", 0),
    timelines=None,
    probe=None,
    found=None,
    before=None,
):
    """A ledger of ``rows`` measured beside ``told`` predicted, both in one phase."""
    sizes = sum(rows.values()), sum(told.values())
    peak = PhasePeak(
        sizes[0],
        sizes[0] + MIB if device == "cuda" else None,
        sizes[0] + MIB + reserved,
        sizes[0] + reserved + 600 * MIB,
        rows=dict(rows),
        operator=measured_in[0],
        module=measured_in[1],
        micro_batch=measured_in[2],
    )
    predicted = PredictedPeak(
        sizes[1],
        sizes[1] + MIB,
        sizes[1] + 21 * MIB,
        rows=dict(told),
        operator="mm",
        module="layers.0",
        micro_batch=0,
    )
    phases = {phase: predicted}
    if before is not None:
        phases["optimizer"] = PredictedPeak(before, end_requested_bytes=before)
    changes = {"semantics": device, "worst_phase": phase, "segments": 9, **(found or {})}
    saved = replace(prediction(SPEC_HASH), phases=phases, **changes)
    made = Probe(AT, SPEC_HASH, "e-1", "fp32", 8, 1, "fits", device=device, worst_phase=phase)
    made = replace(made, phases={phase: peak}, **(probe or {}))
    environment = Environment(H100, "GPU-1f0c", 81559 * MIB, place, "3.11")
    measured = Measured(environment={"e-1": environment}, probe={"p-1": made}, prediction={"f-1": saved})
    return ledger(SPEC, measured, "p-1", timelines=timelines)


def row(found, key):
    one = found.row(key)
    return one.cause, one.evidence


def more(**changes):
    return {**ROWS, **changes}


def storage(operator, size=64 * MIB, row="step_temporaries", born=12, module="layers.0"):
    return Storage(born, None, size, row, module, operator, "", "")


def kept(*measured, predicted=()):
    return Timelines(Timeline(PHASES, 30, measured), Timeline(PHASES, 30, tuple(predicted)))


def test_another_attention_kernel_is_told_by_the_operators_that_ran():
    assumed = {"assumptions": ("attention kernel: flash (bf16, causal, no mask), 12 times",)}
    ran = kept(storage("_scaled_dot_product_efficient_attention"), predicted=[storage("mm")])
    found = compared(more(step_temporaries=64 * MIB), found=assumed, timelines=ran)
    assert row(found, "step_temporaries") == (
        causes.KERNEL,
        "attention kernel flash assumed, efficient ran: _scaled_dot_product_efficient_attention",
    )
    assert row(found, "requested")[0] == causes.KERNEL
    same = kept(storage("_scaled_dot_product_flash_attention"))
    found = compared(more(step_temporaries=64 * MIB), found=assumed, timelines=same)
    assert row(found, "step_temporaries") == (UNEXPLAINED, "")


def test_without_a_timeline_the_operator_of_the_peak_names_the_kernel_and_weights_are_none_of_it():
    assumed = {"assumptions": ("attention kernel: flash (bf16), 12 times",)}
    at = ("_scaled_dot_product_cudnn_attention", "layers.0", 0)
    found = compared(more(step_temporaries=64 * MIB, weights=2 * GIB), found=assumed, measured_in=at)
    assert row(found, "step_temporaries")[0] == causes.KERNEL
    assert row(found, "weights") == (UNEXPLAINED, "")


def test_a_workspace_within_its_declared_range_is_another_kernels():
    ranges = {"ranges": {"cudnn_workspace": (0, 256 * MIB)}}
    found = compared(more(operator_scratch=200 * MIB), found=ranges)
    assert row(found, "operator_scratch") == (causes.KERNEL, "cudnn workspace, declared as 0-0.25 GiB")
    assert row(compared(more(operator_scratch=300 * MIB), found=ranges), "operator_scratch")[0] == UNEXPLAINED


def test_another_optimizer_implementation_is_told_by_the_operators_of_the_step():
    ran = kept(storage("sqrt", born=22), predicted=[storage("_foreach_sqrt", born=22)])
    found = compared(ROWS, more(step_temporaries=GIB), phase="step", timelines=ran)
    said = "foreach assumed, the step's operators are those of loop"
    assert row(found, "step_temporaries") == (causes.OPTIMIZER, said)
    # Clipping takes the norms of lists whatever the optimizer does.
    clipped = kept(
        storage("_foreach_norm", born=21), storage("_foreach_sqrt", born=22), predicted=ran.predicted.storages
    )
    found = compared(ROWS, more(step_temporaries=GIB), phase="step", timelines=clipped)
    assert row(found, "step_temporaries")[0] == UNEXPLAINED
    found = compared(ROWS, more(step_temporaries=GIB), phase="backward", timelines=ran)
    assert row(found, "step_temporaries")[0] == UNEXPLAINED


def test_another_torch_is_the_cause_only_where_nothing_shows_a_nearer_one():
    found = compared(more(weights=2 * GIB), found={"torch": "2.6.0+cpu"})
    assert row(found, "weights") == (
        causes.TORCH,
        "predicted with torch 2.6.0+cpu, measured with 2.13.0+cu126",
    )
    assert row(compared(more(weights=2 * GIB)), "weights") == (UNEXPLAINED, "")
    found = compared(reserved=60 * MIB, found={"torch": "2.6.0+cpu"})
    assert row(found, "cached")[0] == causes.HISTORY


def test_scratch_is_named_by_the_operators_that_it_is_inside_of():
    ran = kept(
        storage("convolution_backward", 60 * MIB, "operator_scratch"),
        storage("mm", 4 * MIB, "operator_scratch"),
        predicted=[storage("addmm", 2 * MIB, "operator_scratch")],
    )
    found = compared(more(operator_scratch=64 * MIB), more(operator_scratch=2 * MIB), timelines=ran)
    assert row(found, "operator_scratch") == (
        causes.SCRATCH,
        "inside convolution_backward +60.0 MiB, mm +4.0 MiB",
    )
    # What the operators are seen to have made must come to the difference.
    found = compared(more(operator_scratch=GIB), timelines=ran)
    assert row(found, "operator_scratch")[0] == UNEXPLAINED
    assert row(compared(more(operator_scratch=GIB)), "operator_scratch")[0] == UNEXPLAINED


def test_history_of_the_cache_is_whole_segments_beside_tensors_that_agree():
    found = compared(reserved=120 * MIB)
    assert row(found, "cached") == (
        causes.HISTORY,
        "+100.0 MiB of allocator-reserved in whole segments, tensor-allocated agrees; "
        "the prediction ends with 9 segments",
    )
    assert row(found, "allocator_reserved") == row(found, "cached")
    assert row(compared(reserved=41 * MIB), "cached")[0] == UNEXPLAINED, "the driver gives no half segments"
    assert row(compared(reserved=520 * MIB), "cached")[0] == UNEXPLAINED, "too many segments for history"
    grown = compared(more(weights=2 * GIB), reserved=60 * MIB)
    assert row(grown, "cached")[0] == UNEXPLAINED, "tensors differ too"


def test_what_every_iteration_leaves_over_is_a_resident_object():
    left = {"growth_bytes": 8 * MIB, "growth_of": {"mse_loss in head": 8 * MIB}}
    found = compared(more(step_temporaries=16 * MIB), probe=left)
    assert row(found, "step_temporaries") == (
        causes.RESIDENT,
        "every iteration leaves 8.0 MiB over (mse_loss in head); 2 of them are here",
    )
    assert row(compared(more(step_temporaries=28 * MIB), probe=left), "step_temporaries")[0] == UNEXPLAINED
    less = compared(more(retained_activations=3 * GIB), probe=left)
    assert row(less, "retained_activations")[0] == UNEXPLAINED


def test_what_was_there_before_the_first_iteration_is_a_resident_object():
    found = compared(more(input_batch=512 * MIB), probe={"start_bytes": GIB + 512 * MIB}, before=GIB)
    assert row(found, "input_batch") == (
        causes.RESIDENT,
        "512.0 MiB more were alive before the first iteration than predicted",
    )
    found = compared(more(input_batch=512 * MIB), probe={"start_bytes": GIB}, before=GIB)
    assert row(found, "input_batch")[0] == UNEXPLAINED


def test_what_stays_alive_through_the_iteration_and_was_not_predicted_is_a_resident_object():
    table = storage("empty", 512 * MIB, "input_batch", born=-1, module="")
    found = compared(more(input_batch=512 * MIB), timelines=kept(table))
    said = "alive before and after the iteration and not predicted: 512.0 MiB by empty"
    assert row(found, "input_batch") == (causes.RESIDENT, said)
    assert row(found, "requested") == row(found, "input_batch")
    passing = kept(replace(table, born=2, died=8))
    assert row(compared(more(input_batch=512 * MIB), timelines=passing), "input_batch")[0] == UNEXPLAINED
    both = kept(table, predicted=[table])
    assert row(compared(more(input_batch=512 * MIB), timelines=both), "input_batch")[0] == UNEXPLAINED
    small = kept(replace(table, bytes=4096))
    found = compared(more(input_batch=4096), timelines=small)
    assert found.reconciled.minor["input_batch"].word == causes.RESIDENT


def test_rows_that_trade_bytes_between_two_instants_are_no_fault():
    traded = more(gradients=GIB - 64 * MIB, retained_activations=4 * GIB + 64 * MIB)
    found = compared(traded, measured_in=("gelu_backward", "layers.1", 0))
    said = (
        "measured in gelu_backward of layers.1, micro-batch 1, predicted in mm of layers.0, micro-batch 1; "
        "the 2 rows together agree"
    )
    assert row(found, "gradients") == row(found, "retained_activations") == (causes.INSTANT, said)
    assert row(compared(traded), "gradients")[0] == UNEXPLAINED, "the same instant"
    higher = more(gradients=GIB - 64 * MIB, retained_activations=5 * GIB)
    found = compared(higher, measured_in=("gelu_backward", "layers.1", 0))
    assert row(found, "gradients")[0] == UNEXPLAINED, "the peak itself is another one"


def test_python_numbers_on_the_cpu_are_said_though_they_are_too_small_to_need_a_cause():
    found = compared(more(step_temporaries=24), device="cpu")
    assert row(found, "step_temporaries") == ("", "")
    assert found.reconciled.minor["step_temporaries"].word == causes.NUMBERS
    assert compared(more(step_temporaries=24)).reconciled.minor == {}
    many = kept(*(storage("div", 8) for _ in range(200_000)))
    found = compared(more(step_temporaries=1_600_000), device="cpu", timelines=many)
    assert row(found, "step_temporaries") == (
        causes.NUMBERS,
        "200,000 tensors of at most 8 B more at the peak",
    )


def test_what_the_prediction_called_approximate_is_so_for_rows_of_kernels():
    said = {"approximate": ("sort: its scratch depends on the data",)}
    found = compared(more(step_temporaries=GIB, weights=2 * GIB), found=said)
    assert row(found, "step_temporaries")[0] == causes.APPROXIMATE
    assert row(found, "weights")[0] == UNEXPLAINED


def test_a_sum_names_the_row_that_it_is_off_by_and_is_unexplained_when_that_is():
    found = compared(more(operator_scratch=200 * MIB), found={"ranges": {"cudnn_workspace": (0, 256 * MIB)}})
    assert row(found, "requested") == row(found, "operator_scratch")
    mixed = more(operator_scratch=200 * MIB, weights=2 * GIB)
    found = compared(mixed, found={"ranges": {"cudnn_workspace": (0, 256 * MIB)}})
    assert row(found, "requested") == (UNEXPLAINED, "")


def test_a_process_outside_its_range_is_unexplained_or_has_the_cause_of_what_is_inside():
    found = compared(reserved=80 * MIB)
    assert found.row("process").within is False
    assert row(found, "process")[0] == causes.HISTORY
    outside = compared(found={"context_low_bytes": 100 * MIB, "context_high_bytes": 200 * MIB})
    assert row(outside, "context") == (UNEXPLAINED, "outside the range")
    assert row(outside, "process")[0] == UNEXPLAINED


def test_the_differences_are_added_up_and_what_is_unexplained_is_said():
    found = compared(more(weights=2 * GIB, unattributed=512 * MIB), reserved=22 * MIB).reconciled
    assert found.absolute_bytes == GIB + 512 * MIB + 2 * MIB
    assert (found.differing, found.unexplained_bytes) == (3, GIB + 512 * MIB + 2 * MIB)
    assert found.unattributed_ratio == pytest.approx(0.5 / 7.5)
    equal = compared().reconciled
    assert (equal.absolute_bytes, equal.differing, equal.unexplained_bytes) == (0, 0, 0)


def test_there_is_nothing_to_reconcile_without_both_columns():
    assert ledger(SPEC, Measured()).reconciled is None


SIZES = st.dictionaries(st.sampled_from(REQUESTED_ROWS), st.integers(0, 4 * GIB))


@given(SIZES, SIZES, st.integers(0, 64))
def test_every_row_that_is_off_has_one_cause_of_the_list_and_no_other_row_has(measured, predicted, segments):
    found = compared(measured, predicted, reserved=(20 + segments) * MIB)
    for one in found.rows:
        if one.predicted is not None and one.measured is not None:
            assert bool(one.cause) == needs_cause(one.difference, one.predicted)
        assert not one.cause or one.cause in causes.CAUSES
        assert one.cause or not one.evidence
    told = found.reconciled
    assert 0 <= told.unexplained_bytes <= told.absolute_bytes
    assert told.absolute_bytes >= abs(found.row("requested").difference)
