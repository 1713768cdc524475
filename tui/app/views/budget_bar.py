"""The whole device as one bar: others, this job, free, reserve, and what lies beyond the budget."""

from __future__ import annotations

from rich.text import Text

from tui.app.lines import cut, line
from tui.app.views.figures import GIB, Scale, sized
from tui.budget.ledger import Ledger

_PARTS = (
    ("others", "▒", "dim"),
    ("job", "█", "water"),
    ("free", "·", "dim"),
    ("reserve", "░", "amber"),
    ("beyond", "─", "dim"),
)


def parts_of(made: Ledger) -> dict[str, int] | None:
    """Bytes of each part, adding up to the device's total; None when that or the process is not known."""
    total = made.verdict.device_left_bytes
    process, limit = made.verdict.process_bytes, made.verdict.budget_bytes
    row = {one.key: one.measured if made.probe is not None else one.predicted for one in made.rows}
    whole = row.get("device_total") or row.get("host_total")
    if total is None or process is None or limit is None or whole is None:
        return None
    others = whole - total
    reserve = max(0, min(made.verdict.reserve_bytes, limit - process))
    free = max(0, limit - process - made.verdict.reserve_bytes)
    beyond = max(0, whole - others - process - free - reserve)
    return {"others": others, "job": process, "free": free, "reserve": reserve, "beyond": beyond}


def budget_bar(made: Ledger, width: int, scale: Scale) -> list[Text]:
    """The bar and its legend; one line that says why when there is no bar."""
    parts = parts_of(made)
    if parts is None:
        why = made.verdict.why or "the device's total is not known"
        return [line((f" no bar: {why}", "dim"))] if made.probe else []
    cells = _cells(list(parts.values()), width - 2)
    if scale.exact and sum(len(f"{size:,}") for size in parts.values()) + 52 > width:
        scale = GIB  # every digit of the five would not fit
    text, pieces = line(" "), []
    for (name, glyph, role), count in zip(_PARTS, cells, strict=True):
        text.append(glyph * count, role)
        known = name != "others" or _others_known(made)
        pieces.append(((glyph, role), f" {name} {sized(parts[name] if known else None, scale)}"))
    return [text, _legend(pieces, scale, width)]


def _legend(pieces: list[tuple[tuple[str, str], str]], scale: Scale, width: int) -> Text:
    """The unit, then each part; closer together where they would not fit otherwise."""
    legend = line("")
    for gap in ("  ", " "):
        legend = line(f" {scale.unit}")
        for (glyph, role), said in pieces:
            legend.append(gap).append(glyph, role).append(said)
        if legend.cell_len <= width:
            break
    return cut(legend, width)


def _others_known(made: Ledger) -> bool:
    """Whether other processes were read; when not, the device seems to be all ours."""
    return made.row("others").measured is not None


def _cells(sizes: list[int], width: int) -> list[int]:
    """Cells of each size: at least one for any that is not zero, ``width`` in all."""
    total = sum(sizes) or 1
    cells = [max(1, round(width * size / total)) if size > 0 else 0 for size in sizes]
    widest = max(range(len(cells)), key=cells.__getitem__)
    cells[widest] += width - sum(cells)
    return cells
