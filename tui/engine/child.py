"""Measures in a child process of its own and follows its journal until it is gone, however it goes.

The child is told everything by a plan file and tells everything by its journal.  Its standard input is a
pipe that nobody writes to: when the other end closes, even because this process was ended by SIGKILL, it ends
itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tui
from tui.engine import processes, ranks
from tui.engine.journal import POLL_S, Reader, tail
from tui.engine.nvml_live import Watched, watched
from tui.engine.outcome import Gathered, Outcome, crash_sentence, failure_sentence, placed, word_of
from tui.engine.process import Child
from tui.probe.protocol import Failed, Plan

GRACE_S = 3.0
"""Between SIGTERM and SIGKILL."""

BOOT = Path(tui.__file__).parent / "probe" / "boot.py"


def nowhere(key: str) -> str:
    """Where a key of the project is written, for a caller that does not know."""
    return ""


async def measure(
    plan: Plan,
    python: str,
    launch: Sequence[str],
    on_event: Callable[[Any], None],
    *,
    boot: Path = BOOT,
    variables: Mapping[str, str] | None = None,
    where: Callable[[str], str] = nowhere,
    grace_s: float = GRACE_S,
) -> Outcome:
    """Run ``plan`` in a fresh process and say how it ended.

    Cancelling this coroutine stops the measurement: it then returns an outcome whose word is cancelled (done,
    if the child had just finished).  Cancelled once more while the child is being ended, it raises
    CancelledError, the child ended all the same.  Await it on the thread of the event loop: children ask the
    kernel to end them with the thread that started them.

    Args:
        plan: its ``journal`` names a file that does not exist yet; plan, log and journal lie in one folder.
        python: interpreter that measures.
        launch: argument prefix such as ("srun", "--overlap").
        on_event: called with every event of the child, in order, on the event loop's thread.
        boot: the script that the interpreter runs.
        variables: added to the child's environment, such as CUDA_VISIBLE_DEVICES.
        where: ``file:line`` of a key such as "environment.python", for sentences.
        grace_s: seconds between SIGTERM and SIGKILL.

    Raises:
        RunError: nothing was measured, because the interpreter or the launch prefix could not be started, the
            prefix ended before Python began, or the plan could not be written.
    """
    child = Child(plan, python, tuple(launch), boot, where)
    began, kills = datetime.now(UTC), processes.out_of_memory_kills()
    stopped = await child.start(variables or {})
    gathered, reader = Gathered(), Reader(child.journal)

    def take(event: Any) -> None:
        shown = placed(event, where) if isinstance(event, Failed) else event
        gathered.take(shown)
        on_event(shown)

    async with watched(_looked_at(plan)) as seen:
        try:
            stopped = await _follow(child, reader, take, stopped, grace_s)
        finally:
            reader.close()
    if stopped and (task := asyncio.current_task()):
        task.uncancel()
    outcome = _outcome(child, gathered, stopped, reader.malformed, began, kills, seen)
    return ranks.joined(outcome, plan, where)


def _looked_at(plan: Plan) -> str | None:
    """The GPU whose clocks say what the child's times are worth; None where there is none, or no times."""
    kind, _, id = plan.device.partition(":")
    return id if kind == "cuda" and id and plan.task == "timed" else None


async def _follow(
    child: Child, reader: Reader, take: Callable[[Any], None], stopped: bool, grace_s: float
) -> bool:
    """Take every event and leave nothing running; True when the caller was cancelled."""
    try:
        if not stopped:
            async with aclosing(tail(reader, child.ended, POLL_S)) as events:
                async for event in events:
                    take(event)
    except asyncio.CancelledError:
        stopped = True
    finally:
        await child.end(grace_s)
    for event in reader.events():
        take(event)
    return stopped


def _outcome(
    child: Child,
    gathered: Gathered,
    stopped: bool,
    malformed: int,
    began: datetime,
    kills: int | None,
    seen: Watched,
) -> Outcome:
    word = word_of(gathered, stopped)
    if word == "crashed":
        child.refuse_if_python_never_began()
    return Outcome(
        id=child.plan.id,
        word=word,
        sentence=_sentence(word, gathered, child, malformed, kills),
        started=began,
        ended=datetime.now(UTC),
        journal=str(child.journal),
        log=str(child.log),
        failure=gathered.failure,
        results=gathered.results,
        predicted=tuple(gathered.predicted),
        checks=tuple(gathered.checks),
        readings=tuple(gathered.readings),
        iterations=tuple(gathered.iterations),
        environment=gathered.environment,
        phase=gathered.phase or "start",
        returncode=child.returncode,
        malformed=malformed,
        pid=gathered.pid,
        watched=seen,
    )


def _sentence(word: str, gathered: Gathered, child: Child, malformed: int, kills_before: int | None) -> str:
    if word == "done":
        return ""
    if child.returncode is None:
        return (
            f"the probe child (pid {child.pid}) does not end, not even by SIGKILL: its device or disk hangs"
        )
    if word == "cancelled":
        return f"stopped {gathered.place}" if gathered.phase else "stopped in phase start"
    if gathered.failure is not None:
        return failure_sentence(gathered.failure)
    kills = processes.out_of_memory_kills()
    risen = None if kills is None or kills_before is None else kills - kills_before
    return crash_sentence(
        child.returncode,
        gathered.place,
        child.log,
        launch=child.launch,
        kills=risen,
        malformed=malformed,
        removed=not child.journal.exists(),
    )
