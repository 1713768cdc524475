"""A box over a screen in which one line is typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from tui.app.glyphs import ascii_line
from tui.app.line_edit import LineEdit
from tui.app.lines import wrap
from tui.app.theme import styles
from tui.app.views.box import box
from tui.app.widgets.lines_view import LinesView


class Ask(ModalScreen[str | None]):
    """Ends with what was typed, None when that was given up or nothing.

    Args:
        title: on the upper edge.
        body: sentences above the line.
        text: what stands in it at first.
        complete: what Tab makes of the text; None: Tab does nothing.
        ascii_only: draw with ASCII only.
    """

    DEFAULT_CSS = """
    Ask { align: center middle; background: $background 40%; }
    Ask:ansi { background: transparent; }
    Ask LinesView { width: auto; height: auto; background: $background; color: $foreground; }
    """
    WIDEST = 76
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
        super().__init__()
        self._title, self._body, self._complete, self._ascii = title, tuple(body), complete, ascii_only
        self._line = LineEdit.of(text)

    def compose(self) -> ComposeResult:
        yield LinesView()

    def on_mount(self) -> None:
        """Draw the box."""
        self.redraw()

    def on_resize(self) -> None:
        """Draw it for the new width."""
        self.redraw()

    def shown(self) -> str:
        """The text of the box."""
        return self.query_one(LinesView).shown()

    def redraw(self) -> None:
        """Lay the box out for the terminal as it is."""
        width = min(self.WIDEST, self.app.size.width - 4)
        if width < 20:
            return
        before, under, after = self._line.window(width - 8)
        said = [part for one in self._body for part in wrap(one, width - 4)]
        keys = "Enter take   Tab complete   Esc leave" if self._complete else "Enter take   Esc leave"
        lines = box(self._title, [*said, "", f"> {before}│{under}{after}".rstrip()], keys, width)
        view = self.query_one(LinesView)
        view.styles.width, view.styles.height = width, len(lines)
        view.restyle(styles(self.app.current_theme))
        view.show([ascii_line(one) for one in lines] if self._ascii else lines)

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
