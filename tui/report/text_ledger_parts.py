"""What a ledger's temporaries are for: one line a row, or every cause under its row."""

from __future__ import annotations

from collections.abc import Mapping

from tui.budget.ledger import Ledger
from tui.budget.rows import row_name
from tui.budget.temporaries import Part
from tui.report.figures import Unit
from tui.report.lines import clean, clip, hanging, right

LABEL = 22
COMPACT = 4
"""Causes that the one line of a row names."""


def parts_below(found: Ledger, row: str, unit: Unit, columns: Mapping[str, int], width: int) -> list[str]:
    """A line for every cause of ``row`` in the ``columns`` of the table, with what the largest storages are.

    ``width`` 0: there is no room for that.
    """
    lines: list[str] = []
    for one in (part for part in found.parts if part.row == row):
        cells = {
            "predicted": "-" if one.predicted is None else unit.cell(one.predicted),
            "measured": "-" if one.measured is None else unit.cell(one.measured, 8),
            "m - p": "" if one.difference is None else unit.signed(one.difference),
        }
        figures = right([cells.get(name, "") for name in columns], list(columns.values()))
        label = f" {one.cause}"
        # A cause that is longer than the column of labels runs into the empty cell after it.
        over = len(label) - LABEL
        figures = figures[over:] if over > 0 and not figures[:over].strip() else figures
        line = f"{label.ljust(LABEL)}{figures}"
        lines.append(clip(clean(f"{line}  {one.what}"), width) if width else line)
    return lines


def parts_compact(found: Ledger, unit: Unit, width: int) -> list[str]:
    """A line for every row of temporaries that is not 0: its largest causes."""
    lines: list[str] = []
    for key in dict.fromkeys(one.row for one in found.parts):
        parts = [one for one in found.parts if one.row == key and _size(one)]
        named = [f"{one.cause} {unit.text(_size(one))}" for one in parts[:COMPACT]]
        more = [f"{len(parts) - COMPACT} more"] if len(parts) > COMPACT else []
        if named:
            lines += hanging(f"{row_name(key).label}: {', '.join([*named, *more])} (--verbose)", width)
    return lines


def _size(one: Part) -> int:
    return (one.measured if one.measured is not None else one.predicted) or 0
