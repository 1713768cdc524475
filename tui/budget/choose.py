"""Which of a project's probes a ledger is about.  Pure; ids sort by time."""

from __future__ import annotations

from tui.project.measured import Measured, Probe
from tui.project.model import Spec

WITHOUT_VERDICT = ("cancelled", "failed", "not-tested")


def ledger_probe(spec: Spec, measured: Measured) -> tuple[str, Probe] | None:
    """The probe whose ledger is shown when none is named, with its id; None when no probe says anything.

    The latest one of the batch, length and precision that the spec asks for, with phases or out of memory, and not
    cancelled; without one the latest with phases; without one the latest that ended with a verdict.
    """
    probes = sorted(measured.probe.items())
    with_phases = [(id, one) for id, one in probes if one.phases]
    told = [(id, one) for id, one in probes if one.phases or one.outcome == "out-of-memory"]
    own = [(id, one) for id, one in told if is_own(spec, one) and one.outcome != "cancelled"]
    ended = [(id, one) for id, one in probes if one.outcome not in WITHOUT_VERDICT]
    return next((found[-1] for found in (own, with_phases, ended) if found), None)


def is_own(spec: Spec, probe: Probe) -> bool:
    """Whether ``probe`` ran the micro-batch, accumulation, length and precision that the spec asks for."""
    batch = spec.workload.batch
    longest = batch.length.max if batch.length else None
    asked = (batch.micro, batch.accumulate, longest, spec.precision.use)
    return (probe.micro_batch, probe.accumulate, probe.length, probe.precision) == asked
