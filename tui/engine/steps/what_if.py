"""What would change: the present spec and changed ones predicted side by side, nothing of it saved in the project.

A prediction that the project or the cache has is taken as it is.  The others are traced in one child where only
batch, length and accumulate differ, else in one child each.  No device is held: the children see none.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.budget import prediction as predictions
from tui.budget import what_if
from tui.budget.what_if import Change
from tui.budget.what_if_rows import Case, WhatIf, compare
from tui.engine.context import Context, Options
from tui.engine.outcome import Outcome
from tui.engine.steps import common, predict, what_if_cache
from tui.engine.steps.predict_table import prediction_of
from tui.engine.steps.predict_target import Target, target_of
from tui.errors import RunError
from tui.project import save, trust
from tui.project.fingerprint import is_counted, spec_hash
from tui.project.ids import new_id
from tui.project.inventory import Inventory
from tui.project.load import Project, load
from tui.project.model import LengthSpec, Spec
from tui.project.paths import runs_folder, state_folder
from tui.project.prediction import Prediction

STEP = "what-if"
NO_TIMELINE = "none is kept of a prediction that was only asked for"


def _quiet(_: Any) -> None:
    """Show nothing."""


async def scenarios(
    path: Path,
    asked: Sequence[Sequence[Change]],
    options: Options,
    show: Callable[[Any], None] = _quiet,
    *,
    predicting: bool = True,
) -> WhatIf:
    """The present spec, and beside it what every list of changes makes of it.

    Args:
        path: the project file; it is read, never written.
        asked: the changes of each scenario, from the spec as it is in the file.
        options: device, gpu, alloc_conf, trust and nice are used.
        show: called with the events of the children.
        predicting: False: no child is started; declared rows, and predictions that are at hand.

    Raises:
        UsageError: a change that the spec cannot take, or a GPU that is not known.
        ProjectError: the project cannot be read, or what it runs is not allowed.
        RunError: the device that is named is not here.
        asyncio.CancelledError: it was cancelled; the child has ended.
    """
    project = load(path)
    projects = [project, *(what_if.apply(project, changes) for changes in asked)]
    context = Context(path, options, new_id(STEP), state_folder(), None, show, show)
    context.step = STEP
    points = [_Point.of(one, context) for one in projects]
    cases = [_case(project, one) for one in points]
    _find(points, cases)
    if predicting:
        await _predict(context, points, cases)
    made = [compare(cases[0], then, tuple(changes)) for then, changes in zip(cases[1:], asked, strict=True)]
    return WhatIf(cases[0], tuple(made))


def accept(path: Path, changes: Sequence[Change], seen: Project | None = None) -> Project:
    """Write the changes into the hand-written part; comments, order and layout stay.

    Args:
        path: the project file.
        changes: see ``what_if.parse``.
        seen: the project as the person who accepts saw it.

    Raises:
        ProjectError: the project would not be valid; nothing was written.
        SaveError: it could not be written, or the file changed on disk since it was seen.
    """
    return save.edit(path, what_if.edits(seen or load(path), changes), seen=seen)


@dataclass(frozen=True, slots=True)
class _Point:
    """One spec, and what a child would be asked of it."""

    project: Project
    target: Target
    spec: str
    """Its fingerprint."""
    model: str
    """That of the same spec at another batch: what has it in common can be points of one child."""
    asked: dict[str, Any]
    """Device, allocator, budget and placement as a child is told them, without the points."""

    @classmethod
    def of(cls, project: Project, context: Context) -> _Point:
        """The point of ``project``."""
        target = target_of(project, context.options)
        asked = predict.asked(context, project, target, [], None)
        anywhere = dataclasses.replace(project, spec=_at_any_batch(project.spec))
        return cls(project, target, spec_hash(project), spec_hash(anywhere), asked)

    @property
    def batch(self) -> dict[str, Any]:
        """As a child is asked for it."""
        batch = self.project.spec.workload.batch
        length = batch.length.max if batch.length else None
        return {"micro": batch.micro, "accumulate": batch.accumulate, "length": length}

    @property
    def key(self) -> str:
        """Its name in the cache."""
        return what_if_cache.key(self.project, self.spec, self.asked)

    def is_of(self, found: Prediction, specs: set[str]) -> bool:
        """Whether ``found`` is a prediction of this point for its device, and its budget."""
        at = {"micro": found.micro_batch, "accumulate": found.accumulate, "length": found.length}
        here = (found.semantics, found.target, found.allocator, found.precision)
        asked = (self.target.kind, self.target.name, self.asked["allocator"], self.project.spec.precision.use)
        same = any(predictions.is_same_spec(found.spec, one) for one in specs)
        return bool(found.phases) and same and at == self.batch and here == asked

    def is_with(self, other: _Point) -> bool:
        """Whether one child can trace both; it simulates the budgets of all."""
        mine, others = ({**one.asked, "capacity_bytes": None} for one in (self, other))
        return (self.model, self.target, mine) == (other.model, other.target, others)


def _at_any_batch(spec: Spec) -> Spec:
    batch = spec.workload.batch
    length = None if batch.length is None else LengthSpec(1)
    same = dataclasses.replace(batch, micro=1, accumulate=1, length=length)
    return dataclasses.replace(spec, workload=dataclasses.replace(spec.workload, batch=same))


def _case(project: Project, point: _Point) -> Case:
    inventory = _inventory(project, point.project.spec)
    return Case(point.project, inventory, point.target.kind, total_bytes=point.target.total_bytes)


def _inventory(project: Project, then: Spec) -> Inventory | None:
    """The project's count where it is of the changed spec's model too, without what was counted of a placement."""
    found, now = project.measured.inventory, project.spec
    if found is None or not is_counted(project):
        return None
    if _model(now) != _model(then):
        return None
    if now.placement == then.placement:
        return found
    return dataclasses.replace(
        found,
        ranks=0,  # of no placement: the fullest rank of this one was not counted
        rank_parameters=None,
        rank_bytes=None,
        rank_padding=None,
        rank_gathered_bytes=None,
        rank_group_bytes=None,
    )


def _model(spec: Spec) -> tuple[Any, ...]:
    """What the number of parameters depends on."""
    return spec.workload.source, spec.workload.args, spec.workload.frozen


def _find(points: Sequence[_Point], cases: list[Case]) -> None:
    """Put in the predictions that the project or the cache has, and why others cannot be made."""
    for at, point in enumerate(points):
        specs = {one.spec for one in points if one.model == point.model}
        own = [(id, one) for id, one in point.project.measured.prediction.items() if point.is_of(one, specs)]
        saved = _with(cases[at], max(own)[1], "saved", point) if own else None
        if saved is not None and saved.verdict.why != predictions.NOT_SIMULATED:
            cases[at] = saved
            continue
        try:
            predict.refuse(point.project, point.target.kind)
        except RunError as error:
            cases[at] = dataclasses.replace(cases[at], refused=_said(error))
            continue
        if (cached := what_if_cache.get(point.key)) is not None:
            cases[at] = _with(cases[at], cached, "cached", point)


def _said(error: RunError) -> str:
    """The sentence without the line: a changed spec stands in no file."""
    return f"{error.message}; {error.hint}" if error.hint else error.message


def _with(case: Case, found: Prediction, origin: str, point: _Point) -> Case:
    """``case`` with a prediction, under what is known of the process's context now."""
    around, told = predict.around_of(point.target, point.project)
    low, high = around if around is not None else (None, None)
    found = dataclasses.replace(found, context_low_bytes=low, context_high_bytes=high, context_from=told)
    return dataclasses.replace(case, prediction=found, origin=origin, refused="")


