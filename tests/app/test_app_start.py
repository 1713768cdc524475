"""What is decided before the app starts, and what it remembers."""

from __future__ import annotations

import io

import pytest

from tui.app import recent
from tui.app.run import needs_ascii, refuse
from tui.errors import UsageError


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "encoding", "plain"),
    [
        ({"TERM": "xterm-256color", "LANG": "en_US.UTF-8"}, "utf-8", False),
        ({"TERM": "xterm-256color"}, "utf-8", False),
        ({"TERM": "linux", "LANG": "en_US.UTF-8"}, "utf-8", True),
        ({"TERM": "xterm", "LANG": "en_US.UTF-8", "LC_ALL": "C"}, "utf-8", True),
        ({"TERM": "xterm", "LANG": "de_DE.ISO-8859-1"}, "utf-8", True),
        ({"TERM": "xterm", "LC_CTYPE": "C.UTF-8"}, "utf-8", False),
        ({"TERM": "xterm"}, "latin-1", True),
    ],
)
def test_ascii_is_chosen_where_glyphs_cannot_be_relied_on(environment, encoding, plain):
    assert needs_ascii(environment, encoding) is plain


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {}])
def test_a_terminal_that_can_show_nothing_is_refused(environment):
    with pytest.raises(UsageError, match="cannot show the app; set TERM"):
        refuse(environment, Tty(), Tty())


def test_a_pipe_is_refused():
    with pytest.raises(UsageError, match="needs a terminal"):
        refuse({"TERM": "xterm"}, io.StringIO(), Tty())


def test_recent_projects_are_kept_newest_first_and_each_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    paths = [tmp_path / f"{name}.toml" for name in "abc"]
    for path in paths:
        path.write_text("")
        recent.remember(path, path.stem.upper())
    recent.remember(paths[0], "A")
    assert [title for title, _, _ in recent.listed()] == ["A", "C", "B"]
    paths[2].unlink()
    assert [title for title, _, _ in recent.listed()] == ["A", "B"]


def test_a_broken_list_of_recent_projects_is_an_empty_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path))
    (tmp_path / "recent.json").write_text('{"no": [')
    assert recent.listed() == []
