"""What the screens that are laid out as pages have in common: copying a row, and keys that act at once."""

from __future__ import annotations

from textual import events

from tui.app.frame import Placed
from tui.app.glyphs import ascii_line
from tui.app.screens.page import PageScreen
from tui.app.widgets.lines_view import LinesView


class PlacedScreen(PageScreen):
    """A screen that shows what ``frame.place`` made of a page."""

    def __init__(self) -> None:
        super().__init__()
        self._placed: Placed | None = None

    def action_copy(self) -> None:
        """Copy the row under the cursor, and say what was copied."""
        if self._placed and self._placed.cursor_y is not None:
            text = " ".join(self._placed.lines[self._placed.cursor_y].plain.split())
            self.app.copy_to_clipboard(text)
            self.peakmark.say(f"copied, if the terminal allows it: {text}")

    async def act_now(self, event: events.Key) -> None:
        """Do here and now what the screen's own bindings say of a key.

        A burst over a slow link, Enter or a slash and then a digit, would else be a step that is gone to.
        """
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            event.stop()
            await self.app.run_action(binding.action, self)

    def show_placed(self, made: Placed, cursor_y: int | None) -> None:
        """Send the lines to the terminal, with the cursor on one of them."""
        self._placed = made
        lines = [ascii_line(one) for one in made.lines] if self.peakmark.ascii_only else made.lines
        self.query_one(LinesView).show(lines, cursor_y)
