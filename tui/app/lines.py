"""Building lines of styled text by column.

A line is a ``rich.text.Text`` whose spans are named by role: "dim", "strong", "water", "amber", "badge"
(water behind), "badge.amber", "cursor".  The widget gives each role a style of the theme; nothing here
knows a colour.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from tui.app.glyphs import PARTS, clean

Piece = str | tuple[str, str]


def line(*pieces: Piece) -> Text:
    """The pieces one after the other; a tuple is (text, role)."""
    text = Text(no_wrap=True, end="")
    for piece in pieces:
        if isinstance(piece, str):
            text.append(clean(piece))
        else:
            text.append(clean(piece[0]), piece[1] or None)
    return text


def at(text: Text, column: int, value: str, role: str = "") -> Text:
    """Append ``value`` so that it starts at ``column`` (after one space when the line is already longer)."""
    gap = column - text.cell_len
    text.append(" " * (gap if gap > 0 else 1 if text.cell_len else 0))
    text.append(clean(value), role or None)
    return text


def ending(text: Text, column: int, value: str, role: str = "") -> Text:
    """Append ``value`` so that its last cell is before ``column``."""
    return at(text, column - cell_len(value), value, role)


def fit(value: str, width: int) -> str:
    """``value`` in at most ``width`` cells, its end replaced by ``…`` when it is longer."""
    value = clean(value)
    if cell_len(value) <= width:
        return value
    return set_cell_size(value, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


def cut(text: Text, width: int) -> Text:
    """``text`` in at most ``width`` cells."""
    if text.cell_len > width:
        text = text.copy()
        text.truncate(max(0, width), overflow="ellipsis")
    return text


def rule(title: str, width: int) -> Text:
    """A thin rule with a title."""
    text = line(("─ " + title + " " if title else "", "dim"))
    text.append("─" * max(0, width - text.cell_len), "dim")
    return text


def bar(share: float, cells: int) -> str:
    """A horizontal bar of ``share`` (0 to 1) of ``cells`` cells in eighths; anything above zero shows."""
    eighths = min(8 * cells, round(8 * cells * share))
    if share <= 0:
        return ""
    eighths = max(1, eighths)
    full, rest = divmod(eighths, 8)
    return "█" * full + (PARTS[rest - 1] if rest else "")


def wrap(value: str, width: int) -> list[str]:
    """``value`` broken between words into lines of at most ``width`` cells; a longer word is broken too."""
    rows: list[str] = []
    for word in clean(value).split(" "):
        if rows and cell_len(rows[-1]) + 1 + cell_len(word) <= width:
            rows[-1] += " " + word
        else:
            rows.extend(_pieces(word, max(2, width)))
    return rows


def _pieces(word: str, width: int) -> list[str]:
    pieces = [""]
    for one in word:
        if cell_len(pieces[-1]) + cell_len(one) > width:
            pieces.append("")
        pieces[-1] += one
    return pieces


def texts(lines: Iterable[Text]) -> list[str]:
    """The plain strings of ``lines``, without the spaces at their ends."""
    return [one.plain.rstrip() for one in lines]
