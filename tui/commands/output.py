"""Where a command's answer goes: lines for a person, one figure a line, or one JSON document."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tui.errors import PeakmarkError

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
            _write(sys.stdout, json.dumps(document(), indent=2, allow_nan=False) + "\n")
        elif self.plain:
            from tui.report.plain import plain_lines

            self.lines(plain_lines(document()))
        else:
            self.lines(lines(width()))

    def lines(self, lines: Sequence[str]) -> None:
        """Print lines to stdout."""
        from tui.report.lines import to_ascii

        text = "".join(f"{line}\n" for line in lines)
        _write(sys.stdout, to_ascii(text) if self.ascii or not _speaks_utf8(sys.stdout) else text)

    def talk(self, line: str) -> None:
        """Print a line about progress to stderr, unless asked to be quiet."""
        if not self.quiet:
            from tui.report.lines import to_ascii

            _write(
                sys.stderr, (to_ascii(line) if self.ascii or not _speaks_utf8(sys.stderr) else line) + "\n"
            )

    def error(self, error: PeakmarkError) -> int:
        """Say an error: one sentence on stderr, with ``--json`` also a document; returns its exit code."""
        if self.json:
            from tui.report.documents import error_document

            _write(sys.stdout, json.dumps(error_document(error), indent=2) + "\n")
        from tui.report.lines import clean

        _write(sys.stderr, f"peakmark: {clean(error.sentence())}\n")
        return error.code


def width() -> int:
    """Columns to print in: the terminal's, 80 when stdout is none."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return 80
    return max(LEAST_WIDTH, min(MOST_WIDTH, shutil.get_terminal_size().columns))


def _speaks_utf8(stream: Any) -> bool:
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _write(stream: Any, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:
        stream.write(text.encode("ascii", "replace").decode("ascii"))
    stream.flush()
