"""Figures as the tables of the screens want them: aligned on the point, exact when asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tui import units


@dataclass(frozen=True, slots=True)
class Scale:
    """The unit that a table of memory is in."""

    unit: str
    factor: int
    """GiB in one of the unit, turned round: 1,024 for MiB."""

    @property
    def exact(self) -> bool:
        """Whether every byte is shown."""
        return self.unit == "bytes"


GIB = Scale("GiB", 1)
MIB = Scale("MiB", 1024)
BYTES = Scale("bytes", 0)


def scale_of(exact: bool, largest: int | None) -> Scale:
    """Bytes when asked for, else GiB; MiB for a table whose largest row is below one GiB."""
    if exact:
        return BYTES
    return MIB if largest is not None and largest < 2**30 else GIB


def sized(value: int | None, scale: Scale) -> str:
    """A bare figure in the table's unit, three decimals; or every byte."""
    if scale.exact or value is None:
        return units.exact(value)
    if scale is MIB and abs(value) >= 10 * 2**30:
        return f"{value / 2**20:,.0f}"
    return units.gib(value * scale.factor)


def aligned(shown: str, scale: Scale) -> str:
    """``shown`` for a column that is aligned on the point: what has none stands where the whole part ends."""
    pointless = "." not in shown and shown != units.NA
    return shown + "    " if pointless and not scale.exact else shown


def signed(value: int | None, scale: Scale) -> str:
    """A difference, with its sign; zero has none."""
    if value is None or not value:
        return units.signed(value)
    return f"{value:+,}" if scale.exact else ("+" if value > 0 else "") + sized(value, scale)


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
    "process_nvml": "process, by NVML",
    "inactive_split": "inactive-split",
    "host_rss": "host RSS",
}


def title(row: str) -> str:
    """The name of a ledger row or a reading as it is read."""
    return _HYPHENED.get(row, row.replace("_", " "))
