"""What a search for the largest batch would do, told before it is started.

By the policy that the search itself follows, from what the project holds; a plan for people.
"""

from __future__ import annotations

from typing import Any

from tui import units
from tui.budget import durations, search
from tui.budget.ledger import probe_verdict
from tui.project.measured import Probe

_DECIDING, _SOAK, _WARMUP = 5, 50, 2
"""Timed iterations of a candidate and of the confirmation, as a search has them by itself."""


def told(project: Any) -> list[str]:
    """Sentences: what is tried first and why, what bounds it, how long it may take."""
    spec = project.spec
    found = comparable(project)
    asked = search.Asked(
        start=spec.workload.batch.micro,
        upper=spec.workload.batch.dataset,
        limit_bytes=_limit(project, found),
        points={one.micro_batch: size for one in found if (size := _process(project, one)) is not None},
    )
    step = search.advance(asked, [])
    micro = getattr(step, "micro", spec.workload.batch.micro)
    points_at = search.expected(asked, [])
    lines = [
        f"Tries micro-batches in fresh processes until N holds and N + 1 does not: {micro} first, then by "
        "what it finds.",
        _origin(points_at, asked.limit_bytes),
        "The largest is confirmed by a longer run with validation; each result is saved at once, "
        "and a search that is stopped goes on where it was.",
        "",
        _duration(found, points_at),
    ]
    if spec.budget.job is None:
        lines.append("No budget is set, so the whole device is the limit: [budget] job = ... holds it lower.")
    return lines


def comparable(project: Any) -> list[Probe]:
    """Probes that took what the search takes, but for the batch, to their end."""
    spec = project.spec
    batch = spec.workload.batch
    length = batch.length.max if batch.length else None
    key = (spec.precision.use, batch.accumulate, length)
    return [
        one
        for one in project.measured.probe.values()
        if (one.precision, one.accumulate, one.length) == key
        and one.outcome in ("fits", "fits-without-reserve", "does-not-fit")
    ]


def _process(project: Any, probe: Probe) -> int | None:
    return probe_verdict(project.spec, probe).process_bytes


def _limit(project: Any, found: list[Probe]) -> int | None:
    budget = project.spec.budget
    if found:
        limit = probe_verdict(project.spec, found[-1]).budget_bytes
        return None if limit is None else limit - budget.reserve
    return None if budget.job is None else budget.job - budget.reserve


def _origin(points_at: int | None, limit: int | None) -> str:
    if points_at is None or limit is None:
        return "Nothing measured points anywhere yet, so the batch is doubled at first."
    return f"The line through earlier measurements points at {points_at:,} within {units.size(limit)}."


def _duration(found: list[Probe], points_at: int | None) -> str:
    if points_at is not None and points_at > 0:
        one = durations.expected_s(found, points_at, _DECIDING, _WARMUP, 1)
        soak = durations.expected_s(found, points_at, _SOAK, _WARMUP, 2)
        if one is not None and soak is not None:
            return f"About 4 measurements, expected {units.long_duration(2 * one + soak)}."
    return "How long it takes is n/a before the first measurement."
