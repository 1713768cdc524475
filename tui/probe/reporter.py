"""What a task tells its events and phases to."""

from __future__ import annotations

from typing import Any, Dict, Optional

from .journal import Journal
from .protocol import Failed, PhaseEntered


class Reporter:
    """What a task writes to: events go to the journal, phases are remembered for the sentence of a failure."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.phase = "start"
        self._place: Dict[str, int] = {}

    def __call__(self, event: Any) -> None:
        """Append any event of the protocol."""
        self._journal.add(event)

    def enter(self, phase: str, iteration: Optional[int] = None, micro: Optional[int] = None) -> None:
        """Enter a phase, and say so."""
        self.phase = phase
        place = (("iteration", iteration), ("micro", micro))
        self._place = {name: value for name, value in place if value is not None}
        self._journal.add(PhaseEntered(phase, iteration, micro))

    def note(self, phase: str) -> None:
        """Remember a phase without writing: used inside timed iterations."""
        self.phase = phase
        self._place = {}

    def located(self, failed: Failed) -> Failed:
        """``failed`` with iteration and micro-batch of the phase, as far as that is known and not told already."""
        if failed.kind == "out-of-memory" and "phase" not in failed.details:
            failed.details = {**self._place, **failed.details}
        return failed

    def sync(self) -> None:
        """Keep what was written even if the machine goes down."""
        self._journal.sync()
