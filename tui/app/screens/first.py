"""The screen without a project: what can be done now, and a path to open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from tui.app.glyphs import ascii_line
from tui.app.screens.page import PageScreen
from tui.app.views.first import CHOICES, lines
from tui.app.widgets.lines_view import LinesView


class FirstScreen(PageScreen):
    """Opens a project by its path or from the recent ones; the rest are commands, which it names."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "ask", "Open a project", id="first.open", show=False),
        Binding("escape", "leave_input", "Back", id="first.back", show=False),
    ]
    DEFAULT_CSS = """
    FirstScreen Input {
        layer: live; dock: bottom; offset: 0 -1; height: 1; border: none; padding: 0 1; display: none;
        background: $background;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._recent: list[tuple[str, str, str]] = []

    def compose(self) -> ComposeResult:
        yield LinesView()
        path = Input(placeholder="path of a .toml file", compact=True)
        path.cursor_blink = False
        yield path

    def on_mount(self) -> None:
        """Look for recent projects."""
        self._recent = self.peakmark.source.recent()

    def redraw(self) -> None:
        """Show what can be done now."""
        width, height = self.app.size
        made = lines(self._recent, self._terminal(), width, height, self.peakmark.message)
        self.query_one(LinesView).show(
            [ascii_line(one) for one in made] if self.peakmark.ascii_only else made
        )

    def _terminal(self) -> list[str]:
        width, height = self.app.size
        kind = os.environ.get("TERM", "unset") + (", tmux" if os.environ.get("TMUX") else "")
        return [
            f"terminal      {width} x {height}, {kind}",
            "doctor        peakmark doctor says what else is here",
        ]

    def on_key(self, event: events.Key) -> None:
        """A digit opens a recent project, a letter says its command."""
        if self.query_one(Input).display:
            return
        commands = {key: command for key, _, _, command in CHOICES if command}
        if event.key in commands:
            self.peakmark.say(f"leave with q, then: {commands[event.key]}")
        elif event.key.isdigit() and 0 < int(event.key) <= len(self._recent):
            event.stop()
            self.peakmark.open_project(Path(self._recent[int(event.key) - 1][1]))

    def action_ask(self) -> None:
        """Ask for a path."""
        box = self.query_one(Input)
        box.display = True
        box.focus()

    def action_leave_input(self) -> None:
        """Put the question for a path away."""
        self.query_one(Input).display = False
        self.set_focus(None)
        self.peakmark.hush()
        self.redraw()

    @on(Input.Submitted)
    def open_typed(self, message: Input.Submitted) -> None:
        """Open what was typed."""
        self.action_leave_input()
        if message.value.strip():
            self.peakmark.open_project(Path(message.value.strip()).expanduser())
