"""One widget that shows lines of text: it draws again only what changed in them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

_ACCENTS = ("water", "amber")


class LinesView(Widget):
    """Shows ``show``'s lines; the row of the cursor has the cursor's style behind it.

    Lines are compared with those before: a row is sent to the terminal only as far as it changed, and a
    screen that did not change sends nothing.
    """

    DEFAULT_CSS = "LinesView { width: 100%; height: 100%; }"
    can_focus = False

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Text] = []
        self._cursor: int | None = None
        self._cells: dict[int, Strip] = {}
        self._styles: dict[str, Style] = {}

    def show(self, lines: Sequence[Text], cursor: int | None = None) -> None:
        """Show ``lines`` from the top, with the cursor on row ``cursor``."""
        old, self._lines = self._lines, list(lines)
        moved = {self._cursor, cursor} if cursor != self._cursor else set()
        self._cursor = cursor
        width = self.size.width
        for y in range(max(len(old), len(self._lines))):
            before = old[y] if y < len(old) else None
            after = self._lines[y] if y < len(self._lines) else None
            if y in moved or before != after or (before and after and before.spans != after.spans):
                self._cells.pop(y, None)
                reach = width if y in moved else _changed(before, after, width)
                self.refresh(Region(0, y, reach, 1))

    def restyle(self, styles: dict[str, Style]) -> None:
        """Take the roles' styles of another theme."""
        self._styles = styles
        self._cells.clear()
        self.refresh()

    def shown(self) -> str:
        """The text on the screen, as a person sees it."""
        return "\n".join(one.plain.rstrip() for one in self._lines)

    def notify_style_update(self) -> None:
        self._cells.clear()
        super().notify_style_update()

    def on_resize(self) -> None:
        """Forget the rows that were made for another width."""
        self._cells.clear()

    def render_line(self, y: int) -> Strip:
        """One row, made once and kept until its text changes."""
        strip = self._cells.get(y)
        if strip is None:
            strip = self._cells[y] = self._make(y)
        return strip

    def _make(self, y: int) -> Strip:
        base, width = self.rich_style, self.size.width
        over = self._styles.get("cursor") if y == self._cursor else None
        fill = base + over if over else base
        if y >= len(self._lines):
            return Strip.blank(width, fill)
        pieces = []
        for text, role in pieces_of(self._lines[y]):
            style = base + self._styles.get(role, Style.null()) if role else base
            if over:
                accent = style.color if role.startswith(_ACCENTS) else None
                style = style + over + Style(color=accent)
            pieces.append(Segment(text, style))
        return Strip(pieces).adjust_cell_length(width, fill)


def pieces_of(text: Text) -> list[tuple[str, str]]:
    """The line as (text, role) from left to right; a later span wins where two meet."""
    plain = text.plain
    roles = [""] * len(plain)
    for start, end, style in text.spans:
        roles[start:end] = [str(style)] * (min(end, len(plain)) - start)
    pieces: list[tuple[str, str]] = []
    begin = 0
    for index in range(1, len(plain) + 1):
        if index == len(plain) or roles[index] != roles[begin]:
            pieces.append((plain[begin:index], roles[begin]))
            begin = index
    return pieces if plain else []


def _changed(before: Text | None, after: Text | None, width: int) -> int:
    """How many cells from the left cover everything that differs."""
    if before is None or after is None or not (before.plain.isascii() and after.plain.isascii()):
        return width
    if pieces_of(before) == pieces_of(after):
        return 1
    one, other = before.plain.ljust(width), after.plain.ljust(width)
    reach = next((at + 1 for at in range(width - 1, -1, -1) if one[at] != other[at]), 0)
    spans = {(start, end, str(style)) for start, end, style in before.spans}
    spans ^= {(start, end, str(style)) for start, end, style in after.spans}
    return max([reach, *(end for _, end, _ in spans)])
