"""What a step of a run is given, and what it gives back."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.engine import child, device
from tui.engine.device import Device
from tui.engine.outcome import Outcome
from tui.errors import PeakmarkError
from tui.probe.protocol import MeasurementEnded, MeasurementStarted, Plan
from tui.project.load import Project, load

UNSEEING = frozenset({"predict"})
"""Tasks whose child must see no device, so that it does the same on every machine."""
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}


def interpreter(project: Project) -> str:
    """What measures: the project's interpreter, relative to its folder as trust looks at it, or this one."""
    named = project.spec.environment.python
    return sys.executable if named is None else _program(project, named)


def launch_prefix(project: Project) -> list[str]:
    """Words before the interpreter; a program with a slash in its name is relative to the project's folder."""
    words = shlex.split(project.spec.environment.launch or "")
    return [_program(project, words[0]), *words[1:]] if words else []


def _program(project: Project, named: str) -> str:
    """A path as it is run; a bare name is looked up in PATH."""
    return str(project.folder.absolute() / Path(named).expanduser()) if "/" in named else named


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said; None: nothing, the project or the step decides."""

    device: str | None = None
    """auto | cpu | GPU-uuid | MIG-uuid, instead of the project's; cuda too for a prediction."""
    trust: bool = False
    nice: int = 10
    iterations: int | None = None
    warmup: int | None = None
    batches: tuple[int, ...] | None = None
    """Micro-batches."""
    accumulate: int | None = None
    """Micro-batches an optimizer step, instead of the project's."""
    lengths: tuple[int, ...] | None = None
    settings: tuple[str, ...] | None = None
    """Precision settings to compare."""
    quick: bool = False
    search: bool = False
    """Look for the largest micro-batch that fits."""
    upper: int | None = None
    """The largest micro-batch that a search may try."""
    multiple_of: int = 1
    """A search tries multiples of it only."""
    within_s: float | None = None
    """Seconds after which a sweep or a search begins nothing more."""
    output: Path | None = None
    force: bool = False
    gpu: str | None = None
    """Name or bytes of the GPU that a prediction is for."""
    alloc_conf: str | None = None
    """Settings of the caching allocator that a prediction takes, as PYTORCH_CUDA_ALLOC_CONF has them."""
    largest: bool = False
    """Predict the largest micro-batch too."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """How a step ended."""

    outcome: str
    """One word, such as done, failed or cancelled."""
    code: int = 0
    """Exit code; 1 is a negative verdict, with which a run goes on."""
    text: str = ""
    """The verdict or the fault in a sentence."""
    result_id: str = ""
    """Id under ``[measured]`` of what was saved."""


class Context:
    """One run as its steps see it.

    Attributes:
        project_path: the project file.
        options: of the command line.
        run_id: id of the run.
        state: the state folder.
        device: what the run holds; None in a run whose steps need none.
        step: name of the step that is going on.
        outcomes: every measurement of the run so far, in order.
        stopping: the run was told to stop; ``measure`` then starts nothing more.
    """

    def __init__(
        self,
        project_path: Path,
        options: Options,
        run_id: str,
        state: Path,
        device: Device | None,
        say: Callable[[Any], None],
        show: Callable[[Any], None],
    ) -> None:
        self.project_path = project_path
        self.options = options
        self.run_id = run_id
        self.state = state
        self.device = device
        self.step = ""
        self.outcomes: list[Outcome] = []
        self.stopping = False
        self._say = say
        self._show = show

    def load(self) -> Project:
        """The project as it is in the file now.

        Raises:
            ProjectError: it cannot be read any more.
        """
        return load(self.project_path)

    def device_now(self) -> Device | None:
        """The run's device with the sizes of this moment, to see what others hold before and after."""
        return None if self.device is None else device.resolve(self.device.id)

    def journal_path(self, measurement: str) -> Path:
        """Where the journal of a measurement goes: ``Plan.journal``."""
        return self.state / "runs" / f"{measurement}.jsonl"

    def say(self, event: Any) -> None:
        """Add an event of the protocol to the run's journal, and show it."""
        self._say(event)

    async def measure(self, plan: Plan, title: str, *, boot: Path = child.BOOT) -> Outcome:
        """Run ``plan`` in a child with the project's interpreter on the run's device.

        Args:
            plan: its ``journal`` is best ``str(context.journal_path(plan.id))``.
            title: what is measured, for people.
            boot: the script that the interpreter runs.

        Raises:
            RunError: nothing was measured, see ``child.measure``.
            asyncio.CancelledError: the run is stopping, nothing was started.
        """
        if self.stopping:
            raise asyncio.CancelledError
        project = self.load()
        self.say(MeasurementStarted(plan.id, self.step, plan.task, title, self._relative(Path(plan.journal))))
        try:
            outcome = await child.measure(
                plan,
                interpreter(project),
                launch_prefix(project),
                self._show,
                boot=boot,
                variables=self.device.variables() if self.device and plan.task not in UNSEEING else HIDDEN,
                where=project.at,
            )
        except BaseException as error:
            text = error.sentence() if isinstance(error, PeakmarkError) else ""
            word = "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
            self.say(MeasurementEnded(plan.id, word, text))
            raise
        self.outcomes.append(outcome)
        self.say(MeasurementEnded(plan.id, outcome.word, outcome.sentence))
        return outcome

    def _relative(self, journal: Path) -> str:
        return str(journal.relative_to(self.state) if journal.is_relative_to(self.state) else journal)


StepFunction = Callable[[Context], Awaitable[StepResult]]
