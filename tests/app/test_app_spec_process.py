"""The Spec screen in a real terminal: a field edited over the wire, and the user's own editor."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from app.terminal import LEAVES, Terminal

ENTERS = b"\x1b[?1049h"
PROJECT = """\
schema = 1
title = "tiny"   # of mine

[workload]
source = "mlp"
args = { inputs = 8, hidden = [8], outputs = 2 }   # small
"""


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("VISUAL", raising=False)
    path = tmp_path / "tiny.toml"
    path.write_text(PROJECT)
    return path


def opened(path: Path, **environment: str) -> Terminal:
    return Terminal([sys.executable, "-P", "-m", "tui", str(path)], **environment)


def test_a_field_is_edited_and_saved_in_a_terminal_and_idles_while_it_is_open(path):
    with opened(path) as terminal:
        terminal.wait_for("90 by formula")
        terminal.press("jjjj\r\x15[8, 16]")  # as a slow link delivers it: all at once
        terminal.wait_for("250 parameters by formula")
        terminal.read(0.5)
        quiet = len(terminal.written)
        terminal.read(0.7)
        assert len(terminal.written) == quiet  # a cursor that stands still
        terminal.press("\r")
        terminal.wait_for("250 by formula", quiet)
        assert path.read_text() == PROJECT.replace("hidden = [8]", "hidden = [8, 16]")
        terminal.press("q")
        assert terminal.end() == 0


def editor(folder: Path, *lines: str) -> str:
    """An editor that says it was here, and does ``lines`` to its file."""
    script = folder / "fake editor"
    script.write_text("\n".join(("#!/bin/sh", "echo EDITOR-WAS-HERE", *lines)) + "\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return f"'{script}' --wait"


def test_the_editor_has_the_terminal_and_what_it_saved_is_shown(path, tmp_path):
    words = editor(tmp_path, 'sed -i "s/inputs = 8/inputs = 16/" "$2"')
    with opened(path, EDITOR=words) as terminal:
        terminal.wait_for("90 by formula")
        start = len(terminal.written)
        terminal.press("e")
        terminal.wait_for("154 by formula", start)
        seen = bytes(terminal.written[start:])
        assert seen.index(LEAVES) < seen.index(b"EDITOR-WAS-HERE") < seen.index(ENTERS)
        terminal.press("q")
        assert terminal.end() == 0


def test_a_file_that_the_editor_broke_is_one_sentence_and_what_was_shown_stays(path, tmp_path):
    words = editor(tmp_path, 'sed -i "s/inputs = 8/inputs = /" "$2"')
    with opened(path, EDITOR=words) as terminal:
        terminal.wait_for("90 by formula")
        start = len(terminal.written)
        terminal.press("e")
        terminal.wait_for("r run inventory", start)
        terminal.read(0.2)
        shown = terminal.text(start)
        # Without spaces: the path may be so long that a row ends within the name.
        assert "tiny.toml:6:notvalidTOML:avalueismissing" in "".join(shown.split())
        assert "90 by formula" in shown[shown.index("EDITOR-WAS-HERE") :]
        assert "Traceback" not in shown
        terminal.press("q")
        assert terminal.end() == 0


def test_an_editor_that_is_not_there_is_named(path):
    with opened(path, EDITOR="no-such-editor-here") as terminal:
        terminal.wait_for("90 by formula")
        terminal.press("e")
        terminal.wait_for("no-such-editor-here cannot be started")
        terminal.press("q")
        assert terminal.end() == 0
