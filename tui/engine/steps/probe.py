"""Step 4: full iterations at one batch or several, each batch in two fresh children.

The traced child comes first: it says what is alive in every phase.  The timed child, which carries no tracing
and is held to the limit exactly, decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tui.budget.ledger import probe_verdict
from tui.engine import device as devices
from tui.engine.context import Context, StepResult
from tui.engine.outcome import Outcome
from tui.engine.steps import common
from tui.engine.steps.outcomes import with_outcome
from tui.engine.steps.readings import phases_of, readings_of
from tui.engine.steps.times import with_times
from tui.errors import VerdictError
from tui.probe.protocol import Progress
from tui.project.ids import new_id
from tui.project.load import Project
from tui.project.measured import Measured, Probe

ITERATIONS = 20
QUICK_ITERATIONS = 5
WARMUP = 3
CONTENDED_SHARE = 0.02
"""Change of what other processes hold, as a share of the device, that marks a measurement."""


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """One batch to measure."""

    micro: int
    accumulate: int
    length: int | None


async def run(context: Context) -> StepResult:
    """Measure every asked batch, saving each; the code is 1 when a single one does not fit."""
    project, spec = common.ready(context)
    options = context.options
    batch = project.spec.workload.batch
    lengths = options.lengths or ((batch.length.max,) if batch.length else (None,))
    micros = options.batches or (batch.micro,)
    accumulate = options.accumulate or batch.accumulate
    wanted = [Candidate(micro, accumulate, length) for length in lengths for micro in micros]
    results: list[StepResult] = []
    for place, one in enumerate(wanted):
        if len(wanted) > 1:
            context.say(Progress(place, len(wanted), "batches"))
        result = await measure(context, project, spec, one)
        results.append(result)
        if result.code > VerdictError.code or result.outcome == "cancelled":
            return _ended_early(result, len(wanted), results[:-1])
    return results[0] if len(results) == 1 else _several(wanted, results)


def _ended_early(result: StepResult, asked: int, before: Sequence[StepResult]) -> StepResult:
    """``result``, saying what of a sweep was saved before it."""
    if not before:
        return result
    text = f"{result.text}; the {len(before)} of {asked} batches before it are saved"
    return dataclasses.replace(result, text=text, result_id=result.result_id or before[-1].result_id)


def _several(wanted: Sequence[Candidate], results: Sequence[StepResult]) -> StepResult:
    fitting = [one.micro for one, result in zip(wanted, results, strict=True) if result.outcome == "fits"]
    largest = f"; the largest that fits is {max(fitting)}" if fitting else ""
    text = f"{len(fitting)} of {len(results)} batches fit{largest}"
    return StepResult("done", 0 if fitting else 1, text, results[-1].result_id)


async def measure(context: Context, project: Project, spec: str, one: Candidate) -> StepResult:
    """Both children at one batch, and the saved Probe."""
    budget = project.spec.budget
    before = context.device_now()
    if before is not None and not context.options.force:
        devices.refuse_if_busy(before, budget.job, where=project.at("budget.job"))
    limit = budget.job if budget.job is not None else (before.total_bytes if before is not None else None)
    id = new_id("p")
    asked: dict[str, Any] = {**dataclasses.asdict(one), "limit_bytes": limit}
    title = f"micro-batch {one.micro}"
    traced = await context.measure(
        common.plan(context, project, "traced", **asked, iterations=3), f"{title}, memory"
    )
    outcomes = [traced]
    if traced.word == "done":
        count = context.options.iterations or (QUICK_ITERATIONS if context.options.quick else ITERATIONS)
        warmup = WARMUP if context.options.warmup is None else context.options.warmup
        timed = await context.measure(
            common.plan(context, project, "timed", id=id, **asked, iterations=count, warmup=warmup),
            f"{title}, time",
        )
        outcomes.append(timed)
    last = outcomes[-1]
    if last.word in ("failed", "crashed") and common.code_of(last) != VerdictError.code:
        return common.failed(last)
    if last.word == "cancelled" and traced.word != "done":
        return common.failed(last)
    probe = assemble(context, project, spec, one, outcomes, limit, before)
    common.keep(context, outcomes, id, "probe", probe)
    _note_gradients(context, spec, traced)
    return _said(project, probe, id)


def _said(project: Project, probe: Probe, id: str) -> StepResult:
    found = probe_verdict(project.spec, probe)
    if probe.outcome == "cancelled":
        return StepResult("cancelled", 4, probe.failure, id)
    if probe.outcome == "failed":
        return StepResult("failed", VerdictError.code, probe.failure, id)
    code = 0 if probe.outcome in ("fits", "unknown") else VerdictError.code
    return StepResult(probe.outcome, code, probe.failure or found.word, id)


def assemble(
    context: Context,
    project: Project,
    spec: str,
    one: Candidate,
    outcomes: Sequence[Outcome],
    limit: int | None,
    before: devices.Device | None,
) -> Probe:
    """The Probe entry of one batch from its children; ``before``: the device just before them."""
    traced, timed = outcomes[0], (outcomes[1] if len(outcomes) > 1 else None)
    after = context.device_now()
    key, _ = common.environment(context, outcomes)
    kind = context.device.kind if context.device is not None else "cpu"
    phases, worst = phases_of(traced, timed, kind)
    readings, contended = readings_of(outcomes, phases, worst, kind, before, after, CONTENDED_SHARE)
    budget = project.spec.budget
    probe = Probe(
        at=common.now(),
        spec=spec,
        environment=key,
        precision=project.spec.precision.use,
        micro_batch=one.micro,
        accumulate=one.accumulate,
        outcome="unknown",
        length=one.length,
        device=kind,
        worst_phase=worst,
        phases=phases,
        readings=readings,
        budget_bytes=budget.job,
        reserve_bytes=budget.reserve,
        contended=contended,
        nice=context.options.nice,
        limit_bytes=limit,
        tracking_bytes=traced.results.get("traced", {}).get("tracking_bytes"),
        journal=common.journal_name([outcomes[-1]]),
    )
    probe = with_times(probe, timed)
    return with_outcome(project, probe, outcomes)


def _note_gradients(context: Context, spec: str, traced: Outcome) -> None:
    """Let the inventory know how many elements received a gradient."""
    from tui.project import save

    count = traced.results.get("traced", {}).get("gradient_receiving")
    if count is None:
        return

    def put(measured: Measured) -> Measured:
        if measured.inventory is None or measured.inventory.spec != spec:
            return measured
        return dataclasses.replace(
            measured, inventory=dataclasses.replace(measured.inventory, gradient_receiving=count)
        )

    save.record(context.project_path, put)
