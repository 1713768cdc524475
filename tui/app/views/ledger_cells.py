"""One cell of the ledger's table after the other, and what row 23 says of a row."""

from __future__ import annotations

from rich.text import Text

from tui import units
from tui.app.lines import line
from tui.app.views.figures import MIB, Scale, signed, sized
from tui.app.views.ledger_columns import Columns
from tui.budget.ledger import Ledger
from tui.budget.rows import Row as LedgerRow
from tui.probe.protocol import REQUESTED_ROWS


def starred(row: LedgerRow) -> bool:
    """Whether the difference is more than max(1 MiB, 1 %), or lies outside a predicted range by as much."""
    off = difference(row)
    if off is None or row.measured is None:
        return False
    return abs(off) > max(2**20, abs(row.measured) // 100)


def known(row: LedgerRow) -> int | None:
    """What was measured, else what is predicted."""
    return row.measured if row.measured is not None else row.predicted


def difference(row: LedgerRow) -> int | None:
    """Measured minus predicted; of a range minus its nearer end, 0 within it."""
    if row.difference is not None or row.measured is None or row.predicted_range is None:
        return row.difference
    low, high = row.predicted_range
    return min(0, row.measured - low) or max(0, row.measured - high)


def values(
    row: LedgerRow, made: Ledger, columns: Columns, scale: Scale, dim: bool
) -> dict[str, tuple[str, str]]:
    """(text, role) of each column."""
    plain = "dim" if dim else ""
    found = {
        "declared": (declared(row, made, scale), "dim"),
        "predicted": (predicted(row, scale), plain),
        "measured": (measured(row, made, scale), "dim" if dim else "strong"),
        "difference": (_off(row, columns, scale), plain),
    }
    if row.key == "process":
        decides = "measured" if made.probe is not None else "predicted"
        found[decides] = (found[decides][0], "water.strong")
    return found


def _off(row: LedgerRow, columns: Columns, scale: Scale) -> str:
    if columns.predicted and row.within:
        return "within"
    off = difference(row) if columns.predicted else row.over_declared
    return "-" if off is None else signed(off, scale)


def predicted(row: LedgerRow, scale: Scale) -> str:
    """The figure, or its range; with every byte the least of it, and row 23 has both."""
    if row.predicted is None and row.predicted_range is not None:
        low, high = row.predicted_range
        return "≥" + sized(low, scale) if scale.exact else span_of(low, high, scale)
    return "-" if row.predicted is None else sized(row.predicted, scale)


def span_of(low: int, high: int, scale: Scale) -> str:
    """A range in the table's unit, rounded outwards, in the nine columns that there are."""
    if scale is MIB:
        return f"{low // units.MIB:,}-{-(-high // units.MIB):,}"
    shown = units.span(low, high)
    return shown if len(shown) <= 9 else units.span(low, high, 0)


def declared(row: LedgerRow, made: Ledger, scale: Scale) -> str:
    """By formula; of the requested sum what is known of it."""
    if row.key != "requested":
        return "-" if row.declared is None else sized(row.declared, scale)
    parts = [one.declared for one in made.rows if one.key in REQUESTED_ROWS]
    known = [one for one in parts if one is not None]
    if not any(known):
        return "-"
    return ("" if len(known) == len(parts) else "≥") + sized(sum(known), scale)


def measured(row: LedgerRow, made: Ledger, scale: Scale) -> str:
    """As read; what is carried over in brackets."""
    if row.measured is None:
        return "-" if made.probe is None else "n/a"
    return f"({sized(row.measured, scale)})" if row.key == "reserve" else sized(row.measured, scale)


def where(row: LedgerRow, made: Ledger, scale: Scale) -> str:
    """Where the figures of a row come from; a star's cause before that."""
    if starred(row) and row.cause:
        return f"* {row.cause}"
    if row.predicted_range is not None and (row.measured is None or row.within):
        low, high = row.predicted_range
        return f"predicted: {sized(low, scale)} to {sized(high, scale)}"
    if row.measured is None and row.predicted is not None and not row.declared_as:
        return (
            "traced on tensors without values"
            if row.key in (*REQUESTED_ROWS, "requested")
            else "by the allocator's rules"
        )
    if row.measured is None and made.probe is not None:
        return f"n/a: {row.unknown}" if row.unknown else "n/a"
    return row.declared_as or row.origin or row.unknown


def detail(row: LedgerRow, made: Ledger, width: int) -> Text:
    """What row 23 says: exact bytes of every column that has them, then the cause, or what the row is.

    Where it was read is left out where the rest would not fit with it.
    """
    said: list[str] = []
    if row.predicted is not None:
        said.append(f"{row.predicted:,} B predicted")
    elif row.predicted_range is not None:
        said.append(f"{row.predicted_range[0]:,} to {row.predicted_range[1]:,} B predicted")
    if row.measured is not None:
        off = f", {row.difference:+,} to predicted" if row.difference else ""
        where_from = f" ({row.origin})" if row.origin else ""
        long = len(f" {row.label} {row.measured:,} B{where_from}{off}: {row.meaning}") > width
        said = [f"{row.measured:,} B" + ("" if long else where_from) + off]
    elif not said and row.declared is not None:
        said.append(f"{row.declared:,} B declared: {row.declared_as}")
    if not said:
        said.append(f"n/a: {row.unknown}" if row.unknown else "n/a")
    star = ("* ", "amber") if starred(row) else ""
    why = row.cause if starred(row) and row.cause else row.meaning
    return line(" ", star, (row.label.removeprefix("= "), "strong"), f" {said[0]}: {why}")
