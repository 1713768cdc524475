"""What is known of a run that is going on, folded from its events one by one.

Bounded: however long the run, the traces keep at most ``Trace.KEEP`` values and the lists their last few.
Pure: no Textual, no files; the clock is that of whoever sets ``elapsed_s``.
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from tui.probe import protocol


class Trace:
    """Values from the left to the right; when full it halves its resolution and never scrolls."""

    KEEP = 512

    def __init__(self, group: int = 1, expected: int | None = None) -> None:
        self.group = group
        """Values that belong together: halving keeps whole groups."""
        self.expected = expected
        """Values that will come, when that is known."""
        self.values: list[float | None] = []
        self.every = 1
        """One group in ``every`` is kept."""
        self._groups = 0

    def add(self, *values: float | None) -> None:
        """Add one group of values; None and NaN are kept as "not a number"."""
        keep = self._groups % self.every == 0
        self._groups += 1
        if not keep:
            return
        self.values.extend(one if one is not None and isfinite(one) else None for one in values)
        if len(self.values) + self.group > self.KEEP:
            self.every *= 2
            groups = range(0, len(self.values), 2 * self.group)
            self.values = [one for start in groups for one in self.values[start : start + self.group]]

    def top(self) -> float:
        """The largest value, or 0 when there is none."""
        return max((one for one in self.values if one is not None), default=0.0)


@dataclass
class Read:
    """The last and the largest of the readings of one name."""

    now: int | None
    peak: int | None
    phase: str
    source: str
    unknown: str = ""
    meaning: str = ""
    at_s: float | None = None


@dataclass
class Child:
    """What one measuring process has said so far."""

    id: str = ""
    step: str = ""
    task: str = ""
    title: str = ""
    journal: str = ""
    phase: str = ""
    iteration: int | None = None
    micro: int | None = None
    seen: list[str] = field(default_factory=list)
    """Phases entered, each once."""
    done: int = 0
    total: int | None = None
    what: str = ""
    samples: int = 0
    milliseconds: deque[float] = field(default_factory=lambda: deque(maxlen=4096))
    """Of timed iterations."""
    last_loss: float | None = None
    steps: Trace = field(default_factory=Trace)
    allocated: Trace = field(default_factory=lambda: Trace(group=3))
    allocated_source: str = ""
    allocated_now: int | None = None
    readings: dict[str, Read] = field(default_factory=dict)
    checks: dict[str, protocol.CheckDone] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    failed: protocol.Failed | None = None

    def median_ms(self) -> float | None:
        """Median of the timed iterations so far."""
        return statistics.median(self.milliseconds) if self.milliseconds else None

    def p90_ms(self) -> float | None:
        """The nearest-rank 90th percentile of the timed iterations so far."""
        ordered = sorted(self.milliseconds)
        return ordered[min(len(ordered) - 1, -(-9 * len(ordered) // 10) - 1)] if ordered else None

    def rate(self) -> float | None:
        """Samples a second over the timed iterations so far."""
        total = sum(self.milliseconds)
        return 1000 * self.samples / total if total > 0 else None

    def left_s(self) -> float | None:
        """Seconds until the timed iterations are done, by their median."""
        median = self.median_ms()
        if median is None or self.total is None or self.what != "iterations":
            return None
        return max(0, self.total - self.done) * median / 1000


@dataclass
class Ended:
    """A measurement of this run that is over."""

    id: str
    title: str
    outcome: str
    text: str
    step: str


@dataclass
class Live:
    """A run as seen so far; ``apply`` each event in order."""

    run: str = ""
    device: str = ""
    order: tuple[str, ...] = ()
    step: str = ""
    text: str = ""
    expected_s: float | None = None
    elapsed_s: float | None = None
    """Since this app first saw the step; None when it joined later."""
    child: Child = field(default_factory=Child)
    ended: deque[Ended] = field(default_factory=lambda: deque(maxlen=64))
    outcomes: dict[str, str] = field(default_factory=dict)
    """Outcome of each step that ended."""
    checks: dict[str, protocol.CheckDone] = field(default_factory=dict)
    """Every check of the step, from all its children."""
    said: str = ""
    """What the last step that ended well said of its result."""
    failure: str = ""
    """The sentence of the last thing that went wrong."""
    code: int | None = None
    """Exit code, once the run has ended."""
    plan: str = ""
    """What a sweep or a search said last of what it does; "" for a single batch."""
    plan_expected_s: float | None = None
    """Seconds that it expected then, from ``plan_at_s`` on."""
    plan_at_s: float | None = None
    generation: int = 0
    """Counts the measurements: traces start again with each."""

    def plan_left_s(self) -> float | None:
        """Seconds that a sweep or a search still expects; None when it cannot say."""
        if self.plan_expected_s is None or self.elapsed_s is None:
            return None
        return max(0.0, self.plan_expected_s - (self.elapsed_s - (self.plan_at_s or 0.0)))

    def apply(self, event: Any) -> bool:
        """Take one event in; True when the screen should not wait for its next tick to show it."""
        handler = _HANDLERS.get(type(event))
        if handler is None:
            return False
        handler(self, event)
        return type(event) in _AT_ONCE


def _run_started(live: Live, event: protocol.RunStarted) -> None:
    live.run, live.device, live.order = event.run, event.device, tuple(event.steps)


def _step_started(live: Live, event: protocol.StepStarted) -> None:
    live.step, live.text, live.expected_s = event.step, event.text, event.expected_s
    live.checks, live.child, live.elapsed_s = {}, Child(), None
    live.plan, live.plan_expected_s, live.plan_at_s = "", None, None


def _planned(live: Live, event: protocol.Planned) -> None:
    live.plan, live.plan_expected_s, live.plan_at_s = event.text, event.expected_s, live.elapsed_s


def _measurement_started(live: Live, event: protocol.MeasurementStarted) -> None:
    live.child = Child(event.id, event.step, event.task, event.title, event.journal)
    live.step = live.step or event.step
    live.generation += 1


def _measurement_ended(live: Live, event: protocol.MeasurementEnded) -> None:
    title = live.child.title if live.child.id == event.id else event.id
    live.ended.append(Ended(event.id, title, event.outcome, event.text, live.step))
    if event.text and event.outcome not in ("done", "fits"):
        live.failure = event.text


def _step_ended(live: Live, event: protocol.StepEnded) -> None:
    live.outcomes[event.step] = event.outcome
    if event.code and event.text:
        live.failure = event.text
    live.said = "" if event.code else event.text


def _run_ended(live: Live, event: protocol.RunEnded) -> None:
    live.code = event.code
    if event.code and event.text:
        live.failure = event.text


def _phase(live: Live, event: protocol.PhaseEntered) -> None:
    child = live.child
    child.phase, child.iteration, child.micro = event.phase, event.iteration, event.micro
    if event.phase not in child.seen:
        child.seen.append(event.phase)


def _iteration(live: Live, event: protocol.IterationDone) -> None:
    child = live.child
    child.last_loss = event.loss
    if event.kind == "timed":
        if event.ms is not None and isfinite(event.ms):
            child.milliseconds.append(event.ms)
            child.samples += event.samples
        child.steps.add(event.ms)
    if event.allocated and event.kind in ("timed", "traced"):
        triple = (event.allocated + [event.allocated[-1]] * 3)[:3]
        child.allocated.add(*triple)
        child.allocated_now = event.allocated[-1]
        child.allocated_source = event.allocated_source


def _reading(live: Live, event: protocol.ReadingTaken) -> None:
    old = live.child.readings.get(event.name)
    peak = max((one for one in (event.bytes, old and old.peak) if one is not None), default=None)
    phase = event.phase if old is None or peak != old.peak else old.phase
    now = event.bytes if event.end is None else event.end
    live.child.readings[event.name] = Read(
        now, peak, phase, event.source, event.unknown, event.meaning, event.at_s
    )


def _check(live: Live, event: protocol.CheckDone) -> None:
    live.child.checks[event.key] = live.checks[event.key] = event


def _progress(live: Live, event: protocol.Progress) -> None:
    child = live.child
    child.done, child.total, child.what = event.done, event.total, event.what
    if event.what == "iterations":
        child.steps.expected = event.total
        child.allocated.expected = 3 * event.total


def _environment(live: Live, event: protocol.EnvironmentSeen) -> None:
    live.child.facts = event.facts


def _failed(live: Live, event: protocol.Failed) -> None:
    live.child.failed = event
    live.failure = f"{event.where}: {event.sentence}" if event.where else event.sentence


_HANDLERS: dict[type, Any] = {
    protocol.RunStarted: _run_started,
    protocol.StepStarted: _step_started,
    protocol.StepEnded: _step_ended,
    protocol.Planned: _planned,
    protocol.MeasurementStarted: _measurement_started,
    protocol.MeasurementEnded: _measurement_ended,
    protocol.RunEnded: _run_ended,
    protocol.PhaseEntered: _phase,
    protocol.IterationDone: _iteration,
    protocol.ReadingTaken: _reading,
    protocol.CheckDone: _check,
    protocol.Progress: _progress,
    protocol.EnvironmentSeen: _environment,
    protocol.Failed: _failed,
}
_AT_ONCE = (
    protocol.RunStarted,
    protocol.StepStarted,
    protocol.StepEnded,
    protocol.Planned,
    protocol.MeasurementStarted,
    protocol.MeasurementEnded,
    protocol.RunEnded,
    protocol.CheckDone,
    protocol.Failed,
)
