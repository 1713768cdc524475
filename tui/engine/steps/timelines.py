"""Where a probe's timeline of storages is: beside the journal of its traced child."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tui.engine.outcome import Outcome
from tui.engine.steps.common import journal_name
from tui.project.measured import Probe


def with_timeline(probe: Probe, traced: Outcome) -> Probe:
    """``probe`` with the name of its timeline's file, or why there is none."""
    table = traced.results.get("traced")
    why = "the traced iterations did not end" if table is None else table.get("unknown", {}).get("timeline")
    name, why = timeline_of(traced, why)
    if why is None:
        return dataclasses.replace(probe, timeline=name)
    return dataclasses.replace(probe, unknown={**probe.unknown, "timeline": why})


def timeline_of(outcome: Outcome, why: str | None) -> tuple[str, str | None]:
    """(``runs/<id>.timeline.json`` of a child, why there is none); ``why``: what the child said of that."""
    name = journal_name([outcome]).removesuffix(".jsonl") + ".timeline.json"
    if why is None and not Path(outcome.journal).with_name(Path(name).name).exists():
        why = "the child wrote none" if "traced" not in outcome.results else "the traced child wrote none"
    return name, why
