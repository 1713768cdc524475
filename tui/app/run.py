"""Starts the app in a terminal that can show it, the environment set before Textual is imported."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tui.errors import PeakmarkError, UsageError

_BEFORE_IMPORT = {"TEXTUAL_ANIMATIONS": "none", "TEXTUAL_FPS": "15", "TEXTUAL_SMOOTH_SCROLL": "0"}
"""Read by Textual when it is imported: nothing moves by itself, and few frames go over a slow link."""

_SWITCH_S = 0.001
"""A thread that reads a file gives way to the event loop after this long; Python's own 5 ms can be felt."""


def run_app(
    project_path: Path | None,
    *,
    ascii: bool = False,
    mouse: bool = True,
    theme: str | None = None,
    snapshot: Path | None = None,
) -> int:
    """Open the app and return its exit code: 0, 2 for a bad project or terminal, 128 + n on signal n.

    Args:
        project_path: the project to open; None: the first-run screen.
        ascii: draw with ASCII only; also chosen for TERM=linux and for a locale that is not UTF-8.
        mouse: let the terminal report the mouse.
        theme: name of a theme; None: dark, or ansi under NO_COLOR.
        snapshot: a memory snapshot to look at first; Esc then goes to the project, or ends the app without one.
    """
    try:
        refuse(os.environ, sys.__stdin__, sys.__stderr__)
        for key, value in _BEFORE_IMPORT.items():
            os.environ.setdefault(key, value)
        plain = ascii or needs_ascii(os.environ, getattr(sys.__stderr__, "encoding", None))
        if isinstance(sys.__stderr__, io.TextIOWrapper):
            sys.__stderr__.reconfigure(encoding="utf-8", errors="replace")
        from tui.app.app import PeakmarkApp
        from tui.app.source import World

        sys.setswitchinterval(_SWITCH_S)
        app = PeakmarkApp(project_path, World(), ascii_only=plain, theme_name=theme, snapshot=snapshot)
        app.run(mouse=mouse)
    except PeakmarkError as error:
        print(f"peakmark: {error.sentence()}", file=sys.stderr)
        return error.code
    return app.return_code or 0


def refuse(environment: Mapping[str, str], stdin: io.TextIOBase | None, stderr: io.TextIOBase | None) -> None:
    """Raise when there is no terminal that could show the app.

    Raises:
        UsageError: no terminal, or TERM=dumb.
    """
    if environment.get("TERM", "") in ("dumb", ""):
        raise UsageError(
            f"this terminal (TERM={environment.get('TERM') or 'unset'}) cannot show the app",
            hint="set TERM, or use the commands: peakmark --help",
        )
    if stdin is None or stderr is None or not stdin.isatty() or not stderr.isatty():
        raise UsageError("the app needs a terminal", hint="use the commands: peakmark --help")


def needs_ascii(environment: Mapping[str, str], encoding: str | None) -> bool:
    """Whether glyphs outside ASCII cannot be relied on: the Linux console, or a locale that is not UTF-8."""
    if environment.get("TERM") == "linux":
        return True
    if encoding is not None and "utf" not in encoding.lower():
        return True
    locale = next((environment[key] for key in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(key)), "")
    return bool(locale) and "utf" not in locale.lower()