async def _predict(context: Context, points: Sequence[_Point], cases: list[Case]) -> None:
    """Put in the predictions that are still to be made: a child for all that differ in their batch alone."""
    left = [at for at, case in enumerate(cases) if case.prediction is None and not case.refused]
    for at in left:
        trust.require(points[at].project, context.options.trust)
    while left:
        first = points[left[0]]
        group = [at for at in left if points[at].is_with(first)]
        left = [at for at in left if at not in group]
        for at, case in zip(group, await _one_child(context, [points[at] for at in group]), strict=True):
            cases[at] = dataclasses.replace(case, inventory=cases[at].inventory)


async def _one_child(context: Context, group: Sequence[_Point]) -> list[Case]:
    """The cases of points that one child traces; a point that it did not come to says why."""
    distinct = list[dict[str, Any]]()
    for one in group:
        if one.batch not in distinct:
            distinct.append(one.batch)
    try:
        outcome = await _measured(context, group, distinct)
    except RunError as error:
        return [dataclasses.replace(_case(one.project, one), refused=error.sentence()) for one in group]
    made: list[Case] = []
    for one in group:
        at, case = distinct.index(one.batch), _case(one.project, one)
        if at >= len(outcome.predicted):
            why = outcome.sentence or "the child told nothing of it"
            made.append(dataclasses.replace(case, refused=why))
            continue
        found = _prediction(one, outcome, at)
        what_if_cache.put(one.key, found)
        made.append(_with(case, found, "predicted", one))
    if outcome.word == "done":
        _forget(outcome.id)
    return made


async def _measured(context: Context, group: Sequence[_Point], distinct: list[dict[str, Any]]) -> Outcome:
    """What one child told of these batches, within the budgets of every point.

    Raises:
        RunError: it could not be started.
        asyncio.CancelledError: it was stopped.
    """
    first, id = group[0], new_id("w")
    budgets = {size for one in group for size in one.asked["capacity_bytes"] or ()}
    asked = {**first.asked, "points": distinct, "capacity_bytes": sorted(budgets) or None}
    plan = common.plan(
        context, first.project, "predict", id=id, **distinct[0], device="cpu", extra={"predict": asked}
    )
    outcome = await context.measure(plan, f"prediction for {first.target.text}")
    if outcome.word == "cancelled":
        _forget(id)
        raise asyncio.CancelledError
    return outcome


def _prediction(point: _Point, outcome: Outcome, at: int) -> Prediction:
    table = outcome.predicted[at]
    made = prediction_of(point.project, point.spec, point.target, table, outcome, None, "")
    unknown = {key: why for key, why in made.unknown.items() if key != "context_low_bytes"}
    unknown |= {"timeline": NO_TIMELINE, "largest": predict.NOT_ASKED}
    return dataclasses.replace(made, journal="", unknown=unknown)


def _forget(id: str) -> None:
    """Delete the files of a child whose figures are kept elsewhere."""
    with suppress(OSError):
        for file in runs_folder().glob(f"{id}.*"):
            file.unlink()
