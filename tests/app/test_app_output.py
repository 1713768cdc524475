"""The child's log: cleaned, bounded, and what stands when there is none."""

from __future__ import annotations

import pytest

from app import sample
from app.pages import laid
from tui.app.output import MOST_BYTES, MOST_LINES, Output, cleaned, read, stamp_of
from tui.app.page import Cursor
from tui.app.probe_state import ProbeState
from tui.errors import RunError


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        ("\x1b[32mgreen\x1b[0m text\n", ["green text"]),
        ("\x1b]0;a title\x07iter 1\n", ["iter 1"]),
        ("\x1b]8;;http://x\x1b\\a link\x1b]8;;\x1b\\\n", ["a link"]),
        ("  0%|   |\r 50%|## |\r100%|####|\n", ["100%|####|"]),
        ("100%|####|\r\n", ["100%|####|"]),
        ("done\r\x1b[K\n", ["done"]),
        ("a\tb\n", ["a       b"]),
        ("\x1bPsixel\x1b\\bell\x07\x00\x1b7\x1b[?25l end\n\n\n", ["bell end"]),
        ("one\n\ntwo", ["one", "", "two"]),
        ("x" * 5000, ["x" * 1000]),
        ("", []),
    ],
)
def test_lines_are_as_a_terminal_would_show_them_in_the_end(written, lines):
    assert cleaned(written) == lines


def test_only_the_end_of_a_long_log_is_read(tmp_path):
    log = tmp_path / "p.log"
    log.write_bytes(b"\xff\xfe\n" + b"".join(b"line %d\n" % n for n in range(100_000)))
    found = read(log)
    assert found.lines[-1] == "line 99999"
    assert len(found.lines) == MOST_LINES
    assert found.left_out
    assert found.bytes == log.stat().st_size > MOST_BYTES
    assert found.stamp == stamp_of(log)
    with log.open("ab") as more:
        more.write(b"one more\n")
    assert stamp_of(log) != found.stamp


def test_a_log_that_is_gone_is_one_sentence(tmp_path):
    with pytest.raises(RunError, match="not on this machine any more"):
        read(tmp_path / "p.log")


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=str)
def test_the_pane_shows_the_last_lines_and_the_cursor_goes_back(size):
    made = ProbeState(
        reading_output=True, output=Output("p.log", tuple(f"[b]{n}[/0]" for n in range(90)), 9, True)
    )
    last = [line.plain.rstrip() for line in laid(sample.cuda(), "probe", *size, probe=made).lines]
    assert " [b]89[/0]" in last
    assert "● OUTPUT  90 lines, the last of more" in last[2]
    first = laid(sample.cuda(), "probe", *size, Cursor(row=0), probe=made)
    assert first.picks == 90
    assert first.lines[3].plain.rstrip() == " [b]0[/0]"


def test_a_pane_without_a_log_says_why():
    made = ProbeState(reading_output=True, output="the log of this measurement is gone")
    assert (
        "○ NO OUTPUT  the log of this measurement is gone"
        in laid(sample.cuda(), "probe", probe=made).lines[2].plain
    )
