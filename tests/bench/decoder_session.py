"""The decoder family as a measuring child builds it, for the benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tui.probe.journal import Journal
from tui.probe.protocol import Plan
from tui.probe.reporter import Reporter
from tui.probe.session import Session

MICRO = 4


def session(folder: str, task: str, args: dict[str, Any]) -> Session:
    """A session of ``task`` with AdamW at its defaults; its journal lies in ``folder``."""
    plan = Plan(
        "bench",
        task,
        str(Path(folder) / "journal.jsonl"),
        {"source": "decoder", "args": args},
        {"micro": MICRO, "accumulate": 1, "length": None, "tokens": None},
        {"name": "torch.optim.AdamW", "implementation": "default", "args": {"lr": 1e-3}, "clip_norm": None},
        {"compile": False, "checkpoint": []},
        {"batches": 1},
        folder=folder,
    )
    return Session(plan, Reporter(Journal(plan.journal)))
