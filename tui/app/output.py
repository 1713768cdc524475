"""The last lines that a measuring process wrote to its log, safe to show.

Bounded: a log of any length costs the same; escape sequences and what a progress bar wrote over are left out.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tui.errors import RunError

MOST_BYTES = 64 * 1024
MOST_LINES = 500
WIDEST = 1000
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b-\x1f\x7f]"
)


@dataclass(frozen=True, slots=True)
class Output:
    """The end of a log."""

    name: str
    lines: tuple[str, ...]
    bytes: int
    """Of the whole log."""
    left_out: bool
    """Whether lines before these are not here."""
    stamp: object = None
    """Differs when more was written."""


def stamp_of(path: Path) -> object:
    """What differs when more was written to ``path``; None when there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def read(path: Path) -> Output:
    """The last lines in ``path``.

    Raises:
        RunError: it is gone or cannot be read.
    """
    stamp = stamp_of(path)
    try:
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            first = max(0, size - MOST_BYTES)
            log.seek(first)
            text = log.read(MOST_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        raise RunError("the log of this measurement is not on this machine any more") from None
    except OSError as error:
        raise RunError(f"the log cannot be read: {(error.strerror or str(error)).lower()}") from error
    lines = cleaned(text)
    cut = first > 0 or len(lines) > MOST_LINES
    return Output(path.name, tuple(lines[1 if first else 0 :][-MOST_LINES:]), size, cut, stamp)


def cleaned(text: str) -> list[str]:
    """Lines as a terminal would show them in the end: without escapes, the last of what was written over."""
    lines: list[str] = []
    for line in text.split("\n"):
        shown = [part for part in (_plain(one) for one in line.split("\r")) if part.strip()]
        lines.append(shown[-1][:WIDEST] if shown else "")
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _plain(text: str) -> str:
    return _ESCAPES.sub("", text.expandtabs(8)).rstrip()
