"""Where the columns of the ledger's table end, at every width, with and without a prediction."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from tui.app.lines import at, ending, line
from tui.app.views.figures import Scale
from tui.budget.ledger import Ledger
from tui.budget.rows import Row as LedgerRow


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that have room; what does not is None or absent."""

    ends: dict[str, int]
    """Column before which each of declared, predicted, measured and difference ends."""
    share: int | None
    """Where bars, and what a fold hides, begin."""
    where: int | None
    """Where the words about the origin begin."""
    predicted: bool
    """Whether anything is predicted: else the difference is from what is declared."""

    def difference(self, row: LedgerRow) -> int | None:
        """Measured minus predicted, or minus declared when nothing is predicted."""
        return row.difference if self.predicted else row.over_declared


def columns_of(made: Ledger, width: int, scale: Scale) -> Columns:
    """The columns of ``made`` on a terminal of ``width``."""
    predicted = any(row.predicted is not None for row in made.rows)
    ends = _four(width, scale) if predicted else _three(width, scale)
    share = (65 if predicted else 62) if not scale.exact and width >= 79 else None
    where = 81 if not scale.exact or not predicted else 97
    return Columns(ends, share, where if width >= where + 15 else None, predicted)


def _four(width: int, scale: Scale) -> dict[str, int]:
    if not scale.exact:
        columns = {"declared": 32, "predicted": 42, "measured": 52, "difference": 63}
        return columns if width >= 72 else {"predicted": 38, "measured": 48, "difference": 59}
    if width >= 96:
        return {"declared": 43, "predicted": 60, "measured": 77, "difference": 94}
    if width >= 78:
        return {"predicted": 43, "measured": 60, "difference": 77}
    return {"measured": 43, "difference": 59}


def _three(width: int, scale: Scale) -> dict[str, int]:
    if not scale.exact:
        return {"declared": 34, "measured": 46, "difference": 58}
    if width >= 78:
        return {"declared": 43, "measured": 60, "difference": 77}
    return {"measured": 43, "difference": 59}


def heading(columns: Columns, width: int, scale: Scale) -> Text:
    """The line above the rows."""
    text = line("  " + scale.unit)
    for name, column in columns.ends.items():
        ending(text, column, "m - d" if name == "difference" and not columns.predicted else name)
    if columns.share is not None:
        at(text, columns.share, "share")
    left_out = (4 if columns.predicted else 3) - len(columns.ends)
    if left_out and text.cell_len + 8 < width:
        ending(text, width - 1, f"{left_out} more")
    if columns.where is not None:
        at(text, columns.where, "where it comes from")
    text.stylize("dim")
    return text
