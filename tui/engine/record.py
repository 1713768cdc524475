"""The record of a run: who does it, where, and whether it is still going."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tui.engine import processes
from tui.probe.protocol import ProtocolError, RunEnded, decode, from_table
from tui.project.paths import runs_folder

_TAIL_BYTES = 1 << 16


@dataclass
class Record:
    """What ``<run id>.run.json`` holds."""

    id: str
    pid: int
    start_ticks: int
    boot: str
    host: str
    project: str
    steps: list[str]
    device: str
    started_at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run, as it was when it was looked at."""

    id: str
    pid: int
    project: Path
    steps: tuple[str, ...]
    device: str
    started_at: datetime
    alive: bool | None
    """None: it was started on another machine and has not said that it ended, so it cannot be known here."""
    journal: Path
    ended: int | None
    """Exit code, when it said that it ended."""
    host: str
    start_ticks: int

    @property
    def log(self) -> Path:
        """What the runner printed, when it was started detached."""
        return self.journal.with_suffix(".log")


def announce(run_id: str, project: Path, steps: Sequence[str], device: str) -> Run:
    """Write the record of a run that this process is."""
    pid = os.getpid()
    record = Record(
        id=run_id,
        pid=pid,
        start_ticks=processes.start_ticks(pid) or 0,
        boot=processes.boot_id(),
        host=platform.node(),
        project=str(project.resolve()),
        steps=list(steps),
        device=device,
        started_at=time.time(),
    )
    path = record_path(run_id)
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(asdict(record), indent=1), encoding="utf-8")
    draft.replace(path)
    return _run(record)


def record_path(run_id: str) -> Path:
    """Where the record of a run is, beside its journal and its log."""
    return runs_folder() / f"{run_id}.run.json"


def read(path: Path) -> Run | None:
    """The run whose record this file is; None: it is not one, or cannot be read."""
    try:
        if not path.is_file():
            return None  # a pipe of that name would never end
        return _run(from_table(Record, json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError, OverflowError, RecursionError, ProtocolError):
        return None


def _run(record: Record) -> Run:
    journal = record_path(record.id).with_name(f"{record.id}.jsonl")
    ended = _ended(journal)
    return Run(
        id=record.id,
        pid=record.pid,
        project=Path(record.project),
        steps=tuple(record.steps),
        device=record.device,
        started_at=datetime.fromtimestamp(record.started_at, UTC),
        alive=_alive(record, ended),
        journal=journal,
        ended=ended.code if ended else None,
        host=record.host,
        start_ticks=record.start_ticks,
    )


def _alive(record: Record, ended: RunEnded | None) -> bool | None:
    if record.host != platform.node():
        return False if ended else None
    return record.boot == processes.boot_id() and processes.is_alive(record.pid, record.start_ticks)


def _ended(journal: Path) -> RunEnded | None:
    """The last event of a run's journal, if it is the end."""
    try:
        with journal.open("rb") as handle:
            handle.seek(max(0, handle.seek(0, 2) - _TAIL_BYTES))
            lines = handle.read().splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            event: Any = decode(line)
        except ProtocolError:
            continue
        return event if isinstance(event, RunEnded) else None
    return None
