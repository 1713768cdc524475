"""Step 4: full iterations at one batch or several, each batch in fresh children.

The traced child says what is alive in every phase.  The timed child, which carries no tracing and is held to the
limit exactly, decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tui.budget.ledger import probe_verdict
from tui.engine import device as devices
from tui.engine.context import Context, StepResult
from tui.engine.outcome import Outcome
from tui.engine.steps import common, ranks
from tui.engine.steps.around import device_after
from tui.engine.steps.calibrate import calibration_table
from tui.engine.steps.candidates import Candidate, Manner, annotated, holds, too_few
from tui.engine.steps.compiled import with_compiler
from tui.engine.steps.outcomes import with_outcome
from tui.engine.steps.readings import phases_of, readings_of
from tui.engine.steps.timelines import with_timeline
from tui.engine.steps.times import with_times
from tui.errors import ProjectError, VerdictError
from tui.project.fingerprint import is_counted
from tui.project.ids import new_id
from tui.project.load import Project
from tui.project.measured import Measured, Probe

CONTENDED_SHARE = 0.02
"""Change of what other processes hold, as a share of the device, that marks a measurement."""


async def run(context: Context) -> StepResult:
    """One batch, a sweep or a search, as the command line says; each batch is saved as soon as it ended."""
    from tui.engine.steps import search, sweep

    return await (search.run(context) if context.options.search else sweep.run(context))


async def measure(
    context: Context, project: Project, spec: str, one: Candidate, manner: Manner
) -> StepResult:
    """The children that ``manner`` says at one batch, and the saved Probe."""
    budget = project.spec.budget
    before = context.device_now()
    if before is not None and not context.options.force:
        devices.refuse_if_busy(before, budget.job, where=project.at("budget.job"))
    limit = limit_of(context, project)
    id = new_id("p")
    children: dict[str, Outcome] = {}
    for task in manner.order:
        with ranks.held(context, project):
            children[task] = outcome = await _child(context, project, one, manner, task, id, limit)
        # Tracing needs memory of its own: the child without it decides whether it was that alone.
        if outcome.word != "done" and (task, outcome.word) != ("traced", "out-of-memory"):
            break
        if manner.soak and task == "timed" and not holds(project.spec, outcome):
            break  # a smaller one follows, whose rows are worth tracing
    children = _decisive(children, manner)
    last = children.get("timed") or children["traced"]
    told = manner.several and too_few(last) is not None
    if last.word in ("failed", "crashed") and common.code_of(last) != VerdictError.code and not told:
        return common.failed(last)
    if last.word == "cancelled" and len(children) == 1:
        return common.failed(last)
    probe = assemble(context, project, spec, one, children, limit, before)
    probe = annotated(project.spec, probe, children, manner)
    told = common.environment(context, list(children.values()))
    traced = children.get("traced")
    blocks = None if traced is None else traced.results.get("traced", {}).get("workspace_blocks")
    calibrated = calibration_table(id, probe, *told, blocks)
    common.keep(context, list(children.values()), id, "probe", probe, calibration=calibrated)
    _note_gradients(context, project, children)
    return _said(project, probe, id)


async def _child(
    context: Context, project: Project, one: Candidate, manner: Manner, task: str, id: str, limit: int | None
) -> Outcome:
    asked: dict[str, Any] = {**dataclasses.asdict(one), "limit_bytes": limit}
    title = f"micro-batch {one.micro}" + ("" if one.length is None else f" x {one.length}")
    several = ranks.told(project, context.device)
    if task == "traced":
        plan = common.plan(context, project, "traced", **asked, iterations=3, extra=several)
        return await context.measure(plan, f"{title}, memory")
    asked |= {
        "iterations": manner.iterations,
        "warmup": manner.warmup,
        "extra": manner.extra(project.spec) | several,
    }
    plan = common.plan(context, project, "timed", id=id, **asked)
    what = "soak" if manner.soak else ("time" if manner.traced else "whether it fits")
    return await context.measure(plan, f"{title}, {what}")


def _decisive(children: dict[str, Outcome], manner: Manner) -> dict[str, Outcome]:
    """The children that say something of this batch, the traced one first.

    A soak that held is not undone by its traced child, which needs more than the workload does.
    """
    traced = children.get("traced")
    if manner.soak and traced is not None and traced.word != "done":
        return {"timed": children["timed"]}
    return {task: children[task] for task in ("traced", "timed") if task in children}


def limit_of(context: Context, project: Project) -> int | None:
    """Bytes that a child is held to: the budget, else the whole device; None: not known."""
    device = context.device_now()
    total = device.total_bytes if device is not None else None
    return project.spec.budget.job if project.spec.budget.job is not None else total


def _said(project: Project, probe: Probe, id: str) -> StepResult:
    found = probe_verdict(project.spec, probe)
    if probe.outcome == "cancelled":
        return StepResult("cancelled", 4, probe.failure, id)
    if probe.outcome in ("failed", "not-tested"):
        return StepResult(probe.outcome, VerdictError.code, probe.failure, id)
    code = 0 if probe.outcome in ("fits", "unknown") else VerdictError.code
    return StepResult(probe.outcome, code, probe.failure or found.word, id)


def assemble(
    context: Context,
    project: Project,
    spec: str,
    one: Candidate,
    children: Mapping[str, Outcome],
    limit: int | None,
    before: devices.Device | None,
) -> Probe:
    """The Probe entry of one batch from its children; ``before``: the device just before them."""
    outcomes = list(children.values())
    table = outcomes[0].results.get("traced", {})
    traced, timed = outcomes[0], children.get("timed")  # without a traced child nothing is said of phases
    after = device_after(context)
    key, _ = common.environment(context, outcomes)
    kind = context.device.kind if context.device is not None else "cpu"
    phases, worst = phases_of(traced, timed, kind, before)
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
        tracking_bytes=table.get("tracking_bytes"),
        start_bytes=table.get("start_bytes"),
        growth_bytes=table.get("growth_bytes"),
        growth_of=dict(table.get("growth_of") or {}),
        journal=common.journal_name([outcomes[-1]]),
        ranks=ranks.peaks_of(traced),
    )
    probe = with_timeline(with_compiler(with_times(probe, timed), traced, timed), traced)
    saved = _saved(context, project) if outcomes[-1].word == "out-of-memory" else []
    return with_outcome(project.spec, saved, probe, outcomes)


def _saved(context: Context, project: Project) -> list[Probe]:
    """The probes that are saved by now, those of this very sweep among them."""
    try:
        return list(context.load().measured.probe.values())
    except ProjectError:  # edited meanwhile: what will be saved is told there
        return list(project.measured.probe.values())


def _note_gradients(context: Context, project: Project, children: Mapping[str, Outcome]) -> None:
    """Let the inventory know how many elements received a gradient."""
    from tui.project import save

    traced = children.get("traced")
    count = None if traced is None else traced.results.get("traced", {}).get("gradient_receiving")
    if count is None:
        return

    def put(measured: Measured) -> Measured:
        if measured.inventory is None or not is_counted(dataclasses.replace(project, measured=measured)):
            return measured
        return dataclasses.replace(
            measured, inventory=dataclasses.replace(measured.inventory, gradient_receiving=count)
        )

    save.record(context.project_path, put)
