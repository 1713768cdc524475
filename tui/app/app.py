"""The app: six screens over one project, and at most one run that it watches.

It is a viewer.  A run belongs to its runner, so closing or losing the app ends nothing; what a screen shows
after a run comes from the project file alone.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui.app import guard, theme
from tui.app.page import STEPS, Cursor, Scene
from tui.app.running import RunningApp
from tui.app.screens.page import PageScreen
from tui.app.screens.spec import SpecScreen
from tui.app.screens.step import StepScreen
from tui.app.source import Source
from tui.app.steps import marks_of, stale_of
from tui.errors import PeakmarkError, UsageError


def _screen(step: str) -> Any:
    own = {"spec": SpecScreen, "ledger": _ledger, "probe": _probe}
    return own.get(step, lambda: StepScreen(step))


def _load(step: str) -> None:
    """Import the view of a step, and what a comparison of specs takes."""
    importlib.import_module(f"tui.app.views.{step}")
    importlib.import_module("tui.report.operating")
    if step in ("ledger", "probe"):
        importlib.import_module(f"tui.app.screens.{step}")


def _probe() -> PageScreen:
    from tui.app.screens.probe import ProbeScreen

    return ProbeScreen()


def _ledger() -> PageScreen:
    from tui.app.screens.ledger import LedgerScreen

    return LedgerScreen()


def _first() -> PageScreen:
    from tui.app.screens.first import FirstScreen

    return FirstScreen()


_LOOK_S = 1.0
"""How often the file is looked at, for what others saved."""


class PeakmarkApp(RunningApp):
    """Opens a project, starts and watches runs of it.

    Args:
        project_path: the project; None shows what can be done without one.
        source: the outside world.
        ascii_only: draw with ASCII only.
        theme_name: name of a theme; None: dark, or ansi under NO_COLOR.
        snapshot: a memory snapshot to look at first.

    Raises:
        PeakmarkError: the project or a theme cannot be read.
    """

    TITLE = "peakmark"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "colon"
    MODES: ClassVar[dict[str, Any]] = {"first": _first, **{step: _screen(step) for step in STEPS}}
    CSS = """
    CommandPalette SearchIcon { display: none; }
    CommandPalette > Vertical { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(n), f"step('{step}')", step, id=f"step.{step}", show=False)
            for n, step in enumerate(STEPS, 1)
        ),
        Binding("r", "run", "Run this step", id="run.start", show=False),
        Binding("p", "predict", "Predict", id="run.predict", show=False),
        Binding("x", "stop", "Stop the run", id="run.stop", show=False),
        Binding("b", "exact", "Exact bytes", id="show.bytes", show=False),
        Binding("e", "edit", "Edit the file", id="file.edit", show=False),
        Binding("question_mark", "help", "Help", id="show.help", show=False),
        Binding("q", "leave", "Quit", id="app.quit", show=False),
        Binding("ctrl+q", "leave", "Quit", id="app.quit-too", show=False, priority=True),
        Binding("ctrl+c", "interrupt", "Quit, twice", id="app.interrupt", show=False, priority=True),
    ]

    def __init__(
        self,
        project_path: Path | None,
        source: Source,
        *,
        ascii_only: bool = False,
        theme_name: str | None = None,
        snapshot: Path | None = None,
    ) -> None:
        plain = bool(os.environ.get("NO_COLOR"))
        # Read when the app is made: a class of its own would be the only other way to choose it.
        setattr(self, "DEFAULT_MODE", "first" if project_path is None else "spec")  # noqa: B010
        super().__init__(source, ascii_only=ascii_only, ansi_color=True if plain else None)
        self._exact = False
        self._interrupted_at = 0.0
        self._fingerprint = ""
        self._counted = False
        self._stamp: object = None
        self._looked_at: object = None
        """Stamp of the file when it was last found changed, so that a broken one is read once."""
        self._preview: tuple[str, ...] | None = None
        self._pending = False
        self._snapshot = snapshot
        self._choose_theme(theme_name or ("ansi" if plain else "dark"))
        if project_path is not None:
            self._take(source.load(project_path))

    def _choose_theme(self, name: str) -> None:
        themes = theme.load_all()
        for one in themes.values():
            self.register_theme(one)
        if name not in themes:
            raise UsageError(f"there is no theme {name}", hint=f"themes are {', '.join(sorted(themes))}")
        self.theme = name

    def _take(self, project: Any, stamp: object = None) -> None:
        """Show ``project``; ``stamp`` is that of the file before it was read."""
        self.project = project
        self._fingerprint = self.source.fingerprint(project)
        self._counted = self.source.counted(project)
        self._stamp = self.source.stamp(project.path) if stamp is None else stamp
        self._preview = None

    # --- lifecycle

    def on_mount(self) -> None:
        """Begin on the first step, look for a run that was left behind, and mind signals and the terminal."""
        self.theme_changed_signal.subscribe(self, lambda _: self._restyle())
        if not self.is_headless:
            guard.install(lambda code: self.exit(return_code=code))
            guard.watch_terminal()
        self.set_interval(_LOOK_S, self.look)
        if self.project is not None:
            self.call_after_refresh(self._opened)
        if self._snapshot is not None:
            self.open_snapshot(self._snapshot)

    def _opened(self) -> None:
        self.source.opened(self.project)
        self.found = self.source.running(self.project.path)
        if self.found is not None:
            self.changed()

    def open_project(self, path: Path) -> None:
        """Open a project from the first-run screen; a fault of it is said there."""
        try:
            self._take(self.source.load(path))
        except PeakmarkError as error:
            self.say(error.sentence())
            return
        self.message = ""
        self.switch_mode("spec")
        self._opened()

    def _restyle(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, PageScreen):
                screen.restyle()

    # --- what is shown

    def scene(self, step: str, cursor: Cursor) -> Scene:
        """Everything that the view of ``step`` may look at."""
        stale = stale_of(self.project, self._fingerprint, self._counted)
        preview = step == "report" and cursor.pane == 2
        return Scene(
            project=self.project,
            live=self.live,
            marks=marks_of(self.project, stale, self.live),
            stale=stale,
            exact=self._exact,
            message=self.message,
            found=self.source.describe(self.found) if self.found is not None else "",
            preview=self._markdown() if preview else (),
            gpu=self.gpu,
            spec=self._fingerprint,
            refused=self.refused[1] if self.refused and self.refused[0] == self._fingerprint else "",
        )

    def _markdown(self) -> tuple[str, ...]:
        if self._preview is None:
            try:
                self._preview = tuple(self.source.markdown(self.project).splitlines())
            except PeakmarkError as error:
                self._preview = (error.sentence(),)
        return self._preview

    def changed(self) -> None:
        """Draw the screen again, once, when everything that is at hand has been taken in."""
        if not self._pending:
            self._pending = True
            self.call_later(self._draw)

    def _draw(self) -> None:
        self._pending = False
        stack = self._screen_stacks.get(self.current_mode) or []
        for screen in stack:  # what lies under an overlay is still seen around it
            if isinstance(screen, PageScreen) and screen.is_mounted:
                screen.redraw()

    def reload(self) -> None:
        """Read the project again; when that fails, keep what is shown and say why."""
        try:
            self._take(self.source.load(self.project.path))
        except PeakmarkError as error:
            self.message = error.sentence()
        self.changed()

    async def catch_up(self) -> None:
        """As ``reload``, if the file was written again; in a thread, so that keys are answered meanwhile."""
        path = self.project.path
        while (stamp := self.source.stamp(path)) != self._stamp:
            self.catching_up = True
            try:
                project = await asyncio.to_thread(self.source.load, path)
            except PeakmarkError as error:
                self.message = error.sentence()
                break
            finally:
                self.catching_up = False
            if self.source.stamp(path) == stamp:
                self._take(project, stamp)
                break
        self.changed()

    def saved(self, project: Any) -> None:
        """Show the project as an edit has made it."""
        self._take(project)
        self.changed()

    def is_fresh(self) -> bool:
        """Take in what others wrote to the file; False when it cannot be read any more, which is then said."""
        self.hush()
        if self.source.stamp(self.project.path) != self._stamp:
            self.reload()
        return not self.message

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether an action may be done: a colon that is typed into a text opens no palette."""
        if action == "command_palette" and (self.focused is not None or self._types()):
            return False
        return super().check_action(action, parameters)

    def _types(self) -> bool:
        stack = self._screen_stacks.get(self.current_mode)
        return bool(stack) and bool(getattr(stack[-1], "typing", False))

    # --- actions

    async def action_step(self, step: str) -> None:
        """Go to a step."""
        if self.project is None:
            return
        self.hush()
        self.goes_along = False
        self._unverified_said = ""
        self._look_again()
        await self.show_step(step)

    async def show_step(self, step: str) -> None:
        """Show a screen; what it needs is loaded in a thread, so that the loop does not stand still for it."""
        await asyncio.to_thread(_load, step)
        self.switch_mode(step)

    def _look_again(self) -> None:
        """Take in what others did: a run that began or ended, a file that was written."""
        if self._run is not None:
            return
        if self.found is not None or not self._put_away:
            self.found = self.source.running(self.project.path)
        if self.source.stamp(self.project.path) != self._stamp:
            self.reload()

    def look(self) -> None:
        """Take in a file that somebody else saved, unless a run says when, or something is being typed."""
        screen = self.step_screen
        if self.project is None or self._run is not None or screen is None or screen.typing:
            return
        stamp = self.source.stamp(self.project.path)
        if stamp is not None and stamp not in (self._stamp, self._looked_at):
            self._looked_at = stamp
            self.hush()
            self.reload()

    @property
    def alone(self) -> bool:
        """Whether a memory snapshot is all that was opened."""
        return self.project is None and self._snapshot is not None

    @property
    def exact(self) -> bool:
        """Whether bytes are shown with every digit."""
        return self._exact

    def ask_snapshot(self) -> None:
        """Ask for the path of a memory snapshot, and open it."""
        from tui.app.screens.ask import Ask, completed

        said = ["A file that torch.cuda.memory._dump_snapshot wrote. Nothing of it is run."]
        ask = Ask("Open a memory snapshot", said, complete=completed, ascii_only=self.ascii_only)
        self.push_screen(ask, lambda typed: self.open_snapshot(Path(typed).expanduser()) if typed else None)

    def open_snapshot(self, path: Path) -> None:
        """Look at a memory snapshot; Esc goes back to where it was opened."""
        from tui.app.screens.snapshot import SnapshotScreen

        self.hush()
        self.push_screen(SnapshotScreen(path))

    def action_exact(self) -> None:
        """Show exact bytes, or GiB again."""
        self._exact = not self._exact
        self.changed()

    def action_help(self) -> None:
        """What the figures of this screen mean, and its keys."""
        from tui.app.help import QUESTIONS, help_lines
        from tui.app.screens.overlay import Overlay

        name = self.screen.help_of if isinstance(self.screen, PageScreen) else "first"
        width = min(Overlay.WIDEST, self.size.width - 4)
        title = f"{name.capitalize()}: {QUESTIONS[name]}"
        answers = {"question_mark": "", "q": "", "enter": ""}
        self.push_screen(
            Overlay(title, help_lines(name, width - 4), "Esc close", answers, ascii_only=self.ascii_only)
        )

    def action_edit(self) -> None:
        """Give the terminal to the user's editor, then read the file again."""
        if self.project is None:
            return
        with self.suspend():
            said = self.source.edit(self.project.path)
        self.reload()
        if said:
            self.say(said)

    def action_interrupt(self) -> None:
        """ctrl+c: the second one within two seconds quits and leaves a run running."""
        now = time.monotonic()
        if now - self._interrupted_at < 2:
            self.exit(return_code=130)
            return
        self._interrupted_at = now
        self.say("ctrl+c again quits; a run goes on without the app")

    def save_report(self) -> None:
        """Write the report's file and say where it is."""
        try:
            self.say(f"written: {self.source.write_report(self.project)}")
        except PeakmarkError as error:
            self.say(error.sentence())

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Everything that a key does, for the palette."""
        from tui.app.palette import commands

        return commands(self, screen)

    def action_command_palette(self) -> None:
        """Open the palette, with a cursor that does not blink over a slow link."""
        super().action_command_palette()
        self.call_after_refresh(self._still_cursor)

    def _still_cursor(self) -> None:
        from textual.widgets import Input

        for box in self.screen.query(Input):
            box.cursor_blink = False
