"""The line that divides a project file: above it a person writes, below it peakmark does."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tui.errors import ProjectError

MARKER = "# ---- Measured by peakmark: edit above this line only ----"
_LINE = re.compile(r"^[ \t]*" + re.escape(MARKER) + r"[ \t]*\r?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Parts:
    """A project file in its two parts; joined with the marker line between them they are the file."""

    user: str
    """Everything above the marker line, its last newline included."""
    measured: str
    """Everything below the marker line."""
    marked: bool
    measured_line: int
    """Number of the first line of ``measured``."""


def divide(text: str, name: str) -> Parts:
    """The two parts of ``text``.

    Raises:
        ProjectError: the marker line stands there more than once.
    """
    found = list(_LINE.finditer(text))
    if not found:
        return Parts(text, "", False, text.count("\n") + 1)
    if len(found) > 1:
        lines = [text.count("\n", 0, one.start()) + 1 for one in found]
        raise ProjectError(
            f"the marker line stands here {len(found)} times (lines {', '.join(map(str, lines))})",
            where=f"{name}:{lines[1]}",
            hint="keep the one above [measured] and delete or reword the others",
        )
    end = text.find("\n", found[0].end())
    end = len(text) if end < 0 else end + 1
    return Parts(text[: found[0].start()], text[end:], True, text.count("\n", 0, end) + 1)


def newline_of(text: str) -> str:
    """CRLF when every line of ``text`` ends with it, else LF."""
    return "\r\n" if "\n" in text and text.count("\r\n") == text.count("\n") else "\n"


def assemble(parts: Parts, measured: str) -> str:
    """The whole file again: the user's part as it was, the marker line, the tables ``measured`` (with LF)."""
    newline = newline_of(parts.user)
    gap = ""
    if parts.user and not parts.marked:
        gap = newline if parts.user.endswith("\n") else newline * 2
    return f"{parts.user}{gap}{MARKER}{newline}{newline}{measured.replace(chr(10), newline)}"
