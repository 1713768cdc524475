"""What torch's compiler took, apart from the iterations that it made faster."""

from __future__ import annotations

import dataclasses

from tui.engine.outcome import Outcome
from tui.project.measured import Probe


def with_compiler(probe: Probe, traced: Outcome, timed: Outcome | None) -> Probe:
    """``probe`` with compile time and counts, as far as its model was compiled, and what has no name for that."""
    unknown = dict(probe.unknown)
    why = traced.results.get("traced", {}).get("unknown", {}).get("unattributed")
    if why:
        unknown["unattributed"] = why
    found = timed.results.get("timed", {}).get("compile") if timed is not None else None
    if not found:
        return dataclasses.replace(probe, unknown=unknown)
    if found["why"] or not found["count"]:
        unknown["compile_ms"] = found["why"] or "nothing was compiled: the model itself is not called"
        return dataclasses.replace(probe, unknown=unknown)
    return dataclasses.replace(
        probe,
        compile_ms=round(found["ms"], 4),
        compile_count=found["count"],
        compiled_again=found["again"],
        unknown=unknown,
    )
