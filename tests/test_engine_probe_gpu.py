"""A probe on a GPU whose driver is played: who else is on it before, while and after, and what is saved of that."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import mlp_project
import pytest
from nvml_library import GIB, gpu, play, stub_folder  # noqa: F401 - fixtures

from tui.engine.context import Context, Options
from tui.engine.device import resolve
from tui.engine.nvml_live import Look, Watched
from tui.engine.outcome import Outcome
from tui.engine.steps import probe
from tui.engine.steps.calibrate import cublas_bytes
from tui.errors import RunError
from tui.probe.protocol import EnvironmentSeen, ReadingTaken
from tui.project.load import load

AT = datetime(2026, 12, 1, tzinfo=UTC)
PROJECT = mlp_project.text(4, "60 GiB")
PID = 4242
CUDA_TOTAL = 79 * GIB
"""What CUDA calls the total: without the GiB that the driver keeps."""


def traced(plan: Any) -> Outcome:
    phase = {"requested_bytes": 8 * GIB, "rows": {"retained_activations": 8 * GIB}, "end_bytes": GIB}
    phase |= {"operator": "mm", "module": "0", "micro_batch": 0}
    return ended(plan, {"traced": {"phases": {"backward": phase}, "source": "allocator history"}})


def timed(plan: Any, free: int) -> Outcome:
    """A child that left ``free`` bytes; its clocks fell and the power cap was why."""
    table = {
        "step_ms": [100.0] * 8, "loader_ms": [5.0] * 8, "completed": [True] * 8, "timed_ns": [10, 20],
        "samples_per_iteration": 4, "tokens_per_iteration": None, "allocated_trace": [], "warmup": 3,
        "first_ms": 900.0, "losses": [1.0] * 8, "loss_first": 2.0, "allocated_source": "",
        "others_cpu_ratio": None,
    }  # fmt: skip
    used = CUDA_TOTAL - free
    rows = (("device_used", used), ("device_total", CUDA_TOTAL), ("allocator_reserved", 9 * GIB))
    readings = [ReadingTaken(name, "backward", size, "inside", "what", "", size, 7.5) for name, size in rows]
    clocks = (1980, 1980, 1900, 1755)
    looks = [
        Look(10 + place, sm_mhz=mhz, reasons=0x4, processes={PID: 10 * GIB})
        for place, mhz in enumerate(clocks)
    ]
    return ended(plan, {"timed": table}, readings=tuple(readings), pid=PID, watched=Watched(looks))


def ended(plan: Any, results: dict[str, Any], **more: Any) -> Outcome:
    seen = EnvironmentSeen({"device": "H100", "device_id": "GPU-1f0c", "torch": "2.13", "python": "3.11"})
    more = {"results": results, "environment": seen, **more}
    return Outcome(plan.id, "done", "", AT, AT, plan.journal, "", **more)


@pytest.fixture
def measure(play, tmp_path, monkeypatch):  # noqa: F811
    """Measures once; ``others_after`` is what others hold when the timed child is over."""
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    path = Path("tiny.toml")
    path.write_text(PROJECT)

    async def run(others: int, others_after: int, lost: bool = False, **options: Any) -> Any:
        play(STUB_GPU_0=gpu("GPU-1f0c", 80 * GIB, others, GIB))
        context = Context(
            path, Options(**options), "r", tmp_path / "state", resolve("auto"), lambda _: None, lambda _: None
        )

        async def child(plan: Any, title: str, **_: Any) -> Outcome:
            if plan.task == "traced":
                return traced(plan)
            assert plan.extra["free_bytes"] == 79 * GIB - others
            play(STUB_GPU_0=gpu("GPU-1f0c", 80 * GIB, others_after, GIB))
            if lost:
                play(STUB_LOST_AFTER="0")
            return timed(plan, 79 * GIB - others - 10 * GIB)

        context.measure = child  # type: ignore[method-assign]
        result = await probe.run(context)
        (saved,) = load(path).measured.probe.values()
        return result, saved

    return run


async def test_everything_that_was_seen_around_and_in_a_probe_is_saved(measure):
    result, saved = await measure(5 * GIB, 5 * GIB)
    assert (result.outcome, saved.contended) == ("fits", False)
    sizes = {name: one.bytes for name, one in saved.readings.items()}
    assert sizes == {
        "requested": 8 * GIB,
        "allocator_reserved": 9 * GIB,
        "process": 10 * GIB,
        "process_nvml": 10 * GIB,
        "others": 5 * GIB,
        "others_after": 5 * GIB,
        "driver_reserved": GIB,
        "device_used": 16 * GIB,
        "device_total": 80 * GIB,
    }
    peak = saved.phases["backward"]
    assert (peak.end_requested_bytes, peak.end_reserved_bytes, peak.end_process_bytes) == (
        GIB,
        9 * GIB,
        10 * GIB,
    )
    assert (saved.throttled, saved.throttle) == (True, "power cap in 4 of 4 looks")
    assert (saved.clocks, saved.clock_ratio) == ("SM 1,980 to 1,755 MHz", round(1755 / 1980 - 1, 6))
    assert (saved.loader_ms_median, saved.drift_ratio, saved.readings["process"].at_s) == (5.0, 0.0, 7.5)


async def test_a_probe_that_others_leave_too_little_for_is_begun_only_when_forced(measure):
    with pytest.raises(
        RunError, match=r"hold 31\.000 GiB of GPU-1f0c and leave 48\.000 of 80\.000 for a budget"
    ):
        await measure(31 * GIB, 31 * GIB)
    _, saved = await measure(31 * GIB, 31 * GIB, force=True)
    assert saved.readings["process"].bytes == 10 * GIB


async def test_a_probe_during_which_others_came_is_contended(measure):
    _, saved = await measure(5 * GIB, 9 * GIB)
    assert saved.contended
    assert (saved.readings["others"].bytes, saved.readings["others_after"].bytes) == (5 * GIB, 9 * GIB)


async def test_a_probe_whose_gpu_is_lost_afterwards_is_saved_all_the_same(measure):
    _, saved = await measure(5 * GIB, 5 * GIB, lost=True)
    assert saved.readings["process"].bytes == 10 * GIB
    after = saved.readings["others_after"]
    assert after.bytes is None
    assert '"GPU-1f0c" is not on this machine' in after.unknown


async def test_a_probe_says_what_the_process_holds_beside_the_allocator_for_the_next_prediction(measure):
    _, saved = await measure(5 * GIB, 5 * GIB)
    (found,) = load(Path("tiny.toml")).measured.calibration.values()
    assert (found.context_bytes, found.device, found.torch) == (GIB, "H100", "2.13")
    assert found.library_workspaces_bytes == 0
    assert found.probe in load(Path("tiny.toml")).measured.probe
    assert list(load(Path("tiny.toml")).measured.calibration) == [saved.environment]


@pytest.mark.parametrize(
    ("blocks", "size"),
    [
        ({"33554432": 2}, 32 * 2**20),
        ({"8519680": 2, "1048576": 1}, 8519680),
        ({"8519680": 1}, None),
        ({}, None),
    ],
)
def test_a_workspace_of_cublas_is_what_was_kept_twice(blocks, size):
    assert cublas_bytes(blocks) == size


async def test_a_probe_during_which_others_came_calibrates_nothing(measure):
    await measure(5 * GIB, 9 * GIB)
    assert load(Path("tiny.toml")).measured.calibration == {}
