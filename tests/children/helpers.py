"""What the tests of the engine share: plans for the playing child, and waiting for a condition."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tui.engine import child
from tui.engine.outcome import Outcome
from tui.probe.protocol import Plan

HERE = Path(__file__).parent
PLAYER = HERE / "player.py"
PEAKMARK = HERE / "peakmark.py"
DEADLINE_S = 20.0


def plan(folder: Path, act: str, name: str = "p-1", **extra: Any) -> Plan:
    """A plan that the player carries out: ``act`` is the name of a function in ``player.py``."""
    return Plan(
        id=name,
        task="timed",
        journal=str(folder / f"{name}.jsonl"),
        workload={},
        batch={},
        optimizer={},
        step={},
        quality={},
        extra={"act": act, **extra},
    )


async def play(
    folder: Path, act: str, *, launch: tuple[str, ...] = (), **extra: Any
) -> tuple[Outcome, list[Any]]:
    """Measure with the player; its outcome and every event that was delivered."""
    seen: list[Any] = []
    outcome = await child.measure(
        plan(folder, act, **extra), sys.executable, launch, seen.append, boot=PLAYER, grace_s=0.5
    )
    return outcome, seen


async def until(condition: Callable[[], Any], what: str = "") -> Any:
    """Wait until ``condition`` gives something true, and return that."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what or condition}"
        await asyncio.sleep(0.01)
    return found


def pid_in(path: Path) -> int | None:
    """The process id that a child wrote into a file, once it is there whole."""
    text = path.read_text() if path.exists() else ""
    return int(text) if text.endswith("\n") else None


def is_running(pid: int) -> bool:
    """Whether the process is there and not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def forget_environment(monkeypatch: Any, folder: Path) -> None:
    """Keep state and locks of a test in its own folder."""
    monkeypatch.setenv("PEAKMARK_STATE", str(folder / "state"))
    monkeypatch.setenv("PEAKMARK_LOCKS", str(folder / "locks"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    os.makedirs(folder / "state" / "runs", exist_ok=True)
