"""A live trace of one colour, made of narrow parts so that a new value touches few cells."""

from __future__ import annotations

from rich.segment import Segment
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.app.live import Trace
from tui.app.views.bars import trace_rows


class TracePart(Widget):
    """Some columns of a trace; drawn again only when they look different."""

    PART = 12
    DEFAULT_CSS = "TracePart { height: 100%; width: 12; color: $primary; }"

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[str, ...] = ()

    def show(self, rows: tuple[str, ...]) -> bool:
        """Show ``rows``; True when they differ from those before."""
        old, self._rows = self._rows, rows
        changed = [y for y in range(len(rows)) if y >= len(old) or old[y] != rows[y]]
        for y in changed:
            self.refresh(Region(0, y, self.PART, 1))
        return bool(changed)

    def render_line(self, y: int) -> Strip:
        """One row of these columns, in one style."""
        text = self._rows[y] if y < len(self._rows) else ""
        return Strip([Segment(text.ljust(self.size.width), self.rich_style)], self.size.width)


class StepTrace(Horizontal):
    """The values of a ``Trace`` from the left, scaled from zero; what is still to come is dotted.

    ``redraw`` is called at most four times a second.  Only the parts in which something changed are drawn.
    """

    DEFAULT_CSS = "StepTrace { layer: live; position: absolute; display: none; }"

    def __init__(self, name: str, *, ascii_only: bool = False) -> None:
        super().__init__(id=name)
        self.ascii_only = ascii_only

    def compose(self) -> ComposeResult:
        for _ in range(5):
            yield TracePart()

    def redraw(self, trace: Trace, width: int, height: int) -> int:
        """Draw ``trace`` in ``width`` x ``height`` cells; how many parts were touched."""
        rows = trace_rows(trace, width, height, ascii_only=self.ascii_only)
        touched = 0
        for index, part in enumerate(self.query(TracePart)):
            start = index * part.PART
            touched += part.show(tuple(row[start : start + part.PART] for row in rows))
        return touched
