"""Where a command's answer goes: lines for a person, one figure a line, or one JSON document."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tui.errors import PeakmarkError, SaveError

LEAST_WIDTH = 60
MOST_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Output:
    """How the command line asked for its answer."""

    json: bool = False
    plain: bool = False
    ascii: bool = False
    quiet: bool = False

    def answer(self, lines: Callable[[int], Sequence[str]], document: Callable[[], dict[str, Any]]) -> None:
        """Print ``lines(width)``, or ``document()`` as JSON or as one figure a line.  Data goes to stdout."""
        if self.json:
            _print(json.dumps(document(), indent=2, allow_nan=False) + "\n")
        elif self.plain:
            from tui.report.plain import plain_lines

            self.lines(plain_lines(document()))
        else:
            self.lines(lines(width()))

    def lines(self, lines: Sequence[str]) -> None:
        """Print lines to stdout; what came from outside, such as a file's name, moves no cursor."""
        from tui.report.lines import clean

        _print(self._spelled("".join(f"{clean(line)}\n" for line in lines), sys.stdout))

    def talk(self, line: str) -> None:
        """Print a line about progress to stderr, unless asked to be quiet."""
        if not self.quiet:
            from tui.report.lines import clean

            self.whisper(clean(line) + "\n")

    def whisper(self, text: str) -> None:
        """Write to stderr as it is; a terminal that has gone is no reason to stop what is going on."""
        try:
            _write(sys.stderr, self._spelled(text, sys.stderr))
        except (OSError, ValueError):
            _silence(sys.stderr)

    def error(self, error: PeakmarkError) -> int:
        """Say an error: one sentence on stderr, with ``--json`` also a document; returns its exit code."""
        if self.json:
            from tui.report.documents import error_document

            _print(json.dumps(error_document(error), indent=2) + "\n")
        from tui.report.lines import clean

        self.whisper(f"peakmark: {clean(error.sentence())}\n")
        return error.code

    def _spelled(self, text: str, stream: Any) -> str:
        from tui.report.lines import to_ascii

        return to_ascii(text) if self.ascii or not _speaks_utf8(stream) else text


def stand_in() -> None:
    """Lead streams that were closed before we began (``>&-``) nowhere; no file of ours may take their place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # becomes the lowest number that is free, which is this one
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  kept to the end
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def width() -> int:
    """Columns to print in: the terminal's, 80 when stdout is none."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return 80
    return max(LEAST_WIDTH, min(MOST_WIDTH, shutil.get_terminal_size().columns))


def _speaks_utf8(stream: Any) -> bool:
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _print(text: str) -> None:
    """Write to stdout.

    Raises:
        BrokenPipeError: whoever read it has gone.
        SaveError: it cannot be written, as when it goes to a file on a full disk.
    """
    try:
        _write(sys.stdout, text)
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence(sys.stdout)
        raise SaveError(f"stdout cannot be written: {(error.strerror or str(error)).lower()}") from error


def _silence(stream: Any) -> None:
    """What is left in the buffer must not fail once more, at the interpreter's exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _write(stream: Any, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:
        stream.write(text.encode("ascii", "replace").decode("ascii"))
    stream.flush()
