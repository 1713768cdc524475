"""A line that is typed: keys, paste, and what of it is seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.app.line_edit import LONGEST, LineEdit


def after(text: str, *keys: str) -> tuple[str, int]:
    line = LineEdit.of(text)
    for key in keys:
        line = line.pressed(key, key if len(key) == 1 else None) or line
    return line.text, line.at


@pytest.mark.parametrize(
    ("keys", "text", "at"),
    [
        (["x"], "abcx", 4),
        (["left", "x"], "abxc", 3),
        (["home", "x"], "xabc", 1),
        (["home", "left", "delete"], "bc", 0),
        (["backspace"], "ab", 2),
        (["home", "backspace"], "abc", 0),
        (["delete"], "abc", 3),
        (["left", "ctrl+u"], "c", 0),
        (["left", "ctrl+k"], "ab", 2),
        (["home", "right", "end", "right"], "abc", 3),
    ],
)
def test_a_key_does_what_it_does_in_a_shell(keys, text, at):
    assert after("abc", *keys) == (text, at)


def test_ctrl_w_takes_the_word_before_the_cursor():
    assert after("fp32, bf16", "ctrl+w") == ("fp32, ", 6)
    assert after("fp32", "ctrl+w") == ("", 0)


def test_other_keys_are_not_a_lines():
    assert LineEdit.of("a").pressed("f5", None) is None
    assert LineEdit.of("a").pressed("enter", "\r") is None
    assert LineEdit.of("a").pressed("tab", "\t") is None


def test_a_paste_has_no_control_characters_and_no_end():
    assert LineEdit.of("").typed("a\tb\x1b[31m").text == "a b [31m"
    assert len(LineEdit.of("").typed("x" * 10**6).text) == LONGEST


@given(st.text(st.sampled_from("ab界, é"), max_size=40), st.integers(0, 40), st.integers(4, 30))
def test_the_cursor_is_always_among_the_cells_that_are_seen(text, at, room):
    line = LineEdit(text, min(at, len(text)))
    before, under, rest = line.window(room)
    assert cell_len(before + under + rest) <= room
    assert under == (text[line.at] if line.at < len(text) else " ")
    assert text[: line.at].endswith(before)
    assert text[line.at + 1 :].startswith(rest)
