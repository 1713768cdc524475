"""How a measurement ended: what its events add up to, and the sentence for a person.

Pure but for the last line of a log.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from tui.engine.nvml_live import Watched
from tui.probe.protocol import (
    CheckDone,
    EnvironmentSeen,
    Failed,
    Finished,
    IterationDone,
    PhaseEntered,
    ReadingTaken,
    ResultReady,
    Started,
)

Word = Literal["done", "failed", "out-of-memory", "cancelled", "crashed"]

CHATTER = ("USDT:",)
"""Beginnings of lines that torch's profiler prints by itself: never what ended a child."""

JOURNAL_LOST = 71
"""Exit code of a child that could not write its journal to the end (``probe.journal.JOURNAL_LOST``)."""

_KEY = re.compile(r"(workload|placement|precision|quality|budget|environment)(\.(?!py\b)[A-Za-z_]\w*)+")
"""A key of the project at the beginning of a sentence, not a file named after its table."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One measurement, ended.  ``word`` is done only when the child said that it finished."""

    id: str
    word: Word
    sentence: str
    """Why it is not done; "" when it is."""
    started: datetime
    ended: datetime
    journal: str
    """Path of the journal; ``log`` lies beside it."""
    log: str
    failure: Failed | None = None
    results: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Tables of ResultReady by their kind; the last one of a kind."""
    predicted: tuple[dict[str, Any], ...] = ()
    """Every table of kind "predicted", in order."""
    checks: tuple[CheckDone, ...] = ()
    readings: tuple[ReadingTaken, ...] = ()
    iterations: tuple[IterationDone, ...] = ()
    environment: EnvironmentSeen | None = None
    phase: str = "start"
    """The phase that it was in when it ended."""
    returncode: int | None = None
    """Exit code, or minus the number of the signal that ended it."""
    malformed: int = 0
    """Complete journal lines that were not events."""
    pid: int | None = None
    """As the child counts itself."""
    ranks: tuple[dict[str, Any], ...] = ()
    """The task's result of every rank with its number as "rank", where there are several."""
    watched: Watched = field(default_factory=Watched)
    """What was seen of the device while it ran."""


@dataclass
class Gathered:
    """The events of one child so far."""

    finished: bool = False
    failure: Failed | None = None
    results: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    predicted: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    checks: list[CheckDone] = field(default_factory=list[CheckDone])
    readings: list[ReadingTaken] = field(default_factory=list[ReadingTaken])
    iterations: list[IterationDone] = field(default_factory=list[IterationDone])
    environment: EnvironmentSeen | None = None
    phase: str = ""
    timing: bool = False
    """Whether it is in its timed iterations, which do not say their phases."""
    pid: int | None = None

    @property
    def place(self) -> str:
        """Where it is, for a sentence: ``in phase backward``, ``in a timed iteration``."""
        if not self.phase:
            return "before it entered a phase"
        return "in a timed iteration" if self.timing else f"in phase {self.phase}"

    def take(self, event: Any) -> None:
        """Add one event."""
        if isinstance(event, PhaseEntered):
            self.phase = event.phase
            self.timing = event.phase == "forward" and event.iteration is None
        elif isinstance(event, Started):
            self.pid = event.pid
        elif isinstance(event, IterationDone):
            self.iterations.append(event)
        elif isinstance(event, ReadingTaken):
            self.readings.append(event)
        elif isinstance(event, CheckDone):
            self.checks.append(event)
        elif isinstance(event, ResultReady):
            self.results[event.kind] = event.table
            if event.kind == "predicted":
                self.predicted.append(event.table)
        elif isinstance(event, EnvironmentSeen):
            self.environment = event
        elif isinstance(event, Failed):
            self.failure = event
        elif isinstance(event, Finished):
            self.finished = True


def word_of(gathered: Gathered, stopped: bool) -> Word:
    """One word for how it ended; ``stopped`` when we ended it."""
    if gathered.finished:
        return "done"
    if stopped:
        return "cancelled"
    if gathered.failure is None:
        return "crashed"
    return "out-of-memory" if gathered.failure.kind == "out-of-memory" else "failed"


def placed(failure: Failed, where: Callable[[str], str]) -> Failed:
    """``failure`` with the file and line of the project's key that its sentence begins with, if it has no other.

    The child is told values, not where they stand.
    """
    key = _KEY.match(failure.sentence)
    if failure.where or key is None or failure.kind not in ("workload", "unsupported"):
        return failure
    return replace(failure, where=where(key[0]))


def failure_sentence(failure: Failed) -> str:
    """``where: sentence; hint``, leaving out what is empty."""
    head = f"{failure.where}: {failure.sentence}" if failure.where else failure.sentence
    return f"{head}; {failure.hint}" if failure.hint else head


def crash_sentence(
    returncode: int | None,
    where: str,
    log: Path,
    *,
    launch: Sequence[str] = (),
    kills: int | None = None,
    malformed: int = 0,
    removed: bool = False,
) -> str:
    """Say how a child ended that said neither that it finished nor that it failed.

    Args:
        returncode: as the operating system says it; minus the number of a signal.
        where: ``Gathered.place``.
        log: what it printed; its last line is quoted unless a signal that cannot be caught ended it.
        launch: a launch prefix, which turns signal n into exit code 128 + n.
        kills: by how much the kernel's count of out-of-memory kills rose meanwhile; None: not known.
        malformed: journal lines that could not be read.
        removed: whether its journal is there no more, which a child never removes itself.
    """
    number = _signal_of(returncode, bool(launch))
    if removed and number is None:
        told = f"the journal of the probe child was removed while it ran, last seen {where}"
        return f"{told}: what it measured is lost; leave {log.parent} alone until a run has ended"
    if number is not None:
        parts = [f"the probe child was ended by {_signal_name(number)} {where}, not by peakmark"]
    elif returncode == JOURNAL_LOST:
        full = f"is the disk of {log.parent} full?"
        parts = [f"the probe child could not write its journal to the end {where}: {full}"]
    else:
        parts = [f"the probe child ended with exit code {returncode} {where}, without a result"]
    if number == signal.SIGKILL and kills is None:
        parts.append("possibly by the kernel for want of memory: its count of such kills cannot be read here")
    if number == signal.SIGKILL and kills:
        parts.append(f"the kernel's out-of-memory count rose by {kills}, so host memory is the likely cause")
    if malformed:
        parts.append(f"{malformed} of its journal lines could not be read")
    if number != signal.SIGKILL and (said := last_line(log)):
        parts.append(f'it last printed "{said}"')
    parts.append(f"log: {beside(log)}")
    return "; ".join(parts)


def _signal_of(returncode: int | None, behind_prefix: bool) -> int | None:
    if returncode is None:
        return None
    if returncode < 0:
        return -returncode
    if behind_prefix and 128 < returncode <= 128 + signal.NSIG - 1:
        return returncode - 128
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def beside(path: Path) -> str:
    """A file of the state folder as people are told it: ``runs/NAME``."""
    return f"{path.parent.name}/{path.name}"


def last_line(log: Path, limit: int = 200) -> str:
    """The last line of a log that is not blank, without control characters, cut to ``limit``; or ""."""
    try:
        with log.open("rb") as handle:
            handle.seek(max(0, handle.seek(0, 2) - 8192))
            text = handle.read().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = (_CONTROL.sub("", line).strip() for line in reversed(text.splitlines()))
    line = next((line for line in lines if line and not line.startswith(CHATTER)), "")
    return line if len(line) <= limit else line[: limit - 3] + "..."
