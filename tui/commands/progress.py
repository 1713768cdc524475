"""Progress of a run on stderr: one line a step and a measurement, and a counter where stderr is a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any

from tui.commands.output import Output
from tui.probe.protocol import (
    CheckDone,
    IterationDone,
    MeasurementEnded,
    MeasurementStarted,
    PhaseEntered,
    Progress,
    StepEnded,
)
from tui.report.lines import clean

REDRAW_S = 0.25


class ProgressLines:
    """Called with every event of a run."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._live = sys.stderr.isatty() and not output.quiet
        self._title = ""
        self._since = self._drawn = time.monotonic()
        self._open = False

    def __call__(self, event: Any) -> None:
        """Show one event."""
        if isinstance(event, MeasurementStarted):
            self._title, self._since = f"{event.step}: {event.title}", time.monotonic()
            self._draw("starting", force=True)
        elif isinstance(event, MeasurementEnded):
            self._close()
            took = time.monotonic() - self._since
            said = "" if event.outcome == "done" else f", {event.outcome}"
            self._output.talk(f"  {self._title}{said}  {took:.1f} s")
        elif isinstance(event, StepEnded):
            self._close()
            if event.text:
                self._output.talk(clean(f"{event.step}: {event.text}"))
        elif isinstance(event, Progress):
            self._draw(f"{event.done} of {event.total} {event.what}")
        elif isinstance(event, IterationDone) and event.ms is not None:
            self._draw(f"iteration {event.index + 1}, {event.ms:.1f} ms")
        elif isinstance(event, PhaseEntered):
            self._draw(event.phase)
        elif isinstance(event, CheckDone) and event.outcome == "fail":
            self._close()
            self._output.talk(clean(f"  × {event.title}: {event.text}"))

    def _draw(self, text: str, force: bool = False) -> None:
        now = time.monotonic()
        if not self._live or (now - self._drawn < REDRAW_S and not force):
            return
        self._drawn, self._open = now, True
        sys.stderr.write(f"\r\x1b[K  {self._title}: {text}"[:200])
        sys.stderr.flush()

    def _close(self) -> None:
        if self._open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._open = False
