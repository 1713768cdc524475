from dataclasses import replace

import pytest
from sample_project import (
    BACKWARD_REQUESTED,
    CPU,
    CPU_PROBE,
    CPU_PROBE_ID,
    CPU_REQUESTED,
    CPU_SPEC,
    CUDA,
    CUDA_PROBE,
    CUDA_SPEC,
    GIB,
    MIB,
    PROBE,
)

from tui.budget.ledger import ledger
from tui.budget.rows import row_name, row_names
from tui.probe.protocol import REQUESTED_ROWS
from tui.project.measured import Measured, PhasePeak, Reading


def cuda(phase=None, **changes):
    return ledger(CUDA_SPEC, replace(CUDA, probe={PROBE: replace(CUDA_PROBE, **changes)}), PROBE, phase)


def cpu(**changes):
    return ledger(CPU_SPEC, replace(CPU, probe={CPU_PROBE_ID: replace(CPU_PROBE, **changes)}))


def measured(found, *keys):
    return [found.row(key).measured for key in keys]


def test_rows_come_in_the_order_of_the_protocol_and_then_the_sums_around_them():
    keys = [row.key for row in cuda().rows]
    assert keys == [
        *REQUESTED_ROWS,
        "requested",
        "rounding",
        "tensor_allocated",
        "cached",
        "allocator_reserved",
        "context",
        "process",
        "others",
        "driver_reserved",
        "device_used",
        "reserve",
        "free",
        "device_total",
    ]
    assert [row.key for row in cpu().rows][len(REQUESTED_ROWS) :] == [
        "requested",
        "tensor_allocated",
        "heap_kept",
        "heap_reserved",
        "outside_heap",
        "process",
        "others",
        "reserve",
        "free",
        "host_total",
    ]


def test_each_cuda_gap_is_a_row_and_the_rows_add_up_to_the_device():
    found = cuda()
    assert measured(found, "rounding", "cached", "context", "free") == [
        MIB,
        9 * GIB - BACKWARD_REQUESTED - MIB,
        600 * MIB,
        61 * GIB,
    ]
    inner = sum(found.row(key).measured for key in REQUESTED_ROWS)
    outer = ("rounding", "cached", "context", "others", "driver_reserved", "reserve", "free")
    assert inner + sum(measured(found, *outer)) == found.row("device_total").measured == 80 * GIB
    assert [check.agrees for check in found.checks] == [True] * 5
    assert found.adds_up


def test_on_the_cpu_tensor_allocated_is_requested_and_the_heap_is_never_called_tensor_memory():
    found = cpu()
    assert measured(found, "requested", "tensor_allocated") == [CPU_REQUESTED, CPU_REQUESTED]
    assert found.row("tensor_allocated").origin == "requested: the CPU allocator does not round"
    assert measured(found, "heap_kept", "outside_heap") == [200 * MIB - CPU_REQUESTED, 120 * MIB]
    assert "Python and PyTorch included" in found.row("heap_reserved").meaning


def test_heap_pages_that_were_never_touched_make_a_negative_row_and_no_fault():
    peak = replace(CPU_PROBE.phases["backward"], process_bytes=150 * MIB)
    found = cpu(phases={"backward": peak})
    assert measured(found, "outside_heap") == [-50 * MIB]
    assert found.adds_up


def test_a_gap_that_would_be_negative_is_unknown_and_the_sum_says_so():
    peak = replace(CUDA_PROBE.phases["backward"], reserved_bytes=GIB)
    found = cuda(phases={"backward": peak})
    assert found.row("cached").measured is None
    assert "below tensor allocated" in found.row("cached").unknown
    assert not found.adds_up


def test_rows_that_miss_bytes_make_the_ledger_unknown():
    rows = {**CUDA_PROBE.phases["backward"].rows, "weights": 497_759_232 - 8_388_608}
    found = cuda(phases={"backward": replace(CUDA_PROBE.phases["backward"], rows=rows)})
    assert found.verdict.word == "UNKNOWN"
    assert found.verdict.why.endswith("8,388,608 B are in no row")
    rows["weights"] += 2 * 8_388_608
    found = cuda(phases={"backward": replace(CUDA_PROBE.phases["backward"], rows=rows)})
    assert found.verdict.why.endswith("8,388,608 B are in more than one row")


