"""Does a ledger add up: checked on bytes, before anything is rounded for people."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from tui.budget.readings import Seen
from tui.project.measured import PhasePeak


@dataclass(frozen=True, slots=True)
class SumCheck:
    """One sum of a ledger, compared with the reading of it."""

    sum: str
    """Key of the sum row."""
    rows_bytes: int | None
    """What the rows inside add up to."""
    reading_bytes: int | None
    agrees: bool | None
    """None: one side is unknown."""
    text: str
    """One sentence for a reader, also when it agrees."""


def sum_checks(device: str, peak: PhasePeak, seen: Seen) -> tuple[SumCheck, ...]:
    """Every sum of a ledger, from the inside out.

    Args:
        device: cpu | cuda.
        peak: of the phase that is shown.
        seen: the measured column.
    """
    checks = [_rows(peak)]
    if device == "cpu":
        checks.append(_order(seen, "requested", "heap_reserved"))
    else:
        steps = ("requested", "tensor_allocated", "allocator_reserved", "process")
        checks += [_order(seen, inner, outer) for inner, outer in pairwise(steps)]
        checks.append(_device(seen))
    return tuple(checks)


def _rows(peak: PhasePeak) -> SumCheck:
    rows, reading = sum(peak.rows.values()), peak.requested_bytes
    if rows == reading:
        return SumCheck("requested", rows, reading, True, f"rows sum to the {reading:,} B requested")
    where = "no row" if rows < reading else "more than one row"
    missing = f"{abs(reading - rows):,} B are in {where}"
    text = f"rows sum to {rows:,} B, the allocator says {reading:,} B: {missing}"
    return SumCheck("requested", rows, reading, False, text)


def _order(seen: Seen, inner: str, outer: str) -> SumCheck:
    low, high = seen.bytes.get(inner), seen.bytes.get(outer)
    names = inner.replace("_", "-"), outer.replace("_", "-")
    if low is None or high is None:
        return SumCheck(outer, low, high, None, f"{names[1] if high is None else names[0]} is n/a")
    if low <= high:
        return SumCheck(outer, low, high, True, f"{names[0]} is within {names[1]}")
    return SumCheck(outer, low, high, False, f"{names[0]} {low:,} B is more than {names[1]} {high:,} B")


def _device(seen: Seen) -> SumCheck:
    parts = [seen.bytes.get(key) for key in ("process", "others", "driver_reserved")]
    used = seen.bytes.get("device_used")
    if used is None or None in parts:
        return SumCheck("device_used", None, used, None, "a part of device used is n/a")
    rows = sum(size for size in parts if size is not None)
    if rows == used:
        return SumCheck("device_used", rows, used, True, f"process, others and driver sum to {used:,} B")
    text = f"process, others and driver sum to {rows:,} B, the device says {used:,} B"
    return SumCheck("device_used", rows, used, False, text)
