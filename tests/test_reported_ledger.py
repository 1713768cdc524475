"""Reported faults of readings and pinned memory, as they stand in the ledger and not only in what reads them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_project import CUDA, CUDA_PROBE, CUDA_SPEC, PROBE

from tui.budget.ledger import ledger
from tui.project.inventory import Inventory
from tui.project.measured import Measured, PhasePeak, Reading
from tui.project.model import EnvironmentSpec, PlacementSpec
from tui.report.text_ledger import ledger_lines

MIB, GIB = 2**20, 2**30


def with_readings(peak, **readings):
    probe = replace(CUDA_PROBE, phases={"forward": peak}, worst_phase="forward", readings=readings)
    return replace(CUDA, probe={PROBE: probe})


def shown(measured, spec=CUDA_SPEC):
    found = ledger(spec, measured, PROBE)
    return found, " ".join(" ".join(ledger_lines(spec, measured, PROBE, project="gpt.toml")).split())


def test_n02_a_process_that_the_driver_cannot_name_is_shown_by_difference_and_never_as_0():
    peak = PhasePeak(600 * MIB, 610 * MIB, 640 * MIB, 1012 * MIB, rows={"weights": 600 * MIB})
    measured = with_readings(
        peak,
        process=Reading(1012 * MIB, "device, after less before", "charged", "forward"),
        process_nvml=Reading(None, "NVML", "charged", "forward", "pid namespace: the driver lists 28290"),
        others=Reading(3 * MIB, "device, before", "others", "start"),
        driver_reserved=Reading(0, "NVML v2", "driver", "start"),
        device_used=Reading(1015 * MIB, "NVML", "whole", "forward"),
        device_total=Reading(80 * GIB, "NVML", "whole", "start"),
    )
    found, _ = shown(measured)
    assert found.row("process").measured == 1012 * MIB
    assert found.row("process").origin == "device, after less before"
    assert found.row("context").measured == 372 * MIB
    assert found.adds_up


def test_n09_a_process_that_was_not_read_leaves_the_verdict_unknown_and_names_the_row():
    said = "the driver's row says 0 B, less than the 671,088,640 B that its allocator held"
    peak = PhasePeak(600 * MIB, 610 * MIB, 640 * MIB, rows={"weights": 600 * MIB})
    found, text = shown(with_readings(peak, process=Reading(None, "NVML", "charged", "forward", said)))
    assert (found.row("process").measured, found.row("context").measured) == (None, None)
    assert (found.verdict.word, found.verdict.why) == ("UNKNOWN", said)
    assert "unknown for want of: context, kernels, NCCL" in text
    assert f"UNKNOWN: {said}." in text


@pytest.mark.parametrize("key", ["device_used", "device_total", "others"])
def test_n04_a_board_whose_library_answers_nothing_has_rows_that_are_n_a_with_the_reason(key):
    peak = PhasePeak(600 * MIB, 610 * MIB, 640 * MIB, 900 * MIB, rows={"weights": 600 * MIB})
    unread = Reading(None, "NVML", "", "", "NVML: not supported on this board")
    measured = with_readings(peak, process=Reading(900 * MIB, "inside", "", "forward"), **{key: unread})
    found, text = shown(measured)
    assert found.row(key).measured is None
    assert found.row(key).reasons["measured"] == "NVML: not supported on this board"
    assert found.row("free").measured is None
    assert "NVML: not supported on this board" in text


def test_n10_and_n01_a_slice_is_a_device_of_its_own_size():
    peak = PhasePeak(600 * MIB, 610 * MIB, 640 * MIB, 900 * MIB, rows={"weights": 600 * MIB})
    measured = with_readings(
        peak,
        process=Reading(900 * MIB, "inside", "", "forward"),
        others=Reading(12 * MIB, "NVML, of MIG-x", "", "start"),
        driver_reserved=Reading(0, "NVML, of MIG-x", "", "start"),
        device_used=Reading(912 * MIB, "NVML, of MIG-x", "", "forward"),
        device_total=Reading(9856 * MIB, "NVML, of MIG-x", "", "start"),
    )
    spec = replace(CUDA_SPEC, budget=replace(CUDA_SPEC.budget, job=None, reserve=0))
    found, _ = shown(measured, spec)
    assert found.row("free").measured == 9856 * MIB - 912 * MIB
    assert found.verdict.budget_bytes == 9844 * MIB


def test_a10_the_ledger_of_the_host_shows_what_was_asked_and_what_is_locked():
    elements = 4_347_592_704
    inventory = Inventory(
        spec="s",
        unique_parameters=elements,
        tensors=1,
        parameter_bytes=2 * elements,
        trainable_parameters=0,
        buffer_elements=0,
        buffer_bytes=0,
        state_entries=1,
        state_entry_elements=elements,
        dtypes={"bfloat16": elements},
        shapes={f"{elements} bfloat16 frozen": 1},
    )
    spec = replace(
        CUDA_SPEC,
        environment=EnvironmentSpec(device="GPU-1"),
        placement=PlacementSpec(weights="host-pinned"),
        precision=replace(CUDA_SPEC.precision, use="bf16"),
    )
    rows = {row.key: row for row in ledger(spec, Measured(inventory=inventory)).host}
    assert rows["host_weights"].declared == 8_695_185_408
    assert rows["pinned"].declared == 17_179_869_184
    assert rows["pinned_rounding"].declared == 17_179_869_184 - 8_695_185_408
