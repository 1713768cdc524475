"""What the boxes over a screen have in common: one view of lines in the middle, drawn again when something changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.screen import ModalScreen, ScreenResultType

from tui.app.glyphs import ascii_line
from tui.app.theme import styles
from tui.app.views.box import box
from tui.app.widgets.lines_view import LinesView


class Content(NamedTuple):
    """What stands in a box."""

    title: str
    """On the upper edge."""
    body: Sequence[str]
    foot: str
    """The keys, for people."""
    cursor: int | None = None
    """Line of the body that is under the cursor."""


class BoxScreen(ModalScreen[ScreenResultType]):
    """A box as wide as its screen allows; what is in it is said by ``content``.

    Args:
        ascii_only: draw with ASCII only.
    """

    DEFAULT_CSS = """
    BoxScreen { align: center middle; background: $background 40%; }
    BoxScreen:ansi { background: transparent; }
    BoxScreen LinesView { width: auto; height: auto; background: $background; color: $foreground; }
    """
    WIDEST = 76

    def __init__(self, *, ascii_only: bool) -> None:
        super().__init__()
        self._ascii = ascii_only

    def compose(self) -> ComposeResult:
        yield LinesView()

    def on_mount(self) -> None:
        """Draw the box."""
        self.redraw()

    def on_resize(self) -> None:
        """Draw it for the new size."""
        self.redraw()

    def shown(self) -> str:
        """The text of the box."""
        return self.query_one(LinesView).shown()

    def content(self, width: int, height: int) -> Content | None:
        """What stands in the box; None: nothing does in so small a one.

        Args:
            width: columns of the box with its edges.
            height: rows of the terminal.
        """
        raise NotImplementedError

    def redraw(self) -> None:
        """Lay the box out for the terminal as it is."""
        width = min(self.WIDEST, self.app.size.width - 4)
        made = self.content(width, self.app.size.height) if width >= 20 else None
        if made is None:
            return
        lines = box(made.title, made.body, made.foot, width)
        view = self.query_one(LinesView)
        view.styles.width, view.styles.height = width, len(lines)
        view.restyle(styles(self.app.current_theme))
        cursor = None if made.cursor is None else made.cursor + 1  # below the upper edge
        view.show([ascii_line(one) for one in lines] if self._ascii else lines, cursor)
