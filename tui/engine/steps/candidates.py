"""One batch to measure, and how: what a single probe, a sweep and a search ask of a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tui.budget.ledger import probe_verdict
from tui.engine.context import Options
from tui.engine.outcome import Outcome
from tui.project.measured import Probe
from tui.project.model import Spec

ITERATIONS = 20
QUICK_ITERATIONS = 5
WARMUP = 3
LEAST_WARMUP = 2
"""With the first iteration apart: two optimizer steps are complete before anything is timed."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One batch to measure."""

    micro: int
    accumulate: int
    length: int | None


@dataclass(frozen=True, slots=True)
class Manner:
    """With which children a candidate is measured, and for how long.

    The timed child, held to the limit exactly and without tracing, always decides.
    """

    traced: bool = True
    """Whether a second child says what is alive in every phase."""
    iterations: int = ITERATIONS
    warmup: int = WARMUP
    soak: bool = False
    """Whether it is the longer confirmation: every validation batch, and tracing only after it held."""
    validation: int | None = None
    """Samples of a validation batch; None: the micro-batch's."""
    several: bool = False
    """Whether it is one of several: then data that are too few are told of it instead of ending everything."""

    @property
    def order(self) -> tuple[str, ...]:
        """The children's tasks in order; a later one is started only when the one before was done."""
        if not self.traced:
            return ("timed",)
        return ("timed", "traced") if self.soak else ("traced", "timed")

    def extra(self, spec: Spec) -> dict[str, Any]:
        """What the timed child's plan has in ``extra``."""
        found: dict[str, Any] = {}
        if self.soak:
            found["validation_batches"] = spec.quality.batches
        if self.validation is not None:
            found["validation_micro"] = self.validation
        return found


def manner_of(options: Options, *, several: bool = False) -> Manner:
    """How the command line wants one batch to be measured."""
    count = options.iterations or (QUICK_ITERATIONS if options.quick else ITERATIONS)
    return Manner(
        iterations=count, warmup=WARMUP if options.warmup is None else options.warmup, several=several
    )


def too_few(outcome: Outcome) -> int | None:
    """Samples that ``batch()`` gave where more were asked for; None: it did not fail for that."""
    found = outcome.failure.details.get("observed_batch") if outcome.failure is not None else None
    return found if isinstance(found, int) else None


def annotated(spec: Spec, probe: Probe, children: Mapping[str, Outcome], manner: Manner) -> Probe:
    """``probe`` with what it was measured with, where it failed, and whether the model saw the batch at all."""
    deciding = children.get("timed") or children["traced"]
    table = deciding.results.get("timed", {})
    details = deciding.failure.details if deciding.failure is not None else {}
    phase = str(
        details.get("phase") or (deciding.failure.phase if deciding.failure else "") or deciding.phase
    )
    observed, unknown = table.get("observed_batch"), dict(probe.unknown)
    if observed is None:
        observed = too_few(deciding)
    if observed is None:
        unknown["observed_batch"] = table.get("observed_unknown") or "no untraced run ended"
    if not probe.phases and "traced" not in children and deciding.word == "done":
        unknown["phases"] = "it was not traced: only whether it fits was asked"
    probe = replace(
        probe,
        failed_phase="" if deciding.word == "done" else phase,
        observed_batch=observed,
        batch_bytes=table.get("batch_bytes"),
        validation_batch=manner.validation,
        soak=manner.soak,
        soaked=probe.iterations if manner.soak and deciding.word == "done" else 0,
        tasks=tuple(children),
        seconds=round(sum((one.ended - one.started).total_seconds() for one in children.values()), 3),
        training_process_bytes=_training_process(deciding),
        unknown=unknown,
    )
    if observed is not None and observed < probe.micro_batch:
        why = f"not tested: the model got {observed:,} of {probe.micro_batch:,} samples, the data are too few"
        return replace(probe, outcome="not-tested", failure=why, soaked=0)
    return probe


def holds(spec: Spec, timed: Outcome) -> bool:
    """Whether a timed child that ended well stayed within budget less reserve; True without an entered budget."""
    sizes = [one.bytes for one in timed.readings if one.name == "process" and one.bytes is not None]
    return spec.budget.job is None or max(sizes, default=0) + spec.budget.reserve <= spec.budget.job


def _training_process(deciding: Outcome) -> int | None:
    """The process at its most before validation began."""
    sizes = [
        one.bytes
        for one in deciding.readings
        if one.name == "process" and one.phase != "validate" and one.bytes is not None
    ]
    return max(sizes, default=None)


def trains(spec: Spec, probe: Probe) -> bool:
    """Whether training fits: true too where only validation did not."""
    if probe.outcome == "fits":
        return True
    if probe.training_process_bytes is None or probe.outcome in ("failed", "cancelled", "not-tested"):
        return False
    if probe.outcome == "out-of-memory" and probe.failed_phase != "validate":
        return False
    size = probe.training_process_bytes
    readings = dict(probe.readings)
    if "process" in readings:
        readings["process"] = replace(readings["process"], bytes=size)
    phases = {
        name: replace(peak, process_bytes=None if name == "validate" else peak.process_bytes)
        for name, peak in probe.phases.items()
    }
    alone = replace(probe, outcome="unknown", readings=readings, phases=phases)
    return probe_verdict(spec, alone).word == "FITS"
