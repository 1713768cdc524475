"""What stands under and beside the ledger's rows: causes of temporaries, and what lies in main memory."""

from __future__ import annotations

from tui.app.lines import at, cut, ending, fit, line
from tui.app.page import Row
from tui.app.views.figures import Scale, aligned, signed, sized
from tui.app.views.ledger_columns import Columns
from tui.budget.ledger import Ledger
from tui.budget.temporaries import ROWS

HOST_COLUMNS = {"declared": 44, "measured": 58}


def below(made: Ledger, key: str, columns: Columns, scale: Scale, width: int) -> list[Row]:
    """A line for every cause of row ``key``; why there is none where its timeline is not kept."""
    found = [one for one in made.parts if one.row == key]
    if not found and key in ROWS:
        return [Row(line(("     its causes are n/a: no timeline of it is kept on this machine", "dim")))]
    lines = []
    for one in found:
        text = line("     ", (one.cause, "dim"))
        cells = {"predicted": one.predicted, "measured": one.measured, "difference": one.difference}
        for name, size in cells.items():
            column = columns.ends.get(name)
            if column is None or (name != "measured" and not columns.predicted):
                continue
            shown = (
                "-" if size is None else signed(size, scale) if name == "difference" else sized(size, scale)
            )
            if text.cell_len + len(shown) < column:
                ending(text, column, aligned(shown, scale), "dim")
        if columns.where is not None:
            at(text, columns.where, fit(one.what, width - columns.where - 1), "dim")
        size = one.measured if one.measured is not None else one.predicted or 0
        said = f"{size:,} B: {one.what}"
        detail = line(" ", (one.cause, "strong"), " " + fit(said, max(8, width - len(one.cause) - 3)))
        lines.append(Row(cut(text, width), pick=True, detail=detail))
    return lines


def host_weighs(made: Ledger) -> bool:
    """Whether what lies in main memory is worth a line on any terminal: a step counter is not."""
    sizes = [size for one in made.host for size in (one.declared, one.measured) if size is not None]
    return max(sizes, default=0) >= 2**20


def host(made: Ledger, scale: Scale, width: int) -> tuple[Row, ...]:
    """What the placement and the loader put in main memory, declared and measured; () where nothing is."""
    rows = []
    for one in made.host:
        label = one.label.removeprefix("= ")
        text = line("   ", (label, "strong" if one.label.startswith("= ") else ""))
        for name, size in (("declared", one.declared), ("measured", one.measured)):
            shown = "n/a" if size is None else aligned(sized(size, scale), scale)
            ending(text, HOST_COLUMNS[name], shown, "dim" if name == "declared" else "strong")
        why = one.declared_as or one.reasons.get("declared", "")
        at(text, HOST_COLUMNS["measured"] + 3, fit(why, max(0, width - HOST_COLUMNS["measured"] - 4)), "dim")
        sizes = ["n/a" if size is None else f"{size:,} B" for size in (one.declared, one.measured)]
        reason = why if one.declared is None or one.measured is not None else one.reasons.get("measured", why)
        said = f"{sizes[0]} declared, {sizes[1]} measured: {reason}"
        detail = line(" ", (label, "strong"), " " + fit(said, max(8, width - len(label) - 3)))
        rows.append(Row(cut(text, width), pick=True, detail=detail))
    return tuple(rows)
