"""Figures as the tables of the screens want them: aligned on the point, exact when asked."""

from __future__ import annotations

from datetime import datetime

from tui import units


def gib(value: int | None, exact: bool = False) -> str:
    """Bare GiB, or every byte."""
    return units.exact(value) if exact else units.gib(value)


def aligned(shown: str, exact: bool = False) -> str:
    """``shown`` for a column that is aligned on the point: what has none stands where the whole part ends."""
    return shown + "    " if shown in ("0", "-") and not exact else shown


def signed(value: int | None, exact: bool = False) -> str:
    """A difference, with its sign; zero has none."""
    return f"{value:+,}" if exact and value else units.signed(value)


def unit(exact: bool) -> str:
    """The unit of a column of memory."""
    return "bytes" if exact else "GiB"


def interval(low: float | None, high: float | None) -> str:
    """``268.1 to 272.2``, rounded outwards, or n/a."""
    return units.interval(low, high).replace("-", " to ")


def when(at: datetime) -> str:
    """``1 Dec 14:01 UTC``: the time as the project has it."""
    return f"{units.when(at)} UTC"


def plural(count: int, one: str) -> str:
    """``1 check``, ``3 checks``."""
    return f"{count:,} {one if count == 1 else one + 's'}"


_HYPHENED = {
    "tensor_allocated": "tensor-allocated",
    "allocator_reserved": "allocator-reserved",
    "driver_reserved": "driver-reserved",
    "others": "other processes",
}


def title(row: str) -> str:
    """The name of a ledger row or a reading as it is read."""
    return _HYPHENED.get(row, row.replace("_", " "))
