"""What an iteration will take, from a trace on tensors without values: for a GPU that need not be here.

No device is held: the child sees none.  Several batches or lengths are points of one child.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tui.budget import prediction as predictions
from tui.engine.context import Context, StepResult
from tui.engine.outcome import Outcome
from tui.engine.steps import common, placing
from tui.engine.steps.predict_table import prediction_of, with_largest
from tui.engine.steps.predict_target import Target, target_of
from tui.engine.steps.timelines import timeline_of
from tui.errors import RunError, SaveError, UsageError, VerdictError
from tui.project import pending, save, trust
from tui.project.fingerprint import spec_hash
from tui.project.ids import new_id
from tui.project.load import Project
from tui.project.measured import Measured
from tui.project.model import Spec
from tui.project.prediction import Prediction

NOT_ASKED = "not asked for: --largest"
MEASURE = "peakmark probe"
WORST_FIRST = ("DOES NOT FIT", "FITS ONLY WITHOUT THE RESERVE", "UNKNOWN")


async def run(context: Context) -> StepResult:
    """Predict every batch and length asked, save each; code 1 unless all of them fit.

    In a run that measures too, what is measured decides: that nothing could be predicted is told and the run goes
    on, and a prediction that does not fit is no verdict.
    """
    project = context.load()
    trust.require(project, context.options.trust)
    alone = context.device is None
    target = target_of(project, context.options, context.device)
    try:
        saved = await predict(context, project, spec_hash(project), target, largest=context.options.largest)
    except RunError as error:
        if alone:
            raise
        return StepResult("refused", 0, error.sentence())
    if isinstance(saved, StepResult):
        return saved if alone or saved.outcome == "cancelled" else dataclasses.replace(saved, code=0)
    found = [predictions.prediction_verdict(project.spec, one) for one in saved.values()]
    words = [one.word for one in found]
    worst = next((one for word in WORST_FIRST for one in found if one.word == word), found[0])
    code = 0 if worst.word == "FITS" or not alone else VerdictError.code
    text = worst.word if len(words) == 1 else f"{words.count('FITS')} of {len(words)} fit"
    return StepResult(worst.outcome, code, f"{text}, by prediction", max(saved))


async def predict(
    context: Context,
    project: Project,
    spec: str,
    target: Target,
    *,
    lengths: Sequence[int | None] | None = None,
    largest: bool = False,
) -> dict[str, Prediction] | StepResult:
    """The predictions of every point, saved; a step's result when the child ended without them.

    Args:
        context: of the run.
        project: what is predicted.
        spec: its fingerprint.
        target: for which device.
        lengths: instead of those that the command line, or else the project, names.
        largest: look for the largest micro-batch too.

    Raises:
        RunError: what is asked cannot be predicted, and why.
        SaveError: see ``save.record``.
    """
    refuse(project, target.kind)
    points = points_of(context, project, lengths)
    around, origin = around_of(target, project)
    limit, why = predictions.reserved_limit(project.spec, target.total_bytes, around)
    if target.kind == "cpu":
        limit, why = None, predictions.ON_CPU
    id = new_id("f")
    told = asked(context, project, target, points, limit if largest else None)
    first = points[0]
    plan = common.plan(
        context, project, "predict", id=id, micro=first["micro"], accumulate=first["accumulate"],
        length=first["length"], device="cpu", extra={"predict": told},
    )  # fmt: skip
    outcome = _named(await context.measure(plan, f"prediction for {target.text}"), project)
    if outcome.word != "done" or not outcome.predicted:
        return _ended(outcome)
    ids = [id, *(new_id("f") for _ in outcome.predicted[1:])]
    made = {
        key: prediction_of(project, spec, target, table, outcome, around, origin)
        for key, table in zip(ids, outcome.predicted, strict=True)
    }
    made[id] = with_largest(_with_timeline(made[id], outcome), outcome, limit, why if largest else NOT_ASKED)
    for key in ids[1:]:
        unknown = {"timeline": f"one is kept of the first batch: {id}", "largest": NOT_ASKED}
        made[key] = dataclasses.replace(made[key], unknown={**made[key].unknown, **unknown})
    judged = {key: _judged(project.spec, one) for key, one in made.items()}
    keep(context, id, judged, outcome)
    return judged


def _ended(outcome: Outcome) -> StepResult:
    """The result of a child that predicted nothing; ``refused`` when it said why nothing can be."""
    result = common.failed(outcome)
    if outcome.failure is not None and outcome.failure.kind == "prediction":
        return dataclasses.replace(result, outcome="refused")
    return result


def _named(outcome: Outcome, project: Project) -> Outcome:
    """The child knows no file's name: its hints to measure instead get the project's."""
    failure = outcome.failure
    if failure is None or failure.kind != "prediction" or MEASURE not in failure.hint:
        return outcome
    name = shlex.quote(project.path.name)
    hint = failure.hint.replace(MEASURE, f"{MEASURE} {name}", 1)
    sentence = outcome.sentence.replace(MEASURE, f"{MEASURE} {name}", 1)
    return dataclasses.replace(outcome, sentence=sentence, failure=dataclasses.replace(failure, hint=hint))


def refuse(project: Project, kind: str) -> None:
    """Raise for what no prediction is made of; ``kind`` is the device's: cpu or cuda.

    Raises:
        RunError: the key, where it stands and what to do instead.
    """
    placing.refuse_predicted(project, kind)
    if project.spec.workload.step.compile:
        raise RunError(
            "cannot predict: workload.step.compile = true; what torch.compile fuses is not known before it has run",
            where=project.at("workload.step.compile"),
            hint=f"measure it: peakmark probe {project.path.name}",
        )


def points_of(
    context: Context, project: Project, lengths: Sequence[int | None] | None = None
) -> list[dict[str, Any]]:
    """What is asked: every length with every micro-batch, the command line's or the project's."""
    batch, options = project.spec.workload.batch, context.options
    longest = batch.length.max if batch.length else None
    if options.lengths and batch.length is None:
        raise UsageError(
            "--length: this project's samples have no length",
            hint="give [workload.batch] a length, or leave --length out",
        )
    over = lengths or options.lengths or (longest,)
    return [
        {"micro": micro, "accumulate": options.accumulate or batch.accumulate, "length": length}
        for length in over
        for micro in options.batches or (batch.micro,)
    ]


def around_of(target: Target, project: Project) -> tuple[tuple[int, int] | None, str]:
    """What a process holds beside the allocator, at least and at most, and where that comes from; None: not known."""
    if target.kind == "cpu":
        return None, ""
    return predictions.context_of(target.gpu, project.measured, project.spec.placement.ranks)


def asked(
    context: Context,
    project: Project,
    target: Target,
    points: Sequence[Mapping[str, Any]],
    limit: int | None,
) -> dict[str, Any]:
    """``Plan.extra["predict"]``; ``limit``: look for the largest micro-batch within it too."""
    spec, options = project.spec, context.options
    bounds = [size for size in (options.upper, spec.workload.batch.dataset) if size is not None]
    return {
        "semantics": target.kind,
        "target": target.table(),
        "allocator": options.alloc_conf or "",
        "capacity_bytes": _capacities(target, project),
        "workspaces": predictions.workspaces_of(target.gpu, project.measured),
        "points": [dict(one) for one in points],
        "largest": None
        if limit is None
        else {"reserved_limit_bytes": limit, "upper": min(bounds, default=None)},
        "placement": placing.predicted(spec.placement),
    }


def _capacities(target: Target, project: Project) -> list[int] | None:
    """What the allocator may reserve, for every end of what else the process holds; None: that is not known."""
    around, _ = around_of(target, project)
    return predictions.capacities(project.spec, target.total_bytes, around) or None


def _with_timeline(found: Prediction, outcome: Outcome) -> Prediction:
    name, why = timeline_of(outcome, outcome.predicted[0].get("unknown", {}).get("timeline"))
    if why is None:
        return dataclasses.replace(found, timeline=name)
    return dataclasses.replace(found, unknown={**found.unknown, "timeline": why})


def _judged(spec: Spec, found: Prediction) -> Prediction:
    return dataclasses.replace(found, outcome=predictions.prediction_verdict(spec, found).outcome)


def keep(context: Context, id: str, made: Mapping[str, Prediction], outcome: Outcome) -> None:
    """Save the predictions; what cannot be saved now is kept beside the journals.

    Raises:
        SaveError: the project could not be written; the sentence says where the result is kept.
    """
    found = Measured(prediction=dict(made))
    kept_in = pending.put(context.project_path, id, found)
    try:
        save.record(context.project_path, lambda measured: pending.merged(measured, found), kept_in=kept_in)
    except SaveError as error:
        if not kept_in:
            error.hint += (
                f", nor could the result be kept; its figures are in {common.journal_name([outcome])}"
            )
        raise
    pending.drop(id)
