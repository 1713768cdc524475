"""Reported faults of allocators' readings: three that differ, a card that others fill, another card's workspaces."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from sample_project import CUDA, CUDA_PROBE, CUDA_SPEC, PROBE

from tui.budget.ledger import ledger
from tui.budget.verdict import verdict
from tui.budget.would_fit import known
from tui.engine import device as devices
from tui.engine.outcome import Outcome
from tui.engine.steps import common
from tui.errors import RunError
from tui.probe.allocator import CachingAllocator
from tui.probe.protocol import EnvironmentSeen
from tui.project.measured import PhasePeak, Reading

MIB, GIB = 2**20, 2**30
AT = datetime(2026, 12, 1, tzinfo=UTC)


def test_a01_a_tensor_of_24_bytes_has_three_readings_and_none_is_taken_for_another():
    allocator = CachingAllocator()
    allocator.malloc(1, 24)  # two rows of three fp32
    assert (allocator.requested, allocator.allocated, allocator.reserved) == (24, 512, 2 * MIB)
    peak = PhasePeak(24, 512, 2 * MIB, 420 * MIB, rows={"unattributed": 24})
    readings = {**CUDA_PROBE.readings, "process": Reading(420 * MIB, "NVML", "")}
    probe = replace(CUDA_PROBE, phases={"forward": peak}, worst_phase="forward", readings=readings)
    found = ledger(CUDA_SPEC, replace(CUDA, probe={PROBE: probe}), PROBE)
    rows = {key: found.row(key).measured for key in ("requested", "rounding", "cached", "context", "process")}
    assert rows == {
        "requested": 24,
        "rounding": 488,
        "cached": 2 * MIB - 512,
        "context": 418 * MIB,
        "process": 420 * MIB,
    }


def test_a06_free_is_what_the_driver_says_and_others_stand_on_a_line_of_their_own():
    total, used, own = 24 * GIB, round(20.5 * GIB), round(1.5 * GIB)
    peak = PhasePeak(GIB // 2, round(0.6 * GIB), GIB, own, rows={"weights": GIB // 2})
    readings = {
        "process": Reading(own, "NVML", ""),
        "others": Reading(used - own, "NVML, before", ""),
        "device_used": Reading(used, "NVML", ""),
        "device_total": Reading(total, "NVML", ""),
    }
    probe = replace(CUDA_PROBE, phases={"forward": peak}, worst_phase="forward", readings=readings)
    spec = replace(CUDA_SPEC, budget=replace(CUDA_SPEC.budget, job=None, reserve=0))
    found = ledger(spec, replace(CUDA, probe={PROBE: probe}), PROBE)
    assert found.row("free").measured == round(3.5 * GIB)
    assert found.row("others").measured == 19 * GIB
    assert verdict(own, None, device_total=total, others=19 * GIB).budget_bytes == 5 * GIB


def test_a06_a_card_that_others_fill_is_refused_before_anything_starts():
    busy = devices.Device("cuda", "GPU-1", "card", 24 * GIB, others_used_bytes=19 * GIB, free_bytes=5 * GIB)
    with pytest.raises(RunError, match=r"other processes hold 19.000 GiB of GPU-1 and leave 5.000 of 24.000"):
        devices.refuse_if_busy(busy, 6 * GIB)
    devices.refuse_if_busy(busy, 5 * GIB)


def seen(**facts):
    base = {"device": "Tesla P100-PCIE-16GB", "device_id": "GPU-1", "torch": "2.13.0", "python": "3.11.7",
            "device_total_bytes": 16 * GIB, "cudnn_benchmark": False}  # fmt: skip
    event = EnvironmentSeen({**base, **facts})
    outcome = Outcome("m", "done", "", AT, AT, "m.jsonl", "m.log", environment=event)
    return common.environment(SimpleNamespace(device=None), [outcome])


def test_a09_another_card_or_autotuning_is_another_environment_whose_measurements_do_not_count():
    here, kept = seen()
    assert kept is not None
    assert kept.cudnn_benchmark is False
    ids = [here, seen(device="Tesla V100-SXM2-16GB")[0], seen(cudnn_benchmark=True)[0]]
    assert len(set(ids)) == 3
    failed = replace(CUDA_PROBE, micro_batch=64, environment=here, outcome="out-of-memory")
    smaller = [replace(CUDA_PROBE, micro_batch=8, environment=id) for id in ids]
    assert known(CUDA_SPEC, failed, smaller[1:]).fits == frozenset()
    assert known(CUDA_SPEC, failed, smaller).fits == {8}
