"""A box with a list over a screen: the cursor moves, Enter takes, Esc leaves everything as it was."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from tui.app.line_edit import LineEdit
from tui.app.lines import fit
from tui.app.screens.boxed import BoxScreen, Content

_MOVES = {
    "down": 1,
    "up": -1,
    "ctrl+n": 1,
    "ctrl+p": -1,
    "pagedown": 8,
    "pageup": -8,
    "home": -100_000,
    "end": 100_000,
}


class Chooser(BoxScreen[str | None]):
    """Ends with the value that was chosen, None when none was; what is typed leaves the lines that have it.

    Args:
        title: on the upper edge.
        choices: (value, line) of each.
        chosen: the value that holds now.
        ascii_only: draw with ASCII only.
    """

    typing = True
    """Keys go into a text."""

    def __init__(
        self, title: str, choices: Sequence[tuple[str, str]], chosen: str, *, ascii_only: bool = False
    ) -> None:
        super().__init__(ascii_only=ascii_only)
        self._title, self._choices, self._chosen = title, tuple(choices), chosen
        self._row = next((at for at, (value, _) in enumerate(choices) if value == chosen), 0)
        self._wanted = LineEdit()

    def _left(self) -> list[tuple[str, str]]:
        words = self._wanted.text.lower().split()
        return [one for one in self._choices if all(word in one[1].lower() for word in words)]

    def content(self, width: int, height: int) -> Content | None:
        """What is looked for, and as many of the lines that have it as find room around the cursor."""
        room = height - 6
        if room < 3:
            return None
        left = self._left()
        self._row = max(0, min(self._row, len(left) - 1))
        first = max(0, min(self._row - room // 2, len(left) - room))
        rows = [self._line(one, width - 4) for one in left[first : first + room]]
        before, under, after = self._wanted.window(width - 12)
        body = [f"find: {before}│{under}{after}".rstrip(), *(rows or ["nothing has that in its line"])]
        place = f"   {self._row + 1} of {len(left)}" if left else ""
        foot = f"Enter choose   ↑ ↓ move   Esc leave{place}"
        return Content(self._title, body, foot, 1 + self._row - first if left else None)

    def _line(self, one: tuple[str, str], width: int) -> str:
        mark = "●" if one[0] == self._chosen else " "
        return fit(f"{mark} {one[1]}", width)

    def on_key(self, event: events.Key) -> None:
        """Move, find, take or leave; no key is for anybody else."""
        event.stop()
        event.prevent_default()
        left = self._left()
        if event.key == "escape":
            self.dismiss(None)
        elif event.key == "enter":
            if left:
                self.dismiss(left[self._row][0])
        elif event.key in _MOVES:
            self._row = max(0, min(self._row + _MOVES[event.key], len(left) - 1))
            self.redraw()
        else:
            typed = self._wanted.pressed(event.key, event.character)
            if typed is not None:
                self._row = 0 if typed.text != self._wanted.text else self._row
                self._wanted = typed
                self.redraw()
