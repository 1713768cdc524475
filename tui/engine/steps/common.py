"""What the steps share: plans, the environment's entry, saving, and reading results of children."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tui.engine.context import Context, StepResult
from tui.engine.outcome import Outcome
from tui.engine.steps import placing
from tui.errors import ProjectError, RunError, SaveError, VerdictError
from tui.probe.protocol import Plan
from tui.project import pending, save, trust
from tui.project.fingerprint import spec_hash
from tui.project.ids import new_id
from tui.project.load import Project
from tui.project.measured import Environment, Measured
from tui.project.model import Spec

KEEP_SHOWN = 64
"""Iterations kept in the project for the traces on the screen."""


def now() -> datetime:
    """The time that results are dated with, whole seconds, UTC."""
    return datetime.now(UTC).replace(microsecond=0)


def ready(context: Context) -> tuple[Project, str]:
    """The project and its fingerprint, after everything of it that would run was found allowed.

    Raises:
        ProjectError: not trusted, or a file of the workload is missing.
        RunError: it asks for something that one process on one device cannot show.
    """
    project = context.load()
    trust.require(project, context.options.trust)
    placing.refuse(project, context.device, several=context.step == "probe")
    return project, spec_hash(project)


def plan(
    context: Context,
    project: Project,
    task: str,
    *,
    id: str = "",
    micro: int | None = None,
    accumulate: int | None = None,
    length: int | None = None,
    **more: Any,
) -> Plan:
    """A plan for one child of this project; ``more`` are further fields of Plan."""
    spec = project.spec
    workload = spec.workload
    batch = workload.batch
    id = id or new_id("m")
    longest = batch.length.max if batch.length else None
    device = context.device
    name = "cpu" if device is None or device.kind == "cpu" else f"cuda:{device.id}"
    fields: dict[str, Any] = {"precision": spec.precision.use, "device": name, **more}
    fields["extra"] = _extra(spec, task) | fields.get("extra", {})
    if device is not None and device.kind == "cuda" and fields.get("limit_bytes") is not None:
        now = context.device_now()
        fields["extra"]["free_bytes"] = now.free_bytes if now is not None else None
    return Plan(
        id=id,
        task=task,
        journal=str(context.journal_path(id)),
        workload={
            "source": workload.source,
            "args": dict(workload.args),
            "frozen": list(workload.frozen),
        },
        batch={
            "micro": micro if micro is not None else batch.micro,
            "accumulate": accumulate if accumulate is not None else batch.accumulate,
            "length": length if length is not None else longest,
            "tokens": batch.tokens,
            "remainder": batch.remainder,
            "weight_by": batch.weight_by,
        },
        optimizer=dataclasses.asdict(workload.optimizer),
        step={"compile": workload.step.compile, "checkpoint": list(workload.step.checkpoint)},
        quality={"batches": spec.quality.batches, "direction": spec.quality.direction},
        folder=str(project.path.resolve().parent),
        nice=context.options.nice,
        **fields,
    )


def _extra(spec: Spec, task: str) -> dict[str, Any]:
    """What every plan of ``task`` has in ``extra``."""
    scheduler = spec.workload.scheduler
    extra: dict[str, Any] = {"scheduler": None if scheduler is None else dataclasses.asdict(scheduler)}
    if task == "inventory":
        placement = spec.placement
        extra["placement"] = {
            "ranks": placement.ranks,
            "strategy": placement.strategy,
            "shard_each": list(placement.shard_each),
            "reshard_after_forward": placement.reshard_after_forward,
        }
        extra["backward"] = True
    elif (kept := placing.kept_on_host(spec.placement)) is not None:
        extra["placement"] = kept
    return extra


def environment(context: Context, outcomes: Sequence[Outcome]) -> tuple[str, Environment | None]:
    """(id, entry) of what the children of one result found themselves in; ("", None) when none of them said."""
    seen = next((one.environment for one in outcomes if one.environment is not None), None)
    if seen is None:
        return "", None
    facts, unknown = dict(seen.facts), dict(seen.unknown)
    device = context.device
    if device is not None:
        if device.driver is not None:
            facts["driver"] = device.driver
            unknown.pop("driver", None)
        facts.setdefault("device_total_bytes", device.total_bytes)
    known = {field.name for field in dataclasses.fields(Environment)}
    facts = {key: value for key, value in facts.items() if key in known and value is not None}
    if "device_total_bytes" not in facts:
        facts["device_total_bytes"] = None
        unknown.setdefault("device_total_bytes", "the system does not say")
    text = json.dumps(facts, sort_keys=True)
    entry = Environment(**facts, unknown=unknown)
    return "e-" + hashlib.sha256(text.encode()).hexdigest()[:6], entry


def keep(
    context: Context, outcomes: Sequence[Outcome], id: str, kind: str, result: Any, **more: dict[str, Any]
) -> None:
    """Save ``result`` as ``measured.KIND.ID`` together with its environment's entry, and ``more`` tables.

    Raises:
        SaveError: the project could not be written; the sentence says where the result is kept.
    """
    key, entry = environment(context, outcomes)
    tables: dict[str, Any] = {kind: {id: result}, **more}
    if entry is not None:
        tables["environment"] = {key: entry}
    found = Measured(**tables)
    kept_in = pending.put(context.project_path, id, found)
    try:
        save.record(context.project_path, lambda measured: pending.merged(measured, found), kept_in=kept_in)
    except SaveError as error:
        if not kept_in:
            error.hint += f", nor could the result be kept; its figures are in {journal_name(outcomes)}"
        raise
    pending.drop(id)


def journal_name(outcomes: Sequence[Outcome]) -> str:
    """``runs/<id>.jsonl`` of the last child."""
    return f"runs/{Path(outcomes[-1].journal).name}" if outcomes else ""


def failed(outcome: Outcome) -> StepResult:
    """The step's result when a child ended without its own."""
    if outcome.word == "cancelled":
        return StepResult("cancelled", RunError.code, outcome.sentence)
    return StepResult("failed", code_of(outcome), outcome.sentence)


def code_of(outcome: Outcome) -> int:
    """The exit code for a child's failure."""
    if outcome.failure is None:
        return RunError.code
    kinds = {
        "workload": ProjectError.code,
        "out-of-memory": VerdictError.code,
        "nonfinite": VerdictError.code,
        "checkpoint": VerdictError.code,
    }
    return kinds.get(outcome.failure.kind, RunError.code)


def thinned(values: Sequence[Any], most: int = KEEP_SHOWN) -> list[int]:
    """Indices of at most ``most`` of ``values``, evenly taken, first and last included.

    >>> thinned(range(10), 4)
    [0, 3, 6, 9]
    """
    if len(values) <= most:
        return list(range(len(values)))
    step = (len(values) - 1) / (most - 1)
    return [round(place * step) for place in range(most)]


def finite(value: float | None) -> float | None:
    """``value``, or None when it is not a finite number."""
    return value if value is not None and math.isfinite(value) else None
