"""Memory snapshots read in a process of their own: a file may be large, damaged, or meant to do harm."""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from tui.engine import processes
from tui.engine.runs import command, environment
from tui.errors import PeakmarkError, RunError
from tui.report.snapshot_view import SnapshotView, view


async def load(
    path: Path, *, at: str = "peak", settings: Sequence[str] = (), capacity: int | None = None
) -> SnapshotView:
    """What is in a file that ``torch.cuda.memory._dump_snapshot`` wrote.

    Cancelling this coroutine ends the process that reads.

    Args:
        path: of the file.
        at: the instant to look at: "peak", "end" or an event's number.
        settings: to replay under, each in the syntax of PYTORCH_CUDA_ALLOC_CONF.
        capacity: bytes that the replays may reserve.

    Raises:
        PeakmarkError: with the sentence and code of the command: no such file or instant, no snapshot, wrong settings.
        RunError: the process could not start, or ended without an answer.
    """
    words = ["snapshot", "--json", f"--at={at}"]
    words += [f"--alloc-conf={text}" for text in settings]
    words += [] if capacity is None else [f"--capacity={capacity}"]
    try:
        reader = await asyncio.create_subprocess_exec(
            *command(),
            *words,
            "--",
            str(path.absolute()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            env=environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise RunError(f"cannot start a process to read it: {error.strerror}", where=str(path)) from error
    try:
        said, talk = await reader.communicate()
    finally:
        await _end(reader)
    return await asyncio.to_thread(_answer, path, said, talk, reader.returncode or 0)


async def _end(reader: Process) -> None:
    if reader.returncode is None:
        processes.signal_group(reader.pid, signal.SIGKILL)
        with suppress(asyncio.CancelledError):
            await reader.wait()


def _answer(path: Path, said: bytes, talk: bytes, code: int) -> SnapshotView:
    """The document on stdout as values, or as the error that it is."""
    try:
        found: Any = json.loads(said)
        if not isinstance(found, dict):
            raise ValueError("no table")
        table = cast("dict[str, Any]", found)
        if table.get("document") == "error":
            raise _refused(table)
        return view(table)
    except ValueError as error:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        last = talk.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
        raise RunError(
            f"the process that read it ended with {how} and no answer", where=str(path), hint=last
        ) from error


def _refused(table: dict[str, Any]) -> PeakmarkError:
    error = PeakmarkError(str(table["message"]), where=str(table["where"]), hint=str(table["hint"]))
    error.code = int(table["code"])
    return error
