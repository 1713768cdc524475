"""A box over a screen in which one line is typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from textual import events

from tui.app.line_edit import LineEdit
from tui.app.lines import wrap
from tui.app.screens.boxed import BoxScreen, Content


class Ask(BoxScreen[str | None]):
    """Ends with what was typed, None when that was given up or nothing.

    Args:
        title: on the upper edge.
        body: sentences above the line.
        text: what stands in it at first.
        complete: what Tab makes of the text; None: Tab does nothing.
        ascii_only: draw with ASCII only.
    """

    typing = True
    """Keys go into a text."""

    def __init__(
        self,
        title: str,
        body: Sequence[str],
        text: str = "",
        *,
        complete: Callable[[str], str] | None = None,
        ascii_only: bool = False,
    ) -> None:
        super().__init__(ascii_only=ascii_only)
        self._title, self._body, self._complete = title, tuple(body), complete
        self._line = LineEdit.of(text)

    def content(self, width: int, height: int) -> Content:
        """The sentences, and the line with its cursor."""
        before, under, after = self._line.window(width - 8)
        said = [part for one in self._body for part in wrap(one, width - 4)]
        keys = "Enter take   Tab complete   Esc leave" if self._complete else "Enter take   Esc leave"
        return Content(self._title, [*said, "", f"> {before}│{under}{after}".rstrip()], keys)

    def on_key(self, event: events.Key) -> None:
        """Every key is the line's, but for those that end it."""
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.dismiss(None)
        elif event.key == "enter":
            self.dismiss(self._line.text.strip() or None)
        elif event.key == "tab":
            if self._complete is not None:
                self._line = LineEdit.of(self._complete(self._line.text))
                self.redraw()
        else:
            self._line = self._line.pressed(event.key, event.character) or self._line
            self.redraw()

    def on_paste(self, event: events.Paste) -> None:
        """Put what is pasted into the line."""
        event.stop()
        self._line = self._line.typed(event.text.strip("\r\n"))
        self.redraw()


def completed(text: str) -> str:
    """A path with as much added as is the same in every file that it may become; folders end with a slash."""
    folder, slash, name = text.rpartition("/")
    where = Path(folder + slash or ".").expanduser()
    try:
        found = sorted(one.name for one in where.iterdir() if one.name.startswith(name))
    except OSError:
        return text
    if not found:
        return text
    first, last = found[0], found[-1]
    common = next((first[:at] for at in range(len(first)) if not last.startswith(first[: at + 1])), first)
    end = "/" if len(found) == 1 and (where / common).is_dir() else ""
    return folder + slash + common + end
