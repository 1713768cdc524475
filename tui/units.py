"""Parse and print bytes, durations, rates and counts: the only place that does.

Sizes are bytes (int), times milliseconds or seconds as the name says, shares fractions of 1.  Every function
that prints takes None and says "n/a".  A non-zero value never prints as zero: it gets a "<" instead.  Ranges
round outwards, so that what is printed always contains what is meant.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

NA = "n/a"
KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
LARGEST = 2**63 - 1
"""Largest size in bytes; TOML promises integers up to it."""

_BINARY = {"kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB, "pib": 2**50}
_DECIMAL = {"kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_SIZE = re.compile(
    r"\s*([+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-z]*)\s*"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


# --- parsing ----------------------------------------------------------------------------------------


def parse_bytes(value: object) -> int:
    """The bytes that ``value`` means: "60 GiB", "1.5 GB", "512 MiB", "592 B", or a whole number of bytes.

    Fractions of a byte are dropped, so a budget never grows by parsing.

    Raises:
        ValueError: a sentence ``what; how to mend it`` for an ambiguous or missing unit, a negative, a
            boolean, something that is not finite, or more than 2**63 - 1.

    >>> parse_bytes("1.5 GB"), parse_bytes("2 KiB"), parse_bytes(7)
    (1500000000, 2048, 7)
    """
    if isinstance(value, bool):
        raise ValueError(f'{str(value).lower()} is not a size; write one with its unit, such as "60 GiB"')
    if isinstance(value, int):
        return _in_range(value, str(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f'{value} is not a size; write one with its unit, such as "60 GiB"')
        raise ValueError(f'{value!r} has no unit; write "{value!r} GiB", or a whole number of bytes')
    if not isinstance(value, str):
        raise ValueError('this is not a size; write one with its unit, such as "60 GiB"')
    return _parse_text(value)


def _parse_text(text: str) -> int:
    shown = f'"{text}"' if len(text) <= 40 else f'"{text[:40]}..."'
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f'{shown} is not a size; write a number and a unit, such as "60 GiB"')
    digits, unit = found.groups()
    try:
        number = Fraction(digits.replace(",", "").replace("_", ""))
    except ValueError:
        raise ValueError(f"{shown} is not a size; write it with fewer digits") from None
    if number < 0:
        raise ValueError(f"{shown} is negative; write a size of 0 or more")
    exactly = number * _factor(number, digits, unit, shown)
    if unit == "B" and exactly.denominator > 1:
        raise ValueError(f"{shown} is a fraction of a byte; write a whole number")
    if 0 < exactly < 1:
        raise ValueError(f"{shown} is less than one byte; check the number and its unit")
    return _in_range(int(exactly), shown)


def _factor(number: Fraction, digits: str, unit: str, shown: str) -> int:
    """Bytes of one ``unit``; refuses those that people read in two ways."""
    if unit == "B":
        return 1
    if unit in _DECIMAL:
        return _DECIMAL[unit]
    if unit.lower() in _BINARY:
        return _BINARY[unit.lower()]
    if not unit:
        bare = f", or {digits} without quotes for bytes" if digits.isdecimal() else ""
        raise ValueError(f'{shown} has no unit; write "{digits} GiB"{bare}')
    letter = unit[0].upper()
    if f"{letter}B" in _DECIMAL and len(unit) == 1:
        binary, power = int(number * _BINARY[f"{letter.lower()}ib"]), int(number * _DECIMAL[f"{letter}B"])
        raise ValueError(
            f'{shown} could mean two sizes; write "{digits} {letter}iB" ({binary:,} B) '
            f'or "{digits} {letter}B" ({power:,} B)'
        )
    if f"{letter}B" in _DECIMAL and unit.lower() == f"{letter.lower()}b":
        raise ValueError(f'{shown} could mean bits or bytes; write "{digits} {letter}B" for bytes')
    raise ValueError(f"{shown} has an unknown unit; use B, KiB, MiB, GiB, TiB or kB, MB, GB, TB")


def _in_range(size: int, shown: str) -> int:
    if size < 0:
        raise ValueError(f"{shown} is negative; write a size of 0 or more")
    if size > LARGEST:
        raise ValueError(f"{shown} is larger than any device; check the number and its unit")
    return size


# --- bytes ----------------------------------------------------------------------------------------


def gib(size: int | None, digits: int = 3) -> str:
    """Bytes as a bare number of GiB: "9.321", "0" for exactly none, "<.001" for less than it can show."""
    return NA if size is None else _fixed(size / GIB, digits)


def cell(size: int | None) -> str:
    """A cell of a ledger whose header says GiB: "0", "<.001", "9.321", "n/a"."""
    return gib(size)


def signed(size: int | None) -> str:
    """A difference in GiB with its sign: "+0.010", "-1.750", "+<.001", "0"."""
    if not size:
        return NA if size is None else "0"
    return ("-" if size < 0 else "+") + _fixed(abs(size) / GIB, 3)


def size(value: int | None) -> str:
    """Bytes with the unit that suits them: "9.321 GiB", "20.0 MiB", "128.0 KiB", "592 B"."""
    if value is None:
        return NA
    for unit, name, digits in ((1, "B", 0), (KIB, "KiB", 1), (MIB, "MiB", 1), (GIB, "GiB", 3)):
        if abs(round(value / unit, digits)) < 1024:
            return f"{value / unit:,.{digits}f} {name}"
    return f"{value / TIB:,.3f} TiB"


def exact(size: int | None) -> str:
    """Every byte: "14,773,325,824"."""
    return NA if size is None else f"{size:,}"


def span(low: int | None, high: int | None, digits: int | None = None) -> str:
    """A range of bytes in GiB, rounded outwards: "0.50-0.61", "10.7-11.0"; one figure when both print alike.

    Args:
        low: bytes, the least.
        high: bytes, the most.
        digits: decimals; None: 2 below 10 GiB and 1 above.
    """
    if low is None or high is None:
        return NA
    if digits is None:
        digits = 2 if high < 10 * GIB else 1
    return _join(Decimal(low) / GIB, Decimal(high) / GIB, digits)


# --- times ----------------------------------------------------------------------------------------


def milliseconds(value: float | None) -> str:
    """A time in ms for people to compare: "118.4", "1,812", "3.42", "0.510"."""
    return _figure(value)


def duration(seconds: float | None) -> str:
    """A clock: "0:41", "1:02:03"; "<0:01" for less than it can show."""
    if seconds is None or not math.isfinite(seconds):
        return NA
    whole = round(abs(seconds))
    sign = "-" if seconds < 0 else ""
    if whole == 0 and seconds:
        return f"{sign}<0:01"
    minutes, left = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}:{minutes:02}:{left:02}" if hours else f"{sign}{minutes}:{left:02}"


def long_duration(seconds: float | None) -> str:
    """A time in words: "2 h 34 min 2 s", "1 d 6 h 0 min 0 s", "41 s"; tenths below ten seconds: "1.9 s"."""
    if seconds is None or not math.isfinite(seconds):
        return NA
    if seconds < 0:
        return "-" + long_duration(-seconds)
    if round(seconds, 1) < 10:
        return f"{_fixed(seconds, 1)} s"
    left, parts = round(seconds), list[str]()
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        amount, left = divmod(left, unit)
        if amount or parts or unit == 1:
            parts.append(f"{amount} {name}")
    return " ".join(parts)


def when(moment: datetime | None) -> str:
    """A moment in its own time zone (measurements are stored in UTC): "1 Dec 14:01"."""
    if moment is None:
        return NA
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.hour:02}:{moment.minute:02}"


# --- plain figures ----------------------------------------------------------------------------------------


def rate(value: float | None) -> str:
    """Something a second: "270.3", "276,787"."""
    return _figure(value)


def interval(low: float | None, high: float | None, digits: int | None = None) -> str:
    """A range of plain figures, rounded outwards: "268.1-272.2"; decimals as of ``rate`` unless given."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return NA
    if digits is None:
        digits = _decimals(max(abs(low), abs(high)))
    return _join(Decimal(repr(low)), Decimal(repr(high)), digits)


