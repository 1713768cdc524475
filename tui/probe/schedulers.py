"""Building the learning-rate scheduler that the spec names, and stepping it.

``args`` are its constructor's; the optimizer is given by peakmark.  A scheduler that is made of others
(``SequentialLR``, ``ChainedScheduler``) has them as ``schedulers``, a list of {name, args}.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import torch

from . import construct
from .faults import TaskError, one_line

KEY = "workload.scheduler"
LR = torch.optim.lr_scheduler
BASE = getattr(LR, "LRScheduler", None) or LR._LRScheduler


def build(spec: Dict[str, Any], optimizer: Any, folder: str = "", key: str = KEY) -> Any:
    """The scheduler of ``spec``, {"name", "args", "steps"}, for ``optimizer``.

    Raises:
        TaskError: no such class, arguments that it refuses, or one that a project file cannot describe.
    """
    name = spec["name"]
    cls = construct.find(name, key, folder, (BASE, LR.ReduceLROnPlateau))
    args = dict(spec.get("args") or {})
    refuse_metric(cls, name)
    parts = args.get("schedulers")
    if isinstance(parts, list):
        args["schedulers"] = _parts(parts, optimizer, folder, key)
    _refuse_function(cls, name, args)
    given = _optimizer_argument(cls, optimizer)
    construct.check_arguments(cls, name, key, args, given)
    try:
        made = cls(**{**given, **args}) if given else cls(optimizer, **args)
    except (
        ArithmeticError,
        TypeError,
        ValueError,
        RuntimeError,
        AssertionError,
        AttributeError,
        NotImplementedError,
    ) as error:
        raise construct.refused(name, key, error) from error
    if not callable(getattr(made, "step", None)):
        raise TaskError("workload", "%s: %s gave %s, which has no step()" % (key, name, type(made).__name__))
    return made


def _parts(parts: List[Any], optimizer: Any, folder: str, key: str) -> List[Any]:
    made = []
    for place, part in enumerate(parts):
        inner = "%s.args.schedulers[%d]" % (key, place)
        if not isinstance(part, dict) or not isinstance(part.get("name"), str):
            raise TaskError(
                "workload",
                "%s is not a scheduler" % inner,
                hint='write { name = "torch.optim.lr_scheduler.LinearLR", args = { ... } }',
            )
        made.append(build(part, optimizer, folder, inner))
    return made


def refuse_metric(cls: Callable[..., Any], name: str) -> None:
    """Raise for a scheduler whose step needs what an iteration does not have.

    Raises:
        TaskError: it is torch's ReduceLROnPlateau; ``name`` begins the sentence.
    """
    if isinstance(cls, type) and issubclass(cls, LR.ReduceLROnPlateau):
        raise TaskError(
            "unsupported",
            "%s is stepped with a validation metric after each epoch, not after optimizer steps, and an "
            "iteration has no such metric" % name,
            hint="leave the scheduler out: memory and time are the same with a constant rate",
        )


def _refuse_function(cls: Callable[..., Any], name: str, args: Dict[str, Any]) -> None:
    known = construct.parameters_of(cls) or {}
    for one in ("lr_lambda", "scale_fn"):
        if one in known and (one in args or known[one].default is known[one].empty):
            raise TaskError(
                "workload",
                "%s needs a function as %s, which a project file cannot hold" % (name, one),
                hint="return (optimizer, scheduler) from optimizer(model) in a FILE.py",
            )


def _optimizer_argument(cls: Callable[..., Any], optimizer: Any) -> Dict[str, Any]:
    """The optimizer by the name that the constructor gives it; {} where it is to be the first argument."""
    known = construct.parameters_of(cls)
    if known is None or not known:
        return {}
    return {"optimizer" if "optimizer" in known else next(iter(known)): optimizer}


def follow(scheduler: Any, times: int) -> None:
    """Step ``scheduler`` ``times`` times after an optimizer step.

    Raises:
        TaskError: it has come to its end, or divides by an argument of 0.
    """
    try:
        for _ in range(times):
            scheduler.step()
    except ValueError as error:
        if "total steps" in one_line(error):
            raise TaskError(
                "workload",
                "%s has come to its end: %s" % (type(scheduler).__name__, one_line(error)),
                hint="raise its total_steps to the steps of the whole training",
            ) from error
        raise
    except ArithmeticError as error:
        raise TaskError(
            "workload",
            "%s cannot be stepped: %s: %s"
            % (type(scheduler).__name__, type(error).__name__, one_line(error)),
            hint="correct %s.args" % KEY,
        ) from error
