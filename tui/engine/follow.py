"""Watching a run from any process: its own journal and those of its measurements as one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Any

from tui.engine import runs
from tui.engine.journal import POLL_S, Reader, Turns
from tui.engine.outcome import last_line
from tui.engine.runs import Run
from tui.probe.protocol import MeasurementEnded, MeasurementStarted, RunEnded

KILLED = 4
"""Exit code of a run that ended without saying so."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One event of a run."""

    event: Any
    measurement: str | None = None
    """Id of the measurement whose child said it; None: the runner did."""


async def follow(run: Run, from_start: bool = True, poll_s: float = POLL_S) -> AsyncGenerator[Seen]:
    """Yield what a run says until it ends; the last event is its RunEnded.

    Everything that a measurement said comes between its MeasurementStarted and its MeasurementEnded.  When
    the runner is gone without a RunEnded, one with code 4 and a sentence is added.  Close it (``aclosing``)
    when leaving early.

    Args:
        run: one of this or any other process, running or ended.
        from_start: False leaves out what was said before the call; an end is never left out.
        poll_s: seconds between two looks at the journals.
    """
    journals = _Journals(run)
    try:
        shown = from_start
        while True:
            turns = Turns()
            gone = runs.is_alive(run) is False
            for seen in journals.new():
                if shown or isinstance(seen.event, RunEnded):
                    yield seen
                if isinstance(seen.event, RunEnded):
                    return
                await turns.take()
            if gone:
                yield Seen(RunEnded(KILLED, _epitaph(run)))
                return
            shown = True
            await asyncio.sleep(poll_s)
    finally:
        journals.close()


def _epitaph(run: Run) -> str:
    said = f': "{line}"' if (line := last_line(run.log)) else ""
    return f"run {run.id} was ended before it finished, and did not say why{said}; log: runs/{run.log.name}"


class _Journals:
    """The journal of a run, and those of its measurements that are going on."""

    def __init__(self, run: Run) -> None:
        self._state = run.journal.parent.parent
        self._runner = Reader(run.journal)
        self._open: dict[str, Reader] = {}

    def new(self) -> Iterator[Seen]:
        """What was not given before."""
        for event in self._runner.events():
            if isinstance(event, MeasurementEnded):
                yield from self._last_of(event.id)
            yield Seen(event)
            if isinstance(event, MeasurementStarted):
                self._open[event.id] = Reader(self._state / event.journal)
        for name, reader in self._open.items():
            yield from (Seen(event, name) for event in reader.events())

    def _last_of(self, name: str) -> Iterator[Seen]:
        reader = self._open.pop(name, None)
        if reader is not None:
            reader.reopen()
            yield from (Seen(event, name) for event in reader.events())
            reader.close()

    def close(self) -> None:
        for reader in (self._runner, *self._open.values()):
            reader.close()
