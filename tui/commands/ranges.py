"""Lists on the command line: numbers and ranges (``1,2,4``, ``1..8``, ``8..64/8``, and mixed), and names."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from tui.errors import UsageError

MOST_DIGITS = 12

MOST = 1000
"""Numbers in one list: each of them is a measurement."""
_RANGE = re.compile(r"([0-9]{1,12})\.\.([0-9]{1,12})(?:/([0-9]{1,12}))?")


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A reader of one whole number from ``least`` to ``most``, for ``type=`` of an argument."""

    def number(text: str) -> int:
        plain = text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
        if not plain or int(text) < least or (most is not None and int(text) > most):
            to = f" to {most}" if most is not None else " or more"
            raise argparse.ArgumentTypeError(f"must be a whole number, {least}{to}, got {text!r}")
        return int(text)

    return number


def numbers(text: str) -> tuple[int, ...]:
    """The numbers that ``text`` means, each once, in the order written; a range holds both of its ends.

    Raises:
        argparse.ArgumentTypeError: not such a list, a number below 1, a range that ends before it begins.

    >>> numbers("1,2,4"), numbers("1..4"), numbers("8..32/8,100")
    ((1, 2, 4), (1, 2, 3, 4), (8, 16, 24, 32, 100))
    """
    found: dict[int, None] = {}
    for part in text.split(","):
        matched = _RANGE.fullmatch(part.strip())
        if matched is None:
            found[whole(1)(part)] = None
            continue
        first, last, by = int(matched[1]), int(matched[2]), int(matched[3] or 1)
        if first < 1 or by < 1 or last < first:
            raise argparse.ArgumentTypeError(f"{part!r} is no range of numbers from 1 upwards")
        if (last - first) // by >= MOST:
            raise argparse.ArgumentTypeError(f"{part!r} is more than {MOST} numbers")
        found |= dict.fromkeys(range(first, last + 1, by))
    return tuple(found)


def names(text: str) -> tuple[str, ...]:
    """Names between commas; empty ones are left out."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def settings(text: str) -> tuple[str, ...]:
    """Precision settings between commas, at least one.

    Raises:
        argparse.ArgumentTypeError: there is none.
    """
    if not (found := names(text)):
        raise argparse.ArgumentTypeError("names no setting")
    return found


def several(parser: argparse.ArgumentParser) -> None:
    """The options of a sweep and of a search."""
    parser.add_argument("--search", action="store_true", help="look for the largest micro-batch that fits")
    parser.add_argument("--upper", type=whole(1), help="--search: the largest micro-batch to try")
    parser.add_argument("--multiple-of", type=whole(1), default=1, help="--search: try multiples only (1)")
    parser.add_argument(
        "--within", type=whole(1), metavar="MINUTES", help="begin nothing that would take longer"
    )


def refuse_unsearched(given: argparse.Namespace) -> None:
    """Refuse the options of a search where none was asked for, and bounds between which there is nothing.

    Raises:
        UsageError: it names the option.
    """
    if getattr(given, "search", False):
        if given.upper is not None and given.upper < given.multiple_of:
            raise UsageError(
                f"no multiple of {given.multiple_of} is within --upper {given.upper}",
                hint="raise --upper or lower --multiple-of",
            )
        return
    for name, default in (("upper", None), ("multiple_of", 1)):
        if getattr(given, name, default) != default:
            raise UsageError(
                f"--{name.replace('_', '-')} means something with --search only", hint="add --search"
            )
