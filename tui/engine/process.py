"""The process of one measurement: its files, its start, and that nothing of it is left at the end."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import tui
from tui.engine import processes
from tui.engine.outcome import last_line
from tui.errors import RunError
from tui.probe.protocol import Plan

_OURS = str(Path(tui.__file__).parents[1])
"""The folder that this package is imported from; a child must not find it on its path."""

KILLED_S = 5.0
"""How long a child may take to go after SIGKILL; one that waits for a broken device never does."""


@dataclass
class Child:
    """One child process, its files, and its end."""

    plan: Plan
    python: str
    launch: tuple[str, ...]
    boot: Path
    where: Callable[[str], str]

    def __post_init__(self) -> None:
        self.journal = Path(self.plan.journal).absolute()
        self.log = self.journal.with_name(f"{self.plan.id}.log")
        self.plan_file = self.journal.with_name(f"{self.plan.id}.plan.json")

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its group and session."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code or minus a signal's number; None: it runs, or does not end even by SIGKILL."""
        return self._process.returncode

    async def start(self, variables: Mapping[str, str]) -> bool:
        """Start it; True when the caller was cancelled meanwhile."""
        self._write_plan()
        starting = asyncio.ensure_future(self._spawn(variables))
        cancelled = False
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # A start that is cancelled half way leaves a child that nobody knows: let it finish.
            await starting
            cancelled = True
        self.ended = asyncio.ensure_future(self._process.wait())
        return cancelled

    def _write_plan(self) -> None:
        # Behind a launch prefix our process id may mean nothing to the child: the pipe alone ties it to us.
        plan = replace(self.plan, journal=str(self.journal), parent=0 if self.launch else os.getpid())
        try:
            self.plan_file.parent.mkdir(parents=True, exist_ok=True)
            self.plan_file.write_text(plan.dump(), encoding="utf-8")
        except OSError as error:
            raise RunError(
                f"cannot write the plan of a measurement: {error.strerror}", where=str(self.plan_file)
            ) from error
        if self.journal.exists():
            raise RunError(f"the journal of {self.plan.id} exists already", where=str(self.journal))

    async def _spawn(self, variables: Mapping[str, str]) -> None:
        root = self.plan.workload.get("root")
        reading, self._lifeline = os.pipe()
        try:
            with self._open_log() as log:
                self._process: Process = await asyncio.create_subprocess_exec(
                    *self.launch,
                    self.python,
                    str(self.boot),
                    str(self.plan_file),
                    stdin=reading,
                    stdout=log,
                    stderr=log,
                    cwd=root if root and os.path.isdir(root) else None,
                    env={**_environment(variables), processes.MARK: self.plan.id},
                    start_new_session=True,
                )
        except BaseException as error:
            os.close(self._lifeline)
            if isinstance(error, OSError):
                raise self._cannot_start(error) from error
            raise
        finally:
            os.close(reading)

    def _open_log(self) -> BinaryIO:
        try:
            return self.log.open("ab")
        except OSError as error:
            raise RunError(f"cannot write a log: {error.strerror}", where=str(self.log)) from error

    async def end(self, grace_s: float) -> None:
        """Leave nothing running: SIGTERM to the group, then SIGKILL to it and to descendants outside it."""
        group = self._process.pid
        others = processes.descendants(group) if self.returncode is None else {}
        others |= processes.marked(
            self.plan.id
        )  # also those that made a session of their own and lost their parent
        try:
            if processes.group_is_alive(group):
                processes.signal_group(group, signal.SIGTERM)
                await _gone(group, others, grace_s)
        finally:
            # Nothing is awaited here: at the end of asyncio.run clean-up tasks are cancelled as well.
            if processes.group_is_alive(group):
                processes.signal_group(group, signal.SIGKILL)
            for pid, started in others.items():
                processes.signal_same(pid, started, signal.SIGKILL)
            os.close(self._lifeline)
        await asyncio.wait((self.ended,), timeout=KILLED_S)

    def refuse_if_python_never_began(self) -> None:
        """Raise RunError when a launch prefix ended and no Python behind it opened the journal."""
        if not self.launch or self.journal.exists():
            return
        said = f': "{line}"' if (line := last_line(self.log)) else ""
        prefix = shlex.join(self.launch)
        raise RunError(
            f'environment.launch "{prefix}" ended with {self.returncode} before Python started{said}',
            where=self.where("environment.launch"),
            hint="run where it works (for srun: inside salloc), or delete the line",
        )

    def _cannot_start(self, error: OSError) -> RunError:
        key, what = "environment.python", self.python
        if self.launch:
            key, what = "environment.launch", self.launch[0]
        if isinstance(error, FileNotFoundError):
            why = "does not exist"
        elif isinstance(error, PermissionError):
            why = "is not a program that may be executed"
        else:
            why = f"cannot be started: {error.strerror}"
        instead = "start Python directly" if self.launch else f"use {sys.executable}"
        return RunError(
            f'{key} = "{what}" {why}',
            where=self.where(key),
            hint=f"correct it or delete the line to {instead}",
        )


async def _gone(group: int, others: Mapping[int, int], grace_s: float) -> None:
    """Wait until no process of the group and none of the others runs, at most ``grace_s`` seconds."""
    clock = asyncio.get_running_loop()
    deadline = clock.time() + grace_s
    while clock.time() < deadline:
        if not processes.group_is_alive(group) and not any(
            processes.is_alive(*one) for one in others.items()
        ):
            return
        await asyncio.sleep(0.02)


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The user's environment without what is ours, plus ``variables``."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PEAKMARK_", "TEXTUAL"))}
    entries = [entry for entry in kept.pop("PYTHONPATH", "").split(os.pathsep) if entry]
    if others := [entry for entry in entries if os.path.abspath(entry) != _OURS]:
        kept["PYTHONPATH"] = os.pathsep.join(others)
    return {**kept, **variables}
