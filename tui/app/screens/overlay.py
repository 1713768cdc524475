"""A box over a screen that asks one thing: every key that answers is named in its foot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from tui.app.glyphs import ascii_line
from tui.app.lines import wrap
from tui.app.theme import styles
from tui.app.views.box import box
from tui.app.widgets.lines_view import LinesView


class Overlay(ModalScreen[str]):
    """Shows lines in a box; the key that is pressed decides what it ends with.

    Args:
        title: on the upper edge.
        body: sentences or ready lines; longer ones are wrapped.
        foot: the keys, for people.
        answers: key to result; Esc always answers "".
    """

    DEFAULT_CSS = """
    Overlay { align: center middle; background: $background 40%; }
    Overlay:ansi { background: transparent; }
    Overlay LinesView { width: auto; height: auto; background: $background; color: $foreground; }
    """
    WIDEST = 76

    def __init__(
        self,
        title: str,
        body: Sequence[str],
        foot: str,
        answers: Mapping[str, str],
        *,
        ascii_only: bool = False,
    ) -> None:
        super().__init__()
        self._parts = title, tuple(body), foot
        self._answers = {"escape": "", **answers}
        self._ascii = ascii_only

    def compose(self) -> ComposeResult:
        yield LinesView()

    def on_mount(self) -> None:
        """Draw the box."""
        self.redraw()

    def on_resize(self) -> None:
        """Draw it for the new width."""
        self.redraw()

    def redraw(self) -> None:
        """Lay the box out for the terminal as it is."""
        width = min(self.WIDEST, self.app.size.width - 4)
        if width < 20:
            return
        title, body, foot = self._parts
        wrapped = [part for one in body for part in (wrap(one, width - 4) if len(one) > width - 4 else [one])]
        lines = box(title, wrapped[: max(1, self.app.size.height - 5)], foot, width)
        view = self.query_one(LinesView)
        view.styles.width, view.styles.height = width, len(lines)
        view.restyle(styles(self.app.current_theme))
        view.show([ascii_line(one) for one in lines] if self._ascii else lines)

    def on_key(self, event: events.Key) -> None:
        """End with the answer of a key; every other key is for nobody."""
        event.stop()
        if event.key in self._answers:
            self.dismiss(self._answers[event.key])
