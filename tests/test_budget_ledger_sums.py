"""A ledger adds up to the byte whatever was measured; one that does not says by how much."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from sample_project import CPU, CPU_PROBE, CPU_PROBE_ID, CPU_SPEC, CUDA, CUDA_PROBE, CUDA_SPEC, PROBE
from test_budget_timeline import timelines

from tui.budget import timeline as timeline_of
from tui.budget.ledger import Ledger, ledger
from tui.probe.protocol import REQUESTED_ROWS
from tui.project.measured import PhasePeak, Reading

SIZE = st.integers(0, 2**42)
ROWS = st.dictionaries(st.sampled_from(REQUESTED_ROWS), SIZE)
GAPS = st.tuples(SIZE, SIZE, SIZE)


def cuda(rows, gaps, others=0, driver=0, free=0, requested=None):
    asked = sum(rows.values()) if requested is None else requested
    allocated, reserved = asked + gaps[0], asked + gaps[0] + gaps[1]
    process = reserved + gaps[2]
    used = process + others + driver
    peak = PhasePeak(asked, allocated, reserved, process, rows=rows)
    sizes = {"process": process, "others": others, "driver_reserved": driver, "device_used": used}
    sizes["device_total"] = used + free + CUDA_SPEC.budget.reserve
    readings = {key: Reading(size, "read", "", "backward") for key, size in sizes.items()}
    probe = replace(CUDA_PROBE, phases={"backward": peak}, readings=readings, worst_phase="backward")
    return ledger(CUDA_SPEC, replace(CUDA, probe={PROBE: probe}), PROBE)


def inside(found: Ledger, outer: str) -> int:
    """The rows before the sum ``outer``, sums left out."""
    keys = [row.key for row in found.rows]
    rows = found.rows[: keys.index(outer)]
    return sum(row.measured for row in rows if row.kind == "row")


@given(ROWS, GAPS, SIZE, SIZE, SIZE)
def test_rows_sum_to_every_reading_from_requested_to_the_device(rows, gaps, others, driver, free):
    found = cuda(rows, gaps, others, driver, free)
    for outer in (
        "requested",
        "tensor_allocated",
        "allocator_reserved",
        "process",
        "device_used",
        "device_total",
    ):
        assert inside(found, outer) == found.row(outer).measured, outer
    assert found.adds_up
    assert found.verdict.unknown_rows == ()


@given(ROWS, GAPS, st.integers(-(2**40), 2**40))
def test_rows_that_do_not_sum_to_requested_say_by_how_much(rows, gaps, off):
    asked = max(0, sum(rows.values()) + off)
    off = asked - sum(rows.values())
    found = cuda(rows, gaps, requested=asked)
    check = next(one for one in found.checks if one.sum == "requested")
    assert check.agrees is (off == 0)
    if off:
        assert f"{abs(off):,} B are in {'no row' if off > 0 else 'more than one row'}" in check.text
        assert found.verdict.word in ("UNKNOWN", "DOES NOT FIT")
        assert not found.adds_up


@given(st.sampled_from([1, 2, 3]), st.integers(1, 2**40), st.integers(1, 2**40))
def test_a_sum_below_what_is_inside_it_is_said_with_both_figures(place, inner, short):
    sizes = [inner, inner, inner, inner]
    for later in range(place, 4):
        sizes[later] = max(0, inner - short)
    peak = PhasePeak(*sizes, rows={"weights": inner})
    probe = replace(CUDA_PROBE, phases={"backward": peak}, readings={}, worst_phase="backward")
    found = ledger(CUDA_SPEC, replace(CUDA, probe={PROBE: probe}), PROBE)
    told = [check.text for check in found.checks if check.agrees is False]
    assert len(told) == 1
    assert f"{inner:,} B is more than" in told[0]
    assert f"{sizes[place]:,} B" in told[0]


@given(ROWS, SIZE, st.integers(-(2**30), 2**40), SIZE)
def test_on_the_cpu_rows_sum_to_the_process_though_untouched_pages_make_one_negative(
    rows, kept, outside, others
):
    asked = sum(rows.values())
    heap = asked + kept
    process = max(0, heap + outside)
    peak = PhasePeak(asked, None, heap, process, rows=rows)
    readings = {"process": Reading(process, "VmHWM", "", "backward"), "others": Reading(others, "free", "")}
    probe = replace(CPU_PROBE, phases={"backward": peak}, readings=readings, worst_phase="backward")
    found = ledger(CPU_SPEC, replace(CPU, probe={CPU_PROBE_ID: probe}))
    assert found.row("tensor_allocated").measured == inside(found, "tensor_allocated") == asked
    assert inside(found, "heap_reserved") == heap
    assert inside(found, "process") == process


@given(timelines())
def test_no_storage_of_a_timeline_is_in_two_rows_and_rows_sum_to_the_level_at_every_instant(made):
    levels = timeline_of.levels(made)
    for event in range(-1, made.events):
        alive = timeline_of.alive(made, event)
        rows = timeline_of.by_row(alive)
        assert sum(rows.values()) == levels[event + 1] == sum(one.bytes for one in alive)
        assert set(rows) <= set(REQUESTED_ROWS)
