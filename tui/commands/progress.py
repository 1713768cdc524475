"""Progress of a run on stderr: one line a step and a measurement, and how far it is in between.

On a terminal the last line is redrawn; elsewhere, as in a batch job's log, a line is added now and then.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any

from tui import units
from tui.commands.output import Output
from tui.probe.protocol import (
    CheckDone,
    IterationDone,
    MeasurementEnded,
    MeasurementStarted,
    PhaseEntered,
    Planned,
    Progress,
    StepEnded,
)
from tui.report.lines import clean, clip

REDRAW_S = 0.25
LOGGED_S = 10.0
"""Seconds between two lines about one measurement where stderr is not a terminal."""

KNOWN_AFTER_S = 1.0
"""What remains is told once this much has passed since the first progress."""


COUNTED = frozenset({"agree", "disagree", "done"})
"""Outcomes of the step params with an inventory, which has no id, in the project."""


def has_result(event: StepEnded) -> bool:
    """Whether the step left something in the project."""
    return bool(event.result) or event.outcome in COUNTED


class ProgressLines:
    """Called with every event of a run."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._live = sys.stderr.isatty()
        self._title = self._task = self._overall = ""
        self._since = self._shown = time.monotonic()
        self._first: tuple[float, int] | None = None
        self._open = False
        self._failed = False

    def __call__(self, event: Any) -> None:
        """Show one event."""
        if self._output.quiet:
            return
        if isinstance(event, MeasurementStarted):
            self._begin(event)
        elif isinstance(event, MeasurementEnded):
            self._end(event)
        elif isinstance(event, StepEnded):
            self._close()
            self._overall = ""
            if event.text and not self._is_the_error(event):
                self._output.talk(clean(f"{event.step}: {event.text.removeprefix(f'{event.step}: ')}"))
        elif isinstance(event, Planned):
            self._close()
            self._output.talk(clean(f"  plan: {event.text}"))
        elif isinstance(event, Progress):
            self._progress(event)
        elif isinstance(event, IterationDone) and event.ms is not None and self._first is None:
            self._draw(f"iteration {event.index + 1}, {event.ms:.1f} ms")
        elif isinstance(event, PhaseEntered) and self._first is None:
            self._draw(event.phase)
        elif isinstance(event, CheckDone) and event.outcome == "fail":
            self._close()
            self._output.talk(clean(f"  × {event.title}: {event.text}"))

    def _is_the_error(self, event: StepEnded) -> bool:
        """Whether the command ends with this sentence as its error: the first step that left no result."""
        if not event.code or has_result(event) or self._failed:
            return False
        self._failed = True
        return True

    def _begin(self, event: MeasurementStarted) -> None:
        self._title, self._task = f"{event.step}: {event.title}{self._overall}", event.task
        self._since = self._shown = time.monotonic()
        self._first = None
        self._draw("starting", force=self._live)

    def _end(self, event: MeasurementEnded) -> None:
        self._close()
        words = {"done": "", "crashed": ", killed as rehearsed"} if "killed" in self._title else {"done": ""}
        said = words.get(event.outcome, f", {event.outcome}")
        took = units.long_duration(time.monotonic() - self._since)
        self._output.talk(clean(f"  {self._title}{said}  {took}"))

    def _progress(self, event: Progress) -> None:
        if event.what in ("blocks", "batches"):  # of the step, between its measurements
            self._overall = f" ({event.done + 1} of {event.total})"
            return
        if event.what == "candidates":  # how many there will be is not known
            self._overall = f" ({event.done + 1})"
            return
        now = time.monotonic()
        if self._first is None:
            self._first = (now, event.done)
        self._draw(f"{event.done} of {event.total} {event.what}{self._times(event, now)}")

    def _times(self, event: Progress, now: float) -> str:
        """What has passed, and what remains at the rate since the first progress."""
        began, before = self._first or (now, event.done)
        text = f", {units.long_duration(now - self._since)} elapsed"
        if event.done > before and now - began >= KNOWN_AFTER_S:
            left = (now - began) / (event.done - before) * (event.total - event.done)
            text += f", {units.long_duration(left)} remaining at this rate"
        return text

    def _draw(self, text: str, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now - self._shown < (REDRAW_S if self._live else LOGGED_S):
            return
        self._shown = now
        line = clean(f"  {self._title}: {text}")
        if self._live:
            self._open = True
            self._output.whisper("\r\x1b[K" + clip(line, _columns() - 1))
        else:
            self._output.talk(line)

    def _close(self) -> None:
        if self._open:
            self._output.whisper("\r\x1b[K")
            self._open = False


def _columns() -> int:
    return shutil.get_terminal_size().columns
