"""What a task tells its events and phases to."""

from __future__ import annotations

from typing import Any, Optional

from .journal import Journal
from .protocol import PhaseEntered


class Reporter:
    """What a task writes to: events go to the journal, phases are remembered for the sentence of a failure."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.phase = "start"

    def __call__(self, event: Any) -> None:
        """Append any event of the protocol."""
        self._journal.add(event)

    def enter(self, phase: str, iteration: Optional[int] = None, micro: Optional[int] = None) -> None:
        """Enter a phase, and say so."""
        self.phase = phase
        self._journal.add(PhaseEntered(phase, iteration, micro))

    def note(self, phase: str) -> None:
        """Remember a phase without writing: used inside timed iterations."""
        self.phase = phase

    def sync(self) -> None:
        """Keep what was written even if the machine goes down."""
        self._journal.sync()
