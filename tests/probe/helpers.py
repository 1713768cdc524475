"""What the tests of the measuring side share: plans, tasks run in this process, and real children."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tui.probe import protocol
from tui.probe.protocol import Plan, ResultReady

BOOT = Path(protocol.__file__).parent / "boot.py"
DEADLINE_S = 120
ADAMW = {"name": "torch.optim.AdamW", "implementation": "default", "args": {"lr": 1e-3}, "clip_norm": None}
DECODER = {"layers": 2, "heads": 2, "width": 32, "vocab": 32, "context": 16}
MLP = {"inputs": 4, "hidden": [8], "outputs": 2}


def plan(task: str, source: str = "mlp", args: Any = None, folder: Any = "", **more: Any) -> Plan:
    """A plan of ``task``; ``micro``, ``accumulate``, ``length``, ``weight_by``, ``clip`` ... are shorthands."""
    batch = {
        "micro": more.pop("micro", 4),
        "accumulate": more.pop("accumulate", 1),
        "length": more.pop("length", None),
        "tokens": more.pop("tokens", None),
        "weight_by": more.pop("weight_by", "micro-batch"),
    }
    optimizer = {**ADAMW, "clip_norm": more.pop("clip", None), **more.pop("optimizer", {})}
    step = {"compile": False, "checkpoint": more.pop("checkpoint", [])}
    return Plan(
        id="t-1",
        task=task,
        journal=str(more.pop("journal", "")),
        workload={"source": source, "args": MLP if source == "mlp" and args is None else args or {}},
        batch=batch,
        optimizer=optimizer,
        step=step,
        quality={"batches": 2},
        folder=str(folder),
        nice=0,
        parent=os.getpid(),
        **more,
    )


class Events(list[Any]):
    """A reporter that keeps what a task says."""

    phase = "start"

    def __call__(self, event: Any) -> None:
        self.append(event)

    def enter(self, phase: str, iteration: int | None = None, micro: int | None = None) -> None:
        self.phase = phase

    def note(self, phase: str) -> None:
        self.phase = phase

    def sync(self) -> None:
        pass

    def table(self, kind: str) -> Any:
        return next(one.table for one in self if isinstance(one, ResultReady) and one.kind == kind)

    def of(self, cls: type) -> list[Any]:
        return [one for one in self if isinstance(one, cls)]


def run_here(task: str, **more: Any) -> Events:
    """The events of a task that runs in this process."""
    from tui.probe import tasks

    found = Events()
    tasks.run(plan(task, **more), found)
    return found


def child(
    folder: Path, task: str, *, env: dict[str, str] | None = None, before: Any = None, **more: Any
) -> SimpleNamespace:
    """A real child to its end: ``events``, ``rc``, ``out``, ``err``; ``folder`` is the project's and the journal's."""
    made = plan(task, folder=more.pop("root", folder), journal=folder / (task + ".jsonl"), **more)
    path = folder / (task + ".plan.json")
    path.write_text(made.dump())
    Path(made.journal).unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, str(BOOT), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        preexec_fn=before,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        # Not communicate(): that closes the lifeline.
        out, err = process.stdout.read(), process.stderr.read()
        process.wait(DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    return SimpleNamespace(events=journal(Path(made.journal)), rc=process.returncode, out=out, err=err)


def journal(path: Path) -> Events:
    """Every event of a journal; a malformed line fails the test."""
    return Events(protocol.decode(line) for line in path.read_bytes().splitlines(keepends=True))
