"""What the app has to do with runs: starting, watching and stopping one, and what is asked before.

The run never depends on the app.  Everything here may be lost with the terminal.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from textual.app import App
from textual.timer import Timer

from tui.app.live import Live
from tui.app.screens.step import StepScreen
from tui.app.source import Source
from tui.app.steps import PREDICTS, RUNS, marks_of, screen_of
from tui.errors import PeakmarkError
from tui.probe import protocol

TICKS_PER_S = 4
"""Live traces are drawn this often at most; everything else once a second."""

CPU = "cpu"
"""In place of a GPU's name."""

_SAVED = (
    protocol.MeasurementStarted,
    protocol.MeasurementEnded,
    protocol.Planned,
    protocol.StepEnded,
)
"""Events after which the project may hold something new."""
_NEED_VERIFY = ("ledger", "probe", "precision", "restore")


class RunningApp(App[None]):
    """The part of the app that watches at most one run.

    Args:
        source: the outside world.
        ascii_only: draw with ASCII only.
        ansi_color: see ``textual.app.App``.
    """

    def __init__(self, source: Source, *, ascii_only: bool, ansi_color: bool | None) -> None:
        super().__init__(ansi_color=ansi_color)
        self.source = source
        self.ascii_only = ascii_only
        self.project: Any = None
        self.live: Live | None = None
        self.found: Any = None
        """A run that was left behind, until the user has answered."""
        self.goes_along = False
        """Whether the app shows each step of the run as it begins."""
        self.message = ""
        self.catching_up = False
        """Whether the project is being read again in a thread."""
        self.gpu = ""
        """The GPU that is predicted for, by its name in the table; "": as the project says.  Of this session."""
        self.refused: tuple[str, str] | None = None
        """(fingerprint, sentence): the last prediction was refused for that spec."""
        self._put_away = False
        """The user does not want to hear of a run that others started."""
        self._run: Any = None
        self._unverified_said = ""
        self._ticks = 0
        self._timer: Timer | None = None

    def say(self, sentence: str) -> None:
        """One sentence in the row above the keys, until the next key."""
        self.message = sentence
        self.changed()

    def hush(self) -> None:
        """Take the sentence away."""
        self.message = ""

    def changed(self) -> None:
        """The screen must be drawn again."""
        raise NotImplementedError

    def reload(self) -> None:
        """Read the project again."""
        raise NotImplementedError

    async def catch_up(self) -> None:
        """Read the project again in a thread, if it was written again."""
        raise NotImplementedError

    async def show_step(self, step: str) -> None:
        """Show a screen."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Have a clock for the live parts, standing still."""
        self._timer = self.set_interval(1 / TICKS_PER_S, self._tick, pause=True)

    @property
    def step_screen(self) -> StepScreen | None:
        """The step that is looked at; None under an overlay, on the first-run screen, and while the app ends."""
        top = self.screen_stack[-1] if self._screen_stacks.get(self.current_mode) else None
        return top if isinstance(top, StepScreen) else None

    @property
    def going_on(self) -> Any:
        """The run that is watched or was found; None when nothing runs."""
        return self._run if self._run is not None else self.found

    def _tick(self) -> None:
        self._ticks += 1
        if self.live is not None and self._run is not None:
            self.live.elapsed_s = self.source.elapsed_s(self._run)
        screen = self.step_screen
        if screen is None:
            return
        if self._ticks % TICKS_PER_S == 0:
            screen.redraw()
        else:
            screen.redraw_traces()

    # --- asking

    def action_run(self) -> None:
        """Run the step of this screen."""
        screen = self.step_screen
        if self.project is not None and screen is not None:
            self.run_step("restore" if screen.on_restore else screen.step)

    def run_step(self, step: str, options: tuple[str, ...] = ()) -> None:
        """Run a step unless one is going on; what the project would run of its own is asked about first.

        Args:
            step: a key of ``RUNS``.
            options: further arguments of the run.
        """
        if self.going_on is not None:
            self.say("a run is going on: x stops it")
            return
        try:
            asked = self.source.untrusted(self.project)
        except PeakmarkError as error:
            self.say(error.sentence())
            return
        if asked:
            self._ask_trust(step, options, asked)
        else:
            self._run_step(step, options)

    def _ask_trust(self, step: str, options: tuple[str, ...], asked: tuple[str, ...]) -> None:
        from tui.app.screens.overlay import Overlay

        body = ["This project would run code of its own, with your rights:", "", *asked, ""]
        body.append(
            "Read it first. The answer is kept for you alone, and asked again when any of it changes."
        )
        overlay = Overlay(
            "Allow it to run?",
            body,
            "Enter allow   Esc leave",
            {"enter": "allow"},
            ascii_only=self.ascii_only,
        )
        self.push_screen(overlay, lambda result: self._answer_trust(step, options, result))

    def _answer_trust(self, step: str, options: tuple[str, ...], result: str | None) -> None:
        if result != "allow":
            self.say("not allowed, so nothing was run")
            return
        try:
            self.source.allow(self.project)
        except PeakmarkError as error:
            self.say(error.sentence())
            return
        self._run_step(step, options)

    def _run_step(self, step: str, options: tuple[str, ...]) -> None:
        unverified = marks_of(self.project, {}, None)["verify"] != "●"
        if step in _NEED_VERIFY and unverified and self._unverified_said != step:
            self._unverified_said = step
            again = "s again searches" if options else "r again runs"
            self.say(f"Verify has not passed, so figures may be of a broken step: 2 verifies, {again}")
            return
        self._unverified_said = ""
        self.say("starting a run")
        self.run_worker(self._start(RUNS[step], options), group="run", exclusive=True, exit_on_error=False)

    def action_predict(self) -> None:
        """Predict the batch of the project, on the screens that show a prediction."""
        screen = self.step_screen
        if self.project is not None and screen is not None and screen.step in PREDICTS:
            self.predict(screen.predicted_probe())

    def predict_here(self) -> None:
        """Predict from whatever screen is open; the result stands on the Ledger."""
        screen = self.step_screen
        self.predict(screen.predicted_probe() if screen is not None else None)

    def predict(self, probe: Any = None) -> None:
        """Start a prediction for the GPU that was chosen, else for the kind of device of ``probe``.

        Args:
            probe: what the prediction is to stand beside; None: nothing, it is of the project's batch.
        """
        options: tuple[str, ...] = ()
        if probe is not None and probe.micro_batch != self.project.spec.workload.batch.micro:
            options = ("--batch", str(probe.micro_batch))
        if self.gpu == CPU or (not self.gpu and probe is not None and probe.device == "cpu"):
            options = (*options, "--device", "cpu")
        elif self.gpu:
            options = (*options, "--gpu", self.gpu)
        self.refused = None
        self.run_step("predict", options)

    def choose_gpu(self) -> None:
        """Choose the GPU that predictions are for from now on, in this session."""
        from tui.app.screens.chooser import Chooser

        choices = [
            ("", "as the project and this machine say"),
            (CPU, "this machine's CPU: its operators, no caching allocator"),
            *self.source.gpus(),
        ]
        title = "Predict for which GPU?"
        chooser = Chooser(title, choices, self.gpu, ascii_only=self.ascii_only)
        self.push_screen(chooser, self._answer_gpu)

    def _answer_gpu(self, name: str | None) -> None:
        if name is None:
            return
        self.gpu = name
        where = "this machine's CPU" if name == CPU else name or "what the project and this machine say"
        self.say(f"p predicts for {where}, until the app is left")

    def ask_search(self) -> None:
        """Ask whether to search the largest batch that fits, saying what that runs and for how long."""
        from tui.app.screens.overlay import Overlay

        if self.going_on is not None:
            self.say("a run is going on: x stops it")
            return
        overlay = Overlay(
            "Search the largest batch that fits?",
            self.source.search_plan(self.project),
            "Enter search   k quick: fewer iterations   Esc leave",
            {"enter": "search", "k": "quick"},
            ascii_only=self.ascii_only,
        )
        self.push_screen(overlay, self._answer_search)

    def _answer_search(self, result: str | None) -> None:
        if result:
            self.run_step("probe", ("--search", "--quick") if result == "quick" else ("--search",))

    def action_stop(self) -> None:
        """Stop the run that is watched or was found."""
        run = self.going_on
        if run is None:
            self.say("nothing is running")
            return
        self.say("stopping the run; what it has is kept")
        self.run_worker(lambda: self._stop(run), thread=True, group="stop", exit_on_error=False)

    def action_leave(self) -> None:
        """Quit; while something runs, ask what becomes of it."""
        from tui.app.screens.overlay import Overlay

        run = self.going_on
        if run is None:
            self.exit()
            return
        body = ["A run is going on. It does not need this app: it saves what it measures in the project."]
        foot = "l leave it running   x stop it   Esc back"
        overlay = Overlay("Quit?", body, foot, {"l": "leave", "x": "stop"}, ascii_only=self.ascii_only)
        self.push_screen(overlay, lambda result: self._answer_quit(run, result))

    def _answer_quit(self, run: Any, result: str | None) -> None:
        if result == "leave":
            self.exit()
        elif result == "stop":
            self.say("stopping the run; what it has is kept")
            self.run_worker(
                lambda: self._stop(run, then_quit=True), thread=True, group="stop", exit_on_error=False
            )

    def watch_found(self) -> None:
        """Watch the run that was left behind."""
        run, self.found, self._put_away = self.found, None, False
        self.goes_along = True
        self.run_worker(self._follow(run), group="run", exclusive=True, exit_on_error=False)

    def leave_found(self) -> None:
        """Put the banner away; the run goes on."""
        self.found, self._put_away = None, True
        self.changed()

    # --- workers

    async def _start(self, steps: tuple[str, ...], options: tuple[str, ...]) -> None:
        try:
            run = await asyncio.to_thread(self.source.start, self.project.path, steps, options)
        except PeakmarkError as error:
            self.say(error.sentence())
            return
        self.hush()
        await self._follow(run)

    async def _follow(self, run: Any) -> None:
        """Take the run's events in until it ends; then everything comes from the project again."""
        live = self.live = Live()
        self._run = run
        self._clock(True)
        self.changed()
        self.refused = None
        failure = ""
        try:
            async with aclosing(self.source.follow(run)) as events:
                async for seen in events:
                    if live.apply(seen.event):
                        await self._go_along(seen.event)
        except (PeakmarkError, OSError) as error:
            failure = f"the run can no longer be watched: {error}"
        finally:
            self._clock(False)
            self.live = self._run = None
        self.message = failure or (live.failure if live.code else "")
        if live.code and live.step == "predict" and live.outcomes.get("predict") != "cancelled":
            self.refused = (self.source.fingerprint(self.project), live.failure)
        elif not self.message and live.step == "predict":
            self.message = live.said
        await self.catch_up()

    async def _go_along(self, event: Any) -> None:
        if isinstance(event, _SAVED):
            await self.catch_up()
        if isinstance(event, protocol.StepStarted) and self._stands_on(event.step):
            await self.show_step(screen_of(event.step))
        self.changed()

    def _stands_on(self, step: str) -> bool:
        """Whether the user is to be taken to a step that begins.

        Who asked to watch a run that was found goes along with it until a key chooses a step; from the
        ledger, whose ``r`` is a probe, the way is to the screen that moves.
        """
        if self.goes_along:
            return True
        return step == "probe" and self.step_screen is not None and self.step_screen.step == "ledger"

    def _stop(self, run: Any, then_quit: bool = False) -> None:
        try:
            self.source.stop(run)
        except PeakmarkError as error:
            self.call_from_thread(self.say, error.sentence())
            return
        self.call_from_thread(self._stopped, then_quit)

    def _stopped(self, then_quit: bool) -> None:
        self.found = None
        if then_quit:
            self.exit()
            return
        self.reload()

    def _clock(self, goes: bool) -> None:
        if self._timer is not None:
            self._timer.resume() if goes else self._timer.pause()
