"""Does it fit: one word from process, budget and reserve.

Plain numbers in bytes; unknown is None and leads to UNKNOWN with the reason, never to a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tui.probe.protocol import PHASES
from tui.project.measured import PhasePeak

Word = Literal["FITS", "FITS ONLY WITHOUT THE RESERVE", "DOES NOT FIT", "UNKNOWN"]

_OUTCOMES: dict[Word, str] = {
    "FITS": "fits",
    "FITS ONLY WITHOUT THE RESERVE": "fits-without-reserve",
    "DOES NOT FIT": "does-not-fit",
    "UNKNOWN": "unknown",
}
_WORDS: dict[str, Word] = {outcome: word for word, outcome in _OUTCOMES.items()}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a process fits its budget in its worst phase."""

    word: Word
    worst_phase: str | None
    process_bytes: int | None
    budget_bytes: int | None
    """The tighter of the entered budget and what the device leaves."""
    reserve_bytes: int
    spare_bytes: int | None
    """Budget less reserve and process; negative is how much is missing."""
    budget_from: str
    """entered, or what the device leaves and how that was found."""
    why: str = ""
    """The reason when the word is UNKNOWN or nothing was measured to the end; else ""."""
    device_left_bytes: int | None = None
    """Device total less others and what the driver keeps."""
    by: str = "measurement"
    """measurement | prediction | declaration."""
    unknown_rows: tuple[str, ...] = ()
    """Labels of the ledger's rows for want of which the word is UNKNOWN."""

    @property
    def outcome(self) -> str:
        """The word as the project file keeps it: fits, fits-without-reserve, does-not-fit, unknown."""
        return _OUTCOMES[self.word]


def verdict(
    process_bytes: int | None,
    budget_bytes: int | None,
    reserve_bytes: int = 0,
    worst_phase: str | None = None,
    *,
    device_total: int | None = None,
    others: int | None = None,
    driver_reserved: int | None = None,
    unknown: str = "process was not read",
) -> Verdict:
    """Compare what a process needs with what it may use.

    Args:
        process_bytes: what the device or kernel charges to the process, at its most.
        budget_bytes: what the job may use; None: what the device leaves.
        reserve_bytes: bytes of the budget kept free on purpose.
        worst_phase: the phase that decides, for the reader.
        device_total: all of the device, or of the host on the CPU.
        others: held by other processes.
        driver_reserved: kept by the driver.
        unknown: why ``process_bytes`` is None.

    >>> verdict(11 * 2**30, 60 * 2**30, 4 * 2**30).word
    'FITS'
    >>> verdict(58, 60, 4).word, verdict(61, 60, 4).spare_bytes, verdict(None, 60).word
    ('FITS ONLY WITHOUT THE RESERVE', -5, 'UNKNOWN')
    """
    limit, origin, left = _limit(budget_bytes, device_total, others, driver_reserved)
    spare = None if limit is None or process_bytes is None else limit - reserve_bytes - process_bytes
    word: Word = "UNKNOWN"
    why = ""
    if process_bytes is None:
        why = unknown
    elif limit is None:
        why = origin
    elif process_bytes + reserve_bytes <= limit:
        word = "FITS"
    elif process_bytes <= limit:
        word = "FITS ONLY WITHOUT THE RESERVE"
    else:
        word = "DOES NOT FIT"
    return Verdict(word, worst_phase, process_bytes, limit, reserve_bytes, spare, origin, why, left)


def after(outcome: str, failure: str, found: Verdict) -> Verdict:
    """``found``, unless the measurement ended before it could be found.

    Args:
        outcome: of the probe, as the project file keeps it.
        failure: its sentence, if any.
        found: the verdict from the readings.
    """
    if outcome == "out-of-memory":
        return replace(found, word="DOES NOT FIT", spare_bytes=None, why=failure or "it ran out of memory")
    if outcome in ("failed", "cancelled", "not-tested"):
        why = failure or f"the measurement was {outcome}"
        return replace(found, word="UNKNOWN", spare_bytes=None, why=why)
    return found


def word_of(outcome: str) -> Word:
    """The verdict's word for a probe's outcome in the project file.

    >>> word_of("fits-without-reserve"), word_of("out-of-memory"), word_of("cancelled")
    ('FITS ONLY WITHOUT THE RESERVE', 'DOES NOT FIT', 'UNKNOWN')
    """
    if outcome == "out-of-memory":
        return "DOES NOT FIT"
    return _WORDS.get(outcome, "UNKNOWN")


def worst_phase(phases: Mapping[str, PhasePeak]) -> str | None:
    """The phase with the largest requested peak, the earlier one of equals; None when there is none."""
    order = [phase for phase in PHASES if phase in phases]
    return max(order, key=lambda phase: phases[phase].requested_bytes) if order else None


def _limit(
    budget: int | None, total: int | None, others: int | None, driver: int | None
) -> tuple[int | None, str, int | None]:
    """The bytes that may be used, where that comes from, and what the device leaves."""
    left = None if total is None else total - (others or 0) - (driver or 0)
    taken = [name for name, size in (("other processes", others), ("driver-reserved", driver)) if size]
    origin = "device total" + (f" less {' and '.join(taken)}" if taken else "")
    if others is None:
        origin += ", other processes n/a"
    if budget is None and left is None:
        return None, "no budget is entered and the device's total is not known", None
    if budget is None or (left is not None and left < budget):
        return left, origin, left
    return budget, "entered", left
