"""``peakmark snapshot``: what a recorded torch.cuda memory history says, for people or as JSON."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from tui.commands.output import Output
from tui.commands.snapshot_document import Instant, document
from tui.errors import ProjectError, UsageError
from tui.probe import recorded, unpickle
from tui.probe.allocator_settings import SettingsError
from tui.probe.recorded import Recorded, SnapshotError
from tui.probe.what_if import WhatIf, replay_under
from tui.report.snapshot_view import SnapshotView, view
from tui.report.text_snapshot import snapshot_lines


def snapshot(given: argparse.Namespace, output: Output) -> int:
    """Print what is in a file of ``torch.cuda.memory._dump_snapshot``, or look at it in the app; the exit code.

    1: with the capacity given, every replay asked for ran out of memory.

    Args:
        given: the words of ``snapshot_arguments``.
        output: where to.

    Raises:
        ProjectError: the file cannot be read or is not a memory snapshot.
        UsageError: no such instant, or settings that are wrong or cannot be simulated.
    """
    if given.app:
        from tui.app.run import run_app

        return run_app(None, snapshot=given.file, ascii=given.ascii)
    history = _load(given.file)
    at = _instant(history, given.at)
    replays = _replays(history, given.alloc_conf, given.capacity)
    found = document(history, given.file.name, at, replays, given.capacity)
    output.answer(lambda width: snapshot_lines(view(found), width, given.top), lambda: found)
    return 0 if holds(view(found)) else 1


def holds(found: SnapshotView) -> bool:
    """Whether one of the replays that were asked for did not run out; the defaults count where none was named."""
    judged = [one for one in found.replays if one.settings] or found.replays
    return not judged or any(one.failure is None for one in judged)


def _load(path: Path) -> Recorded:
    if path.exists() and not path.is_file():
        raise ProjectError("is not a regular file", where=str(path), hint="name a file of a memory snapshot")
    try:
        if not unpickle.is_shallow(path) and not unpickle.survives(path):
            raise ProjectError(
                "is nested more deeply than any memory snapshot", where=str(path), hint="refused"
            )
        return recorded.load(path)
    except SnapshotError as error:
        raise ProjectError(error.message, where=str(path), hint=error.hint) from error
    except FileNotFoundError as error:
        hint = "write one with torch.cuda.memory._dump_snapshot"
        raise ProjectError("no such file", where=str(path), hint=hint) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(f"cannot be read: {reason}", where=str(path)) from error


def _instant(history: Recorded, text: str) -> Instant:
    last = len(history.events) - 1
    if text == "peak":
        return Instant("peak", history.peak_requested.index)
    if text == "end":
        return Instant("end", last)
    plain = text.replace(",", "")
    if not re.fullmatch("[0-9]{1,12}", plain) or int(plain) > last:
        raise UsageError(f"--at is peak, end or an event's number from 0 to {last:,}, got {text!r}")
    return Instant(plain, int(plain))


def _replays(history: Recorded, settings: Sequence[str], capacity: int | None) -> list[WhatIf]:
    """The defaults first, then the settings asked for, each once; none when there is nothing to compare."""
    if not settings and capacity is None:
        return []
    try:
        return [replay_under(history, text, capacity) for text in dict.fromkeys(["", *settings])]
    except SettingsError as error:
        raise UsageError(f"--alloc-conf: {error}") from error
