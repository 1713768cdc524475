"""What the screens have in common: one view of lines, drawn again when something changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.screen import Screen

from tui.app.theme import styles
from tui.app.widgets.lines_view import LinesView

if TYPE_CHECKING:
    from tui.app.app import PeakmarkApp


class PageScreen(Screen[None]):
    """A screen whose text is that of a ``LinesView``."""

    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    PageScreen { layers: base live; background: $background; color: $foreground; overflow: hidden; }
    """

    @property
    def peakmark(self) -> PeakmarkApp:
        """The app, as what it is."""
        return cast("PeakmarkApp", self.app)

    @property
    def help_of(self) -> str:
        """Which help ``?`` shows."""
        return "first"

    def on_mount(self) -> None:
        """Take the theme's styles."""
        self.restyle()

    def on_screen_resume(self) -> None:
        """Show what happened meanwhile."""
        self.redraw()

    def on_resize(self) -> None:
        """Lay everything out again."""
        self.redraw()

    def restyle(self) -> None:
        """Take the styles of the theme that is in use now."""
        self.query_one(LinesView).restyle(styles(self.app.current_theme))

    def shown(self) -> str:
        """The text of the screen."""
        return self.query_one(LinesView).shown()

    def redraw(self) -> None:
        """Lay the screen out and show it."""
        raise NotImplementedError
