"""What saved probes say to a search: trials that count, sizes that guide, and bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tui.budget.host import most_samples
from tui.budget.ledger import probe_verdict
from tui.budget.search import LEAST_SOAK, Trial
from tui.engine import host
from tui.engine.device import Device
from tui.engine.steps.candidates import Candidate, trains
from tui.engine.steps.sweep import comparable
from tui.project.load import Project
from tui.project.measured import Probe, Search
from tui.project.model import Spec

SAME = (
    "spec", "precision", "length", "accumulate", "multiple_of", "budget_bytes", "reserve_bytes",
)  # fmt: skip
"""Fields in which an interrupted search must be the one that is asked for."""


def trial_of(spec: Spec, probe: Probe, limit_bytes: int | None) -> Trial | None:
    """What ``probe`` says of its micro-batch under the budget as it is now; None: nothing that counts.

    Args:
        spec: budget and reserve.
        probe: one that ended.
        limit_bytes: what a child is held to now: running out below that proves nothing.
    """
    if probe.outcome == "not-tested":
        return Trial(probe.micro_batch, "untested", observed=probe.observed_batch)
    found = probe_verdict(spec, probe)
    if probe.outcome in ("failed", "cancelled") or found.word == "UNKNOWN":
        return None
    held_lower = limit_bytes is None or (probe.limit_bytes is not None and probe.limit_bytes < limit_bytes)
    if probe.outcome == "out-of-memory" and held_lower:
        return None
    process = (
        probe.training_process_bytes if probe.training_process_bytes is not None else found.process_bytes
    )
    fits = found.word == "FITS"
    if not fits and not trains(spec, probe):
        return Trial(probe.micro_batch, "fails", None if probe.outcome == "out-of-memory" else process)
    validation = None if fits else (probe.validation_batch or probe.micro_batch)
    soaked = probe.soaked >= LEAST_SOAK
    return Trial(probe.micro_batch, "fits", process, soaked and fits, validation)


def earlier(project: Project, spec: str, accumulate: int, length: int | None) -> dict[str, Probe]:
    """Probes by id that may guide a search: of the same spec and of the environment measured last."""
    same = comparable(project, spec, Candidate(1, accumulate, length))
    table = {
        id: one for id, one in sorted(project.measured.probe.items()) if one in same and not one.contended
    }
    if not table:
        return {}
    last = table[max(table)].environment
    ended = ("out-of-memory", "failed", "cancelled", "not-tested")
    return {id: one for id, one in table.items() if one.environment == last and one.outcome not in ended}


def resumable(project: Project, asked: Search) -> tuple[str, Search] | None:
    """The latest search, with its id, when it was cut short and was for what is asked now."""
    if not project.measured.search:
        return None
    id = max(project.measured.search)
    found = project.measured.search[id]
    same = all(getattr(found, name) == getattr(asked, name) for name in SAME)
    bound = found.upper == asked.upper or found.upper_from == "the host's memory"
    return (id, found) if found.outcome == "interrupted" and same and bound else None


def limit_bytes(project: Project, device: Device | None, probes: Sequence[Probe]) -> int | None:
    """Budget less reserve, as the verdict on the latest of ``probes`` has it; None: not known."""
    budget = project.spec.budget
    total = budget.job if budget.job is not None else (device.total_bytes if device is not None else None)
    if probes:
        latest = max(probes, key=lambda one: one.at)
        total = probe_verdict(project.spec, latest).budget_bytes or total
    return None if total is None else max(0, total - budget.reserve)


def host_bound(spec: Spec, device: Device | None, probes: Iterable[Probe]) -> int | None:
    """The largest micro-batch whose batches the host's memory holds; None: not known, or the CPU's own verdict.

    With a device the micro-batches of one iteration are made ahead of it.
    """
    if device is None or device.kind == "cpu":
        return None
    total = host.memory_total_bytes()
    known = [one for one in probes if one.batch_bytes]
    if total is None or not known:
        return None
    one = known[-1]
    return most_samples(total, -(-(one.batch_bytes or 0) // one.micro_batch), spec.workload.batch.accumulate)
