"""The log of the measuring process: the last lines that it wrote, followed while it runs."""

from __future__ import annotations

from tui.app.lines import cut, line
from tui.app.output import Output
from tui.app.page import BLANK, Cursor, Page, Row, Section, answer
from tui.app.views.figures import plural


def page(output: Output | str | None, live: bool, width: int, height: int, cursor: Cursor) -> Page:
    """The end of the log, or around the cursor."""
    keys: tuple[tuple[str, str], ...] = (("↑ ↓", "move"), ("g", "first"), ("G", "last"), ("o", "close"))
    if not isinstance(output, Output):
        word = ("»", "READING", "the log") if output is None else ("○", "NO OUTPUT", output)
        told = line((" what the measuring process and your own code print goes to this log", "dim"))
        return Page(answer(width, *word), (Section("", (BLANK,)),), told, (("o", "close"),))
    shown = output.lines or ("(nothing was written)",)
    room = max(1, height - 5)
    last = len(shown) - room
    first = max(0, last if cursor.row < 0 else min(cursor.row - room // 2, last))
    rows = [Row(cut(line(" " + one), width), pick=True) for one in shown[first : first + room]]
    said = plural(len(output.lines), "line") + (", the last of more" if output.left_out else "")
    word = ("»", "OUTPUT") if live else ("●", "OUTPUT")
    told = line(
        (f" {output.name}, {output.bytes:,} bytes" + ("; followed while it runs" if live else ""), "dim")
    )
    body = (Section("", tuple(rows)),)
    return Page(answer(width, *word, said), body, told, keys, window=(first, len(shown)))
