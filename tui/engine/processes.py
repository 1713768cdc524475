"""What the kernel says about other processes: are they alive, are they the same, who descends from whom.

A process id alone names nobody, because the kernel uses ids again; an id together with its start time does.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Stat:
    """The few fields of ``/proc/PID/stat`` that are needed here."""

    pid: int
    state: str
    parent: int
    group: int
    start_ticks: int
    """Clock ticks between the machine's start and the process's."""

    @property
    def running(self) -> bool:
        """False for a zombie: it has ended, its parent has only not looked yet."""
        return self.state not in "ZX"


def stat(pid: int) -> Stat | None:
    """The process ``pid``, or None when there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name stands in brackets and may itself hold spaces and brackets.
    fields = text.rpartition(")")[2].split()
    return Stat(pid, fields[0], int(fields[1]), int(fields[2]), int(fields[19]))


def start_ticks(pid: int) -> int | None:
    """When ``pid`` was started, in clock ticks since the machine was."""
    found = stat(pid)
    return found.start_ticks if found else None


def is_alive(pid: int, started: int | None) -> bool:
    """Whether ``pid`` runs and is the process that began at ``started`` (None: any process of that id)."""
    found = stat(pid)
    return found is not None and found.running and started in (None, found.start_ticks)


def boot_id() -> str:
    """Names this start of this machine; "" where the kernel does not tell."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def everything() -> list[Stat]:
    """Every process that can be seen."""
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return [found for pid in pids if (found := stat(pid)) is not None]


def descendants(pid: int) -> dict[int, int]:
    """Process id and start time of the children of ``pid``, of theirs, and so on, without ``pid`` itself."""
    children: dict[int, list[Stat]] = {}
    for one in everything():
        children.setdefault(one.parent, []).append(one)
    found: dict[int, int] = {}
    ahead = [pid]
    while ahead:
        for child in children.get(ahead.pop(), ()):
            if child.pid not in found:
                found[child.pid] = child.start_ticks
                ahead.append(child.pid)
    return found


MARK = "PEAKMARK_MEASUREMENT"
"""Environment variable of a child, which everything that it starts inherits: its id."""


def marked(id: str) -> dict[int, int]:
    """Start ticks by pid of every process of ours that carries ``MARK`` with this id, wherever it went."""
    mark = f"{MARK}={id}".encode()
    found: dict[int, int] = {}
    for one in everything():
        try:
            carries = mark in (_PROC / str(one.pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # another user's, or gone
        if carries:
            found[one.pid] = one.start_ticks
    return found


def group_is_alive(group: int) -> bool:
    """Whether a process of ``group`` still runs; zombies do not count."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    leader = stat(group)
    if leader is not None and leader.running:
        return True  # the usual case, without looking at everything
    return any(one.group == group and one.running for one in everything())


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to every process of ``group``; none left is fine."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def signal_same(pid: int, started: int | None, number: signal.Signals) -> bool:
    """Send a signal to ``pid`` if it still is the process that began at ``started``; True when sent."""
    if not is_alive(pid, started):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def out_of_memory_kills() -> int | None:
    """How many processes the kernel has ended for lack of memory since the machine started, or None."""
    try:
        lines = (_PROC / "vmstat").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)
