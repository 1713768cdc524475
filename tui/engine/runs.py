"""Runs of this user: what is running or was left running, finding it again, starting and stopping it.

Every run leaves a record in the state folder, ``runs/<run id>.run.json``, beside its journal and its log.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import tui
from tui.engine import processes
from tui.engine.outcome import last_line
from tui.engine.record import Run, read, record_path
from tui.errors import RunError, UsageError
from tui.project.ids import new_id
from tui.project.paths import runs_folder

STOP_GRACE_S = 10.0
"""A runner gets this long to end its child and save what it has."""

START_LIMIT_S = 60.0
_LOOK_S = 0.02

_started: list[subprocess.Popen[bytes]] = []
"""Runners that this process started: it must ask for their exit codes, or they stay zombies."""


def runs() -> list[Run]:
    """Every run that is known here, newest first; records that cannot be read are passed over."""
    _reap()
    found = [run for path in runs_folder().glob("*.run.json") if (run := read(path)) is not None]
    return sorted(found, key=lambda run: run.started_at, reverse=True)


def run_of(project: Path) -> Run | None:
    """The run of ``project`` that is still going, if one is; the newest of several."""
    wanted = project.resolve()
    return next((run for run in runs() if run.alive and run.project == wanted), None)


def find(prefix: str) -> Run:
    """The run whose id is, or alone begins with, ``prefix``.

    Raises:
        UsageError: no run, or several.
    """
    if not prefix.strip():
        raise UsageError("no run is named", hint="list them with: peakmark runs")
    known = runs()
    matching = [run for run in known if run.id == prefix] or [
        run for run in known if run.id.startswith(prefix)
    ]
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise UsageError(f"there is no run {prefix}", hint="list them with: peakmark runs")
    raise UsageError(f"{prefix} begins the ids of {len(matching)} runs", hint="write more of it")


def refresh(run: Run) -> Run:
    """The same run as it is now."""
    _reap()
    return read(record_path(run.id)) or run


def is_alive(run: Run) -> bool | None:
    """Whether the runner of ``run`` is there now; None where that cannot be known, see ``Run.alive``."""
    return run.alive and processes.is_alive(run.pid, run.start_ticks)


def stop(run: Run, grace_s: float = STOP_GRACE_S) -> None:
    """End a run and return when it is gone: SIGTERM, ``grace_s`` seconds, SIGKILL; its children go with it.

    Blocks; call it from a thread where that matters.  A run that has ended already is fine.

    Raises:
        RunError: it is on another machine, or belongs to another user.
    """
    if run.alive is None:
        raise RunError(
            f"run {run.id} is on {run.host}, not on this machine", hint=f"there: peakmark stop {run.id}"
        )
    try:
        for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, grace_s)):
            if not processes.signal_same(run.pid, run.start_ticks, number):
                return
            if _wait_until_gone(run, patience_s):
                return
    except PermissionError as error:
        raise RunError(f"run {run.id} (pid {run.pid}) belongs to another user") from error
    raise RunError(f"run {run.id} (pid {run.pid}) does not end, not even by SIGKILL")


def command() -> list[str]:
    """How this program is started once more; a test may put something else in its place."""
    # -P: the folder that we are in may hold a package of our name.
    return [sys.executable, "-P", "-m", "tui"]


def start(project: Path, steps: Sequence[str], options: Sequence[str] = ()) -> Run:
    """Start a run that outlives this process, and return once it has the device.

    Blocks for about as long as an interpreter takes to start; call it from a thread where that matters.

    Args:
        project: the project file.
        steps: names in order, see ``runner.STEPS``.
        options: further arguments of ``peakmark run``, such as ("--trust", "--device", "cpu").

    Raises:
        PeakmarkError: it ended before it began, with the sentence that it gave and its exit code.
    """
    _reap()
    run_id = new_id("run")
    record = record_path(run_id)
    log = record.with_name(f"{run_id}.log")
    argv = [
        *command(),
        "run",
        str(project.resolve()),
        "--steps",
        ",".join(steps),
        "--run-id",
        run_id,
        *options,
    ]
    with log.open("ab") as output:
        runner = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(),
            start_new_session=True,
        )
    _started.append(runner)
    deadline = time.monotonic() + START_LIMIT_S
    while (run := read(record)) is None:
        if runner.poll() is not None and not record.exists():
            raise _never_began(runner.returncode, log)
        if time.monotonic() > deadline:
            runner.kill()
            raise RunError(
                f"the run did not begin within {START_LIMIT_S:.0f} s", hint=f"log: runs/{log.name}"
            )
        time.sleep(_LOOK_S)
    return run


def _never_began(code: int, log: Path) -> RunError:
    said = last_line(log, 2000).removeprefix("peakmark: ")
    error = RunError(said or f"the run ended with {code} before it began")
    if code in (2, 3, 5):
        error.code = code
    return error


def environment() -> dict[str, str]:
    """Ours, with the folder that this package is imported from on the path: -P leaves the current one out."""
    ours = str(Path(tui.__file__).parents[1])
    others = [
        entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != ours
    ]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([ours, *others])}


def _wait_until_gone(run: Run, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while is_alive(run):
        if time.monotonic() > deadline:
            return False
        _reap()
        time.sleep(_LOOK_S)
    return True


def _reap() -> None:
    _started[:] = [runner for runner in _started if runner.poll() is None]