def ratio(value: float | None) -> str:
    """How many times: "1.70"."""
    return NA if value is None else _fixed(value, 2)


def percent(share: float | None, *, sign: bool = False) -> str:
    """A fraction of 1 as "49.0 %", with ``sign`` as "+44.7 %"; "<0.1 %" for less than it can show."""
    if share is None:
        return NA
    plus = "+" if sign and share > 0 else ""
    return f"{plus}{_fixed(share * 100, 1, zero=True)} %"


def number(value: float | None) -> str:
    """A loss or an error: "3.412", "10.986", "0.0123", "2.4e-4", "1,812"; NaN and infinity say so."""
    if value is None:
        return NA
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    magnitude = abs(value)
    if magnitude == 0 or (isinstance(value, int) and magnitude < 1e15):
        return f"{value:,.0f}"
    if magnitude < 1e-3 or magnitude >= 1e15:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    if round(magnitude, 3) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{3 if magnitude >= 0.0995 else 4}f}"


def count(value: int | None) -> str:
    """Things that are counted: "124,439,808"."""
    return NA if value is None else f"{value:,}"


def _decimals(magnitude: float) -> int:
    """Decimals that leave a figure about four significant digits."""
    if round(magnitude, 1) >= 1000:
        return 0
    if round(magnitude, 2) >= 10:
        return 1
    return 2 if round(magnitude, 3) >= 1 else 3


def _figure(value: float | None) -> str:
    if value is None:
        return NA
    return _fixed(value, _decimals(abs(value)) if math.isfinite(value) else 0)


def _fixed(value: float, digits: int, *, zero: bool = False) -> str:
    """``value`` with ``digits`` decimals; ``zero`` keeps the 0 before the point in "<0.1"."""
    if not math.isfinite(value):
        return number(value)
    if value == 0:
        return "0"
    if abs(round(value, digits)) == 0:
        return ("-" if value < 0 else "") + _less(digits, zero)
    return f"{value:,.{digits}f}"


def _less(digits: int, zero: bool = False) -> str:
    least = f"{10**-digits:.{digits}f}"
    return "<" + (least if zero else least.removeprefix("0"))


def _join(low: Decimal, high: Decimal, digits: int) -> str:
    step = Decimal(1).scaleb(-digits)
    below, above = low.quantize(step, ROUND_FLOOR), high.quantize(step, ROUND_CEILING)
    first = _less(digits) if below == 0 and low else ("0" if low == 0 else f"{below:,}")
    last = "-" + _less(digits) if above == 0 and high else ("0" if high == 0 else f"{above:,}")
    return first if first == last else f"{first}{' to ' if low < 0 else '-'}{last}"
