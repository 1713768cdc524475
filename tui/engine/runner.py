"""The runner: ``peakmark run`` itself, in a terminal, in a batch job or detached, which are one code path.

It holds the device, does the steps in order, writes its journal, and ends its child when it is told to stop.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from tui.engine import device
from tui.engine.context import Context, Options, StepFunction, StepResult
from tui.engine.device import Device
from tui.engine.journal import Journal
from tui.engine.lock import DeviceLock
from tui.engine.record import announce
from tui.errors import PeakmarkError, RunError, UsageError
from tui.probe.protocol import RunEnded, RunStarted, StepEnded, StepStarted
from tui.project.ids import new_id
from tui.project.load import Project, load
from tui.project.paths import runs_folder

__all__ = ["STEPS", "Context", "Options", "StepFunction", "StepResult", "device_of", "run"]

STOPPING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
GOES_ON_BELOW = 2
"""With this code of a step or a higher one the run ends; after 1, a negative verdict, it goes on."""

_RUN_ID = re.compile(r"run-[0-9A-Za-z-]{1,60}")

DEVICELESS = frozenset({"params", "predict", "report"})
"""Steps that measure nothing: a run of these alone needs no device and waits for nobody."""


def _lazily(name: str) -> StepFunction:
    async def step(context: Context) -> StepResult:
        module = importlib.import_module(f"tui.engine.steps.{name}")
        return await module.run(context)

    return step


STEPS: dict[str, StepFunction] = {
    name: _lazily(name) for name in ("params", "verify", "predict", "probe", "precision", "restore", "report")
}
"""What a run can do; each is ``run(context)`` of the module of that name in ``engine/steps``."""


def device_of(project: Project, options: Options) -> Device:
    """The device that the command line, or else the project, names."""
    if options.device is not None:
        return device.resolve(options.device, name="--device")
    key = "environment.device"
    return device.resolve(project.spec.environment.device, where=project.at(key), name=key)


async def run(
    project: Path,
    steps: Sequence[str],
    options: Options,
    on_event: Callable[[Any], None],
    *,
    run_id: str = "",
    find_device: Callable[[Project, Options], Device] = device_of,
) -> int:
    """Do ``steps`` on ``project`` and return the exit code; needs the main thread, for its signals.

    The run goes on after a negative verdict (code 1) and stops at the first step with a higher code.
    SIGTERM, SIGHUP and SIGINT (unless ignored, as under nohup) stop the measurement that is going on, let the
    step save what it has, and make the code 128 + the signal's number; a second SIGINT does not let it save.

    Args:
        project: the project file.
        steps: names from STEPS, in order.
        options: of the command line.
        on_event: called with every event of the run and of its children, in order.
        run_id: id for the run; "": a new one.
        find_device: the device to hold.

    Returns:
        The worst code of the steps, or 128 + n.

    Raises:
        PeakmarkError: it did not begin, so no record of it was made: an unknown step (2), an unreadable
            project (2), no such device or one that is being measured (4).
    """
    for name in steps:
        if name not in STEPS:
            raise UsageError(f"there is no step {name}", hint=f"steps are {', '.join(STEPS)}")
    if run_id and not _RUN_ID.fullmatch(run_id):
        raise UsageError(f"{run_id!r} is not the id of a run", hint="leave it out: a new one is made")
    run_id = run_id or new_id("run")
    loaded = load(project)
    held = None if DEVICELESS.issuperset(steps) else find_device(loaded, options)
    lock: AbstractContextManager[Any] = DeviceLock(held.id, run_id) if held else nullcontext()
    with lock:
        return await _Run(project, tuple(steps), options, on_event, run_id, held).go()


class _Run:
    """One run from its record to its last event."""

    def __init__(
        self,
        project: Path,
        steps: tuple[str, ...],
        options: Options,
        on_event: Callable[[Any], None],
        run_id: str,
        held: Device | None,
    ) -> None:
        self._steps = steps
        self._on_event = on_event
        self._device = held.id if held else "none"
        self._signal: signal.Signals | None = None
        self._task: asyncio.Future[StepResult] | None = None
        try:
            self._run = announce(run_id, project, steps, self._device)
            self._journal = Journal(self._run.journal)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise RunError(
                f"the run cannot be recorded: {reason}",
                where=str(error.filename or runs_folder()),
                hint="make room, or set PEAKMARK_STATE to a folder that you can write",
            ) from error
        state = self._run.journal.parent.parent
        self._context = Context(project, options, run_id, state, held, self.say, on_event)

    def say(self, event: Any) -> None:
        """Journal an event, then show it."""
        self._journal.add(event)
        self._on_event(event)

    async def go(self) -> int:
        """Everything, with RunEnded as the last event whatever happens."""
        run = self._run
        code, text = RunError.code, "the run was ended by a fault of its own"
        with closing(self._journal), self._signals():
            try:
                self.say(RunStarted(run.id, run.pid, str(run.project), list(self._steps), self._device))
                code, text = await self._all_steps()
            finally:
                self.say(RunEnded(code, text))
        return code

    async def _all_steps(self) -> tuple[int, str]:
        worst, text = 0, ""
        for name in self._steps:
            result = await self._one_step(name)
            if result.code > worst:
                worst, text = result.code, result.text
            if (number := self._stopped_by()) is not None:
                return 128 + number, f"stopped by {number.name} in step {name}"
            if worst >= GOES_ON_BELOW:
                break
        return worst, text

    async def _one_step(self, name: str) -> StepResult:
        self._context.step = name
        self.say(StepStarted(name))
        result = await self._result_of(name)
        self.say(StepEnded(name, result.outcome, result.code, result.text, result.result_id))
        return result

    async def _result_of(self, name: str) -> StepResult:
        self._task = asyncio.ensure_future(STEPS[name](self._context))
        if self._signal is not None:
            self._task.cancel()
        try:
            return await self._task
        except asyncio.CancelledError:
            number = self._stopped_by()
            return StepResult(
                "cancelled", 128 + number if number else RunError.code, "stopped before it was done"
            )
        except PeakmarkError as error:
            return StepResult("failed", error.code, error.sentence())
        except Exception as error:
            # A fault of ours: whoever watches gets a sentence, the log gets the rest.
            traceback.print_exc(file=sys.stderr)
            said = " ".join(f"{type(error).__name__}: {error}".split())
            return StepResult(
                "failed", RunError.code, f"step {name} failed by a fault of peakmark's own: {said}"
            )

    def _stopped_by(self) -> signal.Signals | None:
        """The signal that stops the run; a cancelled task (the event loop ends) counts as SIGTERM."""
        task = asyncio.current_task()
        return self._signal or (signal.SIGTERM if task and task.cancelling() else None)

    def _stop(self, number: signal.Signals) -> None:
        if self._signal is not None and number != signal.SIGINT:
            return  # the same end told twice, as schedulers do, must not cut short what the first one began
        self._signal = self._signal or number
        self._context.stopping = True
        if self._task is not None:
            self._task.cancel()

    @contextmanager
    def _signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        caught = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
        for number in caught:
            loop.add_signal_handler(number, self._stop, number)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)