def test_a_row_that_is_absent_is_exactly_none():
    assert measured(cuda(), "unattributed", "operator_scratch") == [0, 0]


def test_the_verdict_is_of_the_worst_phase_whichever_is_shown():
    found = cuda("build")
    assert (found.phase, found.row("requested").measured) == ("build", 497_759_232)
    assert (found.verdict.worst_phase, found.verdict.process_bytes) == ("backward", 9 * GIB + 600 * MIB)
    assert found.verdict.spare_bytes == 60 * GIB - 4 * GIB - 9 * GIB - 600 * MIB


def test_a_reading_of_the_worst_phase_is_not_shown_for_another():
    found = cuda("build")
    assert found.row("process").measured is None
    assert found.row("process").unknown == "read in backward only"
    assert found.row("device_total").measured == 80 * GIB


def test_without_a_measurement_the_declared_rows_stand_alone():
    found = ledger(CUDA_SPEC, Measured(inventory=CUDA.inventory))
    assert found.row("weights").declared == 497_759_232
    assert found.row("weights").reasons["measured"] == "not measured: peakmark probe"
    assert (found.verdict.word, found.verdict.why) == ("UNKNOWN", "nothing was measured yet")
    assert found.checks == ()


def test_the_probe_of_the_projects_own_batch_is_shown_and_an_absent_one_is_an_error():
    assert ledger(CUDA_SPEC, CUDA).probe_id == PROBE
    with pytest.raises(KeyError):
        ledger(CUDA_SPEC, CUDA, "p-none")
    with pytest.raises(KeyError):
        ledger(CUDA_SPEC, CUDA, PROBE, "restore")


def test_out_of_memory_does_not_fit_and_a_cancelled_run_says_nothing():
    failed = cuda(outcome="out-of-memory", failure="out of memory in backward", phases={}, worst_phase=None)
    assert (failed.verdict.word, failed.verdict.why) == ("DOES NOT FIT", "out of memory in backward")
    assert failed.row("weights").unknown == "out of memory in backward"
    assert cuda(outcome="cancelled").verdict.word == "UNKNOWN"


def test_a_prediction_fills_its_column_and_the_difference_is_measured_minus_predicted():
    found = ledger(
        CUDA_SPEC, CUDA, PROBE, predicted={"weights": 497_759_000, "requested": BACKWARD_REQUESTED}
    )
    assert found.row("weights").difference == 232
    assert found.row("operator_scratch").difference == 0
    assert found.row("process").reasons["predicted"] == "not predicted"


def test_a_reading_that_could_not_be_taken_leaves_its_reason():
    readings = {
        **CUDA_PROBE.readings,
        "device_used": Reading(None, "mem_get_info", "whole", "", "driver says no"),
    }
    found = cuda(readings=readings)
    assert found.row("device_used").unknown == "driver says no"
    assert found.row("free").unknown == "what is used, or the total, is n/a"


def test_a_reserve_that_is_more_than_what_is_left_is_said():
    readings = {**CUDA_PROBE.readings, "device_used": Reading(79 * GIB, "mem_get_info", "whole", "backward")}
    found = cuda(readings=readings)
    assert found.row("free").unknown == "the reserve is 3,221,225,472 B more than is left"


def test_every_empty_cell_has_a_reason_on_both_devices():
    empty = ledger(CPU_SPEC, Measured())
    for found in (cuda(), cuda("build"), cpu(), empty, cpu(phases={"step": PhasePeak(5)}, worst_phase=None)):
        for row in found.rows:
            cells = {"declared": row.declared, "predicted": row.predicted, "measured": row.measured}
            assert {key for key, value in cells.items() if value is None} == set(row.reasons), row.key


def test_every_row_has_a_meaning_in_a_sentence():
    for device in ("cpu", "cuda"):
        assert all(len(name.meaning) > 15 for name in row_names(device))
    assert row_name("cached").kind == "row"
