"""Vertical bars in eighths of a cell: traces of a run and the small curves of a table."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from tui.app.glyphs import BARS, ascii_text
from tui.app.live import Trace


def columns(values: Sequence[float | None], width: int) -> list[float | None]:
    """``values`` in at most ``width`` columns, the largest where several meet; None: not a number."""
    if len(values) <= width:
        return list(values)
    made: list[float | None] = []
    for column in range(width):
        part = values[column * len(values) // width : (column + 1) * len(values) // width]
        finite = [one for one in part if one is not None and isfinite(one)]
        made.append(max(finite) if finite and len(finite) == len(part) else None)
    return made


def bar_rows(values: Sequence[float | None], height: int, top: float) -> list[str]:
    """``height`` strings, the upper one first; a value that is not a number is ``!`` in the lowest row."""
    rows: list[str] = []
    for y in range(height):
        below = 8 * (height - 1 - y)
        cells = []
        for value in values:
            if value is None or not isfinite(value):
                cells.append("!" if below == 0 else " ")
            else:
                eighths = round(8 * height * value / top) if top > 0 else 0
                cells.append(BARS[max(0, min(8, max(eighths, 1 if value > 0 else 0) - below))])
        rows.append("".join(cells))
    return rows


def trace_rows(trace: Trace, width: int, height: int, *, ascii_only: bool = False) -> list[str]:
    """A live trace, zero at the bottom; groups stay together, and what is still to come is dotted."""
    group = trace.group
    values: list[float | None] = trace.values
    cell = group if group > 1 else 3
    room = max(1, width // cell)
    groups = [values[start : start + group] for start in range(0, len(values), group)]
    wanted = max(len(groups), -(-(trace.expected or 0) // group) // trace.every)
    if wanted > room:
        cell, room = (1, width) if group == 1 else (group, room)
    step = max(1, -(-wanted // room))
    kept = [_largest(groups[start : start + step]) for start in range(0, len(groups), step)][:room]
    shown: list[float | None] = []
    for one in kept:
        shown.extend(one if group > 1 else one * (2 if cell == 3 else 1))
        if cell == 3 and group == 1:
            shown.append(0.0)
    rows = bar_rows(shown, height, trace.top())
    to_come = max(0, min(width, cell * -(-wanted // step)) - len(shown))
    rows = [row.ljust(width) for row in rows]
    rows[-1] = rows[-1].rstrip(" ") if not to_come else rows[-1][: len(shown)] + "·" * to_come
    rows[-1] = rows[-1].ljust(width)
    return [ascii_text(row) for row in rows] if ascii_only else rows


def _largest(groups: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Groups of equal length as one: the largest in each place."""
    made: list[float | None] = []
    for place in zip(*groups, strict=False):
        finite = [one for one in place if one is not None and isfinite(one)]
        made.append(max(finite) if finite and len(finite) == len(place) else None)
    return made


def curve(values: Sequence[float | None], width: int) -> str:
    """A falling or rising curve in one row, from the smallest to the largest value."""
    shown = columns(values, width)
    finite = [one for one in shown if one is not None and isfinite(one)]
    if not finite:
        return "!" * len(shown)
    low, high = min(finite), max(finite)
    cells = []
    for value in shown:
        if value is None or not isfinite(value):
            cells.append("!")
        else:
            share = (value - low) / (high - low) if high > low else 0.0
            cells.append(BARS[1 + round(7 * share)])
    return "".join(cells)
