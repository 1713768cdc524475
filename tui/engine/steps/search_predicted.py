"""Where a search on a GPU begins: the largest micro-batch by prediction, a saved one or one made in seconds.

It guides the search and decides nothing.  Where nothing can be predicted, the search goes on without.
"""

from __future__ import annotations

from tui.budget import gpus
from tui.budget import prediction as predictions
from tui.engine.context import Context, StepResult
from tui.engine.steps import predict
from tui.engine.steps.predict_target import Target, of_device
from tui.errors import ProjectError, RunError, UsageError
from tui.project.load import Project
from tui.project.prediction import Prediction


async def predicted_largest(
    context: Context, project: Project, spec: str, accumulate: int, length: int | None
) -> tuple[int | None, str]:
    """(the largest micro-batch by prediction, a sentence for people); (None, "") where none is wanted.

    On a CPU there is none: what a process takes beside tensors is not predicted there.

    Raises:
        SaveError: the prediction could not be saved.
    """
    if context.device is None or context.device.kind != "cuda":
        return None, ""
    target = Target("cuda", of_device(context.device), "the run's device")
    around, _ = predictions.context_of(target.gpu, project.measured, project.spec.placement.ranks)
    limit, why = predictions.reserved_limit(project.spec, target.total_bytes, around)
    if limit is None:
        return None, f"no prediction to begin with: {why}"
    saved = _saved(project, spec, target, accumulate, length, limit)
    if saved is not None:
        return saved[1].largest, f"prediction {saved[0]} says {saved[1].largest}"
    try:
        made = await predict.predict(context, project, spec, target, lengths=[length], largest=True)
    except (RunError, ProjectError, UsageError) as error:
        return None, f"no prediction to begin with: {error.sentence()}"
    if isinstance(made, StepResult):
        return None, f"no prediction to begin with: {made.text}"
    id, found = next(iter(made.items()))
    if found.largest is None:
        return None, f"no prediction to begin with: {found.unknown.get('largest', 'it found no largest')}"
    return found.largest, f"prediction {id} says {found.largest}, made in {found.seconds} s"


def _saved(
    project: Project, spec: str, target: Target, accumulate: int, length: int | None, limit: int
) -> tuple[str, Prediction] | None:
    """The latest prediction of the same batch and GPU that was asked for the largest within the same limit."""
    wanted = (project.spec.precision.use, accumulate, length, "cuda", limit, "")
    own = [
        (id, one)
        for id, one in project.measured.prediction.items()
        if one.largest is not None
        and predictions.is_same_spec(one.spec, spec)
        and gpus.same(one.target, target.name)
        and wanted
        == (one.precision, one.accumulate, one.length, one.semantics, one.largest_limit_bytes, one.allocator)
    ]
    return max(own, default=None, key=lambda item: item[0])
