"""Faults that people reported of timing tools and data loaders, each with its right value."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tui.budget import loader, throughput
from tui.budget.time import left_s
from tui.engine import host
from tui.engine.outcome import Outcome
from tui.engine.steps.times import with_times
from tui.probe.device import cuda
from tui.project.measured import Probe

AT = datetime(2026, 12, 1, tzinfo=UTC)


class Queue:
    """A device whose clock only goes on when it works: ``launch`` returns at once."""

    def __init__(self) -> None:
        self.ready_ms, self.passed_ms, self.waits = 0.0, 0.0, 0

    def launch(self, ms: float) -> None:
        self.ready_ms += ms

    def synchronize(self, index: Any = None) -> None:
        self.waits += 1
        self.passed_ms = self.ready_ms

    def Event(self, enable_timing: bool) -> Any:
        assert enable_timing
        event = SimpleNamespace(at=None)
        event.record = lambda: setattr(event, "at", self.ready_ms)
        event.query = lambda: event.at <= self.passed_ms
        event.elapsed_time = lambda later: later.at - event.at
        return event


def test_a_step_takes_what_was_queued_and_not_what_its_launch_took(monkeypatch):
    """Case T01: 30 ms of queued work, a launch of next to nothing; without waiting nothing is shown at all."""
    device = Queue()
    monkeypatch.setattr(cuda.torch, "cuda", device)
    watch = cuda.CudaStopwatch()
    begun = time.perf_counter()
    for _ in range(3):
        watch.begin()
        device.launch(30)
        watch.end()
    assert watch.finished() == []
    assert time.perf_counter() - begun < 0.005 * 3
    assert (watch.finish(), device.waits) == ([30.0, 30.0, 30.0], 1)


def probe_of(**table: Any) -> Probe:
    """A Probe from the table of a timed child."""
    count = len(table["step_ms"])
    made = {
        "first_ms": 1.0,
        "warmup": 3,
        "samples_per_iteration": 1,
        "tokens_per_iteration": None,
        "losses": [1.0] * count,
        "loss_first": 1.0,
        "allocated_trace": [],
        "allocated_source": "",
        "others_cpu_ratio": None,
        **table,
    }
    timed = Outcome("p", "done", "", AT, AT, "runs/p.jsonl", "runs/p.log", results={"timed": made})
    return with_times(Probe(AT, "sha256:0", "e-1", "fp32", 1, 1, "unknown"), timed)


def test_what_compiling_and_warming_up_took_is_shown_apart_and_not_averaged():
    """Case T02: 12.0 s, then nine of 0.5 s: 2.0 a second, not 0.606."""
    found = probe_of(first_ms=12_000.0, step_ms=[500.0] * 9)
    assert (found.samples_per_s, found.first_ms, found.warmup, found.iterations) == (2.0, 12_000.0, 3, 9)


def test_the_remaining_time_after_a_resume_is_that_of_the_steps_since_it():
    """Case T04: 100 steps in 50 s since step 7,500, 2,400 left."""
    assert left_s(50.0, 7600 - 7500, 10_000 - 7600) == 1200.0
    assert left_s(0.0, 0, 2400) is None


def test_the_remaining_time_is_of_one_iteration_when_the_interval_covers_a_hundred():
    """Case T05: 31.604 s a 100 iterations, 32,100 left: 2.82 h, not 281.8."""
    left = left_s(31.604, 100, 32_100)
    assert left == pytest.approx(10_144.884)
    assert round(left / 3600, 2) == 2.82


def test_a_difference_within_the_drift_of_the_clocks_decides_nothing():
    """Case T07: the card fell from 1,425 to 1,237; the second variant came out 5 % slower."""
    drift = 1237 / 1425 - 1
    assert not throughput.is_faster(1.0, 0.95, drift)
    assert throughput.is_faster(1.0, 0.85, drift)
    assert throughput.is_faster(1.0, 0.95, None)


def test_drift_over_a_run_is_in_the_result():
    found = probe_of(step_ms=[100.0, 100.0, 100.0, 110.0, 120.0, 120.0])
    assert (found.drift_ratio, found.slow_every) == (0.2, None)
    assert probe_of(step_ms=[100.0] * 5).unknown["drift_ratio"] == "5 timed iterations; drift needs 6"


def test_two_workers_that_cannot_keep_up_leave_the_device_idle():
    """Case D01: 0.434 s of loading a batch, two workers, a step of 0.1 s."""
    found = loader.loading(0.434, 0.1, 2)
    assert (found.iteration_s, round(found.idle_ratio, 2), found.workers_needed) == (0.217, 0.54, 5)
    assert loader.loading(0.434, 0.1, 5).idle_ratio == 0
    assert loader.loading(0.1, 0.1, 0).iteration_s == 0.2


@pytest.mark.parametrize("wrong", [(-1.0, 1.0, 1), (1.0, 0.0, 1), (float("nan"), 1.0, 1), (1.0, 1.0, -1)])
def test_loading_times_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="got"):
        loader.loading(*wrong)


def test_every_fourth_batch_slow_is_a_period_and_the_rate_is_of_whole_periods():
    """Case D03: 0.1, 0.1, 0.1, 4.0 s: 4 in 4.3 s, although three alone would claim 10 a second."""
    pattern = [100.0, 100.0, 100.0, 4000.0]
    found = probe_of(step_ms=[*pattern, *pattern, 100.0, 100.0, 100.0])
    assert (found.slow_every, found.slow_part, found.samples_per_s) == (4, "step", round(4 / 4.3, 4))
    assert found.unknown["samples_per_s_low"] == "2 whole periods of 4 timed iterations; an interval needs 5"
    assert probe_of(step_ms=pattern * 5).samples_per_s_low == round(4 / 4.3, 4)


@pytest.mark.parametrize(
    ("times", "period"),
    [
        ([1.0, 3.0] * 4, 2),
        ([3.0, 1.0, 1.0] * 3, 3),
        ([1.0] * 8, None),
        ([1.0, 1.0, 1.0, 9.0, 1.0, 1.0], None),  # once is no period
        ([1.0, 9.0, 1.0, 1.0, 9.0, 9.0, 1.0, 1.0], None),
        ([1.0, 9.0, 9.0, 1.0, 1.0, 1.0], None),  # two in a row
        ([], None),
    ],
)
def test_a_period_is_slow_ones_at_one_place_of_every_period(times, period):
    assert throughput.slow_every(times) == period


def test_a_loader_that_is_slow_now_and_then_is_told_although_the_steps_are_even():
    found = probe_of(step_ms=[100.0] * 8, loader_ms=[1.0, 1.0, 1.0, 400.0] * 2)
    assert (found.slow_every, found.slow_part) == (4, "loader")
    assert (found.loader_ms_median, found.samples_per_s) == (1.0, 10.0)
    assert probe_of(step_ms=[100.0]).unknown["loader_ms_median"] == "making the batches was not timed"


def test_workers_are_bounded_by_the_processors_that_are_allowed():
    """Case D04: 104 workers were asked for where 23 of 208 processors are allowed."""
    assert loader.bounded(104, 23) == (23, "104 workers share the 23 processors that are allowed here")
    assert loader.bounded(8, 23) == (8, "")


def test_the_processors_that_are_allowed_are_those_of_affinity_and_quota(tmp_path):
    own = len(os.sched_getaffinity(0))
    assert host.cpus_allowed(tmp_path) == own
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/job\n")
    (tmp_path / "sys/fs/cgroup/job").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/job/cpu.max").write_text("max 100000\n")
    assert host.cpus_allowed(tmp_path) == own
    (tmp_path / "sys/fs/cgroup/job/cpu.max").write_text("150000 100000\n")
    assert host.cpus_allowed(tmp_path) == 1
    (tmp_path / "proc/self/cgroup").write_text("3:cpu,cpuacct:/job\n")
    for name, text in (("cpu.cfs_quota_us", "50000\n"), ("cpu.cfs_period_us", "100000\n")):
        (tmp_path / "sys/fs/cgroup/cpu/job").mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys/fs/cgroup/cpu/job" / name).write_text(text)
    assert host.cpus_allowed(tmp_path) == 1


def test_samples_and_tokens_of_a_skipped_step_are_not_counted():
    found = probe_of(
        step_ms=[1000.0] * 5,
        samples_per_iteration=10,
        tokens_per_iteration=80.0,
        tokens=[100, 100, 100, 50, 50],
        completed=[True, True, False, True, True],
    )
    assert (found.samples_per_s, found.tokens_per_s) == (8.0, 60.0)


def test_the_clocks_of_a_cpu_are_unknown_with_a_reason():
    found = probe_of(step_ms=[100.0])
    assert (found.throttled, found.clocks) == (None, None)
    assert {"throttled", "clocks"} <= set(found.unknown)
