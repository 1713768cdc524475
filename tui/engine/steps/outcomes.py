"""How a probe ended: by its verdict, or by what stopped it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tui.budget.ledger import probe_verdict
from tui.engine.outcome import Outcome
from tui.project.load import Project
from tui.project.measured import Probe


def with_outcome(project: Project, probe: Probe, outcomes: Sequence[Outcome]) -> Probe:
    """``probe`` with how it ended: by its verdict, or by what stopped it; ``outcomes``: traced, then timed."""
    last = outcomes[-1]
    if last.word == "done":
        return dataclasses.replace(probe, outcome=probe_verdict(project.spec, probe).outcome)
    details = last.failure.details if last.failure is not None else {}
    word = {"out-of-memory": "out-of-memory", "cancelled": "cancelled"}.get(last.word, "failed")
    alive: dict[str, int] = dict(details.get("alive") or {})
    if word == "out-of-memory" and not alive and probe.worst_phase:
        alive = dict(probe.phases[probe.worst_phase].rows)  # of the traced run, which had its way
    unknown = dict(probe.unknown)
    if word == "out-of-memory" and not alive:
        unknown["alive"] = str(details.get("alive_unknown") or "it ran out before anything was labelled")
    if word == "out-of-memory" and details.get("asked_bytes") is None:
        unknown["asked_bytes"] = "the error does not say how much was asked for"
    return dataclasses.replace(
        probe,
        outcome=word,
        failure=_sentence(last, details) if word == "out-of-memory" else last.sentence,
        asked_bytes=details.get("asked_bytes"),
        limit_bytes=details.get("limit_bytes") or probe.limit_bytes,
        alive=alive,
        unknown=unknown,
    )


def _sentence(last: Outcome, details: dict[str, object]) -> str:
    """ "out of memory: iteration 1, backward, asked for N B", as far as the child could say."""
    phase = str(details.get("phase") or (last.failure.phase if last.failure else "") or last.phase)
    index = details.get("iteration")
    if phase.startswith("first."):
        index = 0
    elif index is None and phase in ("forward", "backward", "step") and last.iterations:
        timed = any(one.kind == "timed" for one in last.iterations)  # of these not every one is told
        index = None if timed else last.iterations[-1].index + 1
    place = f"iteration {index + 1}, " if isinstance(index, int) else ""
    asked = details.get("asked_bytes")
    said = f", asked for {asked:,} B" if isinstance(asked, int) else ""
    return f"out of memory: {place}{phase.removeprefix('first.')}{said}"
