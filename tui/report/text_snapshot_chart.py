"""The timeline of a memory snapshot as a chart of text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tui import units
from tui.report.snapshot_view import Point

MARGIN = 12
"""Columns of the labels at the left."""
FULL, PART, RESERVED = "█", "▒", "─"


def chart_lines(points: Sequence[Point], width: int, height: int = 8) -> list[str]:
    """Levels over events, from nothing at the bottom to the most that was reserved at the top.

    A cell is ``█`` where so much was allocated all the time, ``▒`` where at times; ``─`` is what was reserved.

    Args:
        points: in order; none gives no lines.
        width: columns of a line.
        height: lines.
    """
    if not points:
        return []
    columns = [_joined(part) for part in _parts(points, max(1, width - MARGIN))]
    top = max(1, *(max(one.reserved, one.high) for one in columns))
    lines: list[str] = []
    for row in reversed(range(height)):
        label = units.size(top) if row == height - 1 else "0" if row == 0 else ""
        cells = "".join(_cell(one, row, top, height) for one in columns)
        lines.append(f"{label:>{MARGIN - 1}} {cells}".rstrip())
    return lines


def axis_line(points: Sequence[Point], events: int, mark: int | None, width: int) -> str:
    """The events below a chart: the first, the last, and a caret under event ``mark``."""
    room = max(1, width - MARGIN)
    last = f"{max(0, events - 1):,}"
    line = list(f"{0:<{room - len(last)}}{last}")
    if mark is not None and points and events > 1:
        at = min(room - 1, mark * room // events)
        label = f"^ {mark:,}" if at + 2 + len(f"{mark:,}") <= room - len(last) - 1 else "^"
        at = min(at, room - len(label))
        line[at : at + len(label)] = label
        if label == "^" and at >= room - len(last):
            line[room - len(last) :] = [" "] * len(last)
            line[at] = "^"
            text = f"{mark:,} "
            line[max(0, at - len(text)) : at] = text
    return " " * MARGIN + "".join(line)[:room].rstrip()


def _parts(points: Sequence[Point], columns: int) -> list[Sequence[Point]]:
    """The points of each column; fewer points than columns are stretched."""
    count = len(points)
    edges = [count * column // columns for column in range(columns + 1)]
    return [points[low : max(high, low + 1)] for low, high in pairwise(edges)]


def _joined(part: Sequence[Point]) -> Point:
    return Point(
        part[0].first,
        min(one.low for one in part),
        max(one.high for one in part),
        max(one.reserved for one in part),
    )


def _cell(one: Point, row: int, top: int, height: int) -> str:
    middle = (2 * row + 1) * top  # of the row, times 2 * height
    if 2 * height * one.low >= middle:
        return FULL
    if 2 * height * one.high >= middle:
        return PART
    return RESERVED if min(height - 1, one.reserved * height // top) == row and one.reserved else " "
