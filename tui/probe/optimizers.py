"""Building the optimizer that the spec names, and what it cannot do in one sentence."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import torch

from . import construct, duplicates, schedulers
from .faults import TaskError, is_out_of_memory, one_line

if TYPE_CHECKING:
    from .workload import Workload

KEY = "workload.optimizer"

FLAGS: Dict[str, Dict[str, bool]] = {
    "default": {},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "loop": {"foreach": False},
}
"""What torch's constructors are given for each implementation; without any, torch chooses by the device."""


def build(
    spec: Dict[str, Any],
    workload: Workload,
    model: torch.nn.Module,
    scheduler: Optional[Dict[str, Any]] = None,
    folder: str = "",
) -> Tuple[Any, Any]:
    """(optimizer, scheduler or None) for the parameters that need gradients.

    Args:
        spec: Plan.optimizer.  The workload's own ``optimizer(model)`` wins over it.
        workload: see ``workload.load``.
        model: as it will be trained.
        scheduler: Plan.extra["scheduler"]; it also follows an optimizer that ``optimizer(model)`` made.
        folder: the project's, whose modules may be named.

    Raises:
        TaskError: no such class, arguments that it refuses, an implementation that it does not have, or a
            scheduler from both sides.
    """
    optimizer, own = (
        _own(workload, model) if workload.has("optimizer") else (_named(spec, model, folder), None)
    )
    if own is not None:
        schedulers.refuse_metric(type(own), "optimizer(model) gives %s, which" % type(own).__name__)
    if scheduler is None:
        return optimizer, own
    if own is not None:
        raise TaskError(
            "workload",
            "optimizer(model) gives a scheduler (%s), and workload.scheduler names another (%s)"
            % (type(own).__name__, scheduler["name"]),
            where=workload._line("optimizer"),
            hint="keep one: delete [workload.scheduler], or return the optimizer alone",
        )
    return optimizer, schedulers.build(scheduler, optimizer, folder)


def _own(workload: Workload, model: torch.nn.Module) -> Tuple[Any, Any]:
    try:
        made = workload.call("optimizer", model=model)
    except ValueError as error:
        told = duplicates.refused(error, model, workload._line("optimizer"))
        if told is None:
            raise
        raise told from error
    optimizer, scheduler = made if isinstance(made, (tuple, list)) else (made, None)
    if not hasattr(optimizer, "step"):
        raise TaskError(
            "workload",
            "optimizer(model) gave %s, which has no step()" % type(optimizer).__name__,
            where=workload._line("optimizer"),
        )
    for one in all_of(optimizer):
        duplicates.refuse(one, model, "the optimizer", workload._line("optimizer"))
    return optimizer, scheduler


def _named(spec: Dict[str, Any], model: torch.nn.Module, folder: str) -> Any:
    name = spec["name"]
    cls = construct.find(name, KEY, folder, (torch.optim.Optimizer,))
    if _needs_closure(cls):
        raise TaskError(
            "unsupported",
            "%s.step() needs a closure that computes the loss again" % name,
            hint="write step(run) in a FILE.py that gives it one, or take another optimizer",
        )
    named = [(one, parameter) for one, parameter in model.named_parameters() if parameter.requires_grad]
    if not named:
        raise TaskError("workload", "no parameter needs a gradient, so there is nothing to train")
    flags = _flags(cls, name, spec.get("implementation") or "default")
    args = {key: tuples(value) for key, value in (spec.get("args") or {}).items()}
    known = construct.parameters_of(cls)
    first = next(iter(known), "") if known else ""
    construct.check_arguments(cls, name, KEY, args, {first: None})
    if cls is getattr(torch.optim, "Muon", None):
        _refuse_other_than_matrices(name, named)
    try:
        made = cls([parameter for _, parameter in named], **{**args, **flags})
    except (TypeError, ValueError, RuntimeError, AssertionError) as error:
        raise construct.refused(name, KEY, error) from error
    for method in ("step", "zero_grad"):
        if not callable(getattr(made, method, None)):
            raise TaskError(
                "workload", "%s: %s gave %s, which has no %s()" % (KEY, name, type(made).__name__, method)
            )
    return made


def implementations(cls: Callable[..., Any]) -> List[str]:
    """Those of FLAGS that a class can be given; all of them where it does not say what it takes."""
    known = construct.parameters_of(cls)
    if known is None:
        return list(FLAGS)
    return [kind for kind, flags in FLAGS.items() if all(flag in known for flag in flags)]


def _flags(cls: Callable[..., Any], name: str, kind: str) -> Dict[str, bool]:
    have = implementations(cls)
    if kind not in have:
        raise TaskError(
            "workload",
            "%s has no %s implementation" % (name, kind),
            hint="%s.implementation can be %s"
            % (KEY, " or ".join(filter(None, (", ".join(have[:-1]), have[-1])))),
        )
    return FLAGS[kind]


def _refuse_other_than_matrices(name: str, named: List[Tuple[str, torch.nn.Parameter]]) -> None:
    for one, parameter in named:
        if parameter.dim() != 2:
            raise TaskError(
                "workload",
                "%s takes matrices only, and %s has the shape %s" % (name, one, tuple(parameter.shape)),
                hint="write optimizer(model) in a FILE.py that gives the other parameters to another one",
            )


def _needs_closure(cls: Callable[..., Any]) -> bool:
    step = getattr(cls, "step", None)
    found = inspect.signature(step).parameters.get("closure") if callable(step) else None
    return found is not None and found.default is found.empty


def tuples(value: Any) -> Any:
    """``value`` with every list as a tuple, which is what constructors of optimizers take."""
    return tuple(tuples(one) for one in value) if isinstance(value, list) else value


def step_refused(name: str, error: BaseException) -> Optional[TaskError]:
    """The sentence for what ``step()`` of a named optimizer raised; None where that is not its refusal."""
    text = one_line(error)
    if is_out_of_memory(error) or "CUDA" in text or "cuda" in text:
        return None
    hint = ""
    if "dense gradient" in text:
        hint = "make the gradients sparse (nn.Embedding(sparse=True) alone), or take another optimizer"
    elif "sparse gradient" in text:
        hint = "take torch.optim.SparseAdam, SGD or Adagrad, or nn.Embedding(sparse=False)"
    return TaskError("workload", "%s: %s cannot take a step: %s" % (KEY, name, text), hint=hint)


def all_of(optimizer: Any) -> List[Any]:
    """``optimizer`` and every torch optimizer that is an attribute of it, as of one that wraps or bundles others."""
    found, waiting = [], [optimizer]
    while waiting:
        one = waiting.pop(0)
        found.append(one)
        for value in getattr(one, "__dict__", {}).values():
            held = list(value) if isinstance(value, (list, tuple)) else [value]
            waiting += [
                other
                for other in held
                if isinstance(other, torch.optim.Optimizer)
                and all(other is not seen for seen in found + waiting)
            ]
    return found


def state_tensors(optimizer: Any) -> List[Tuple[int, str, torch.Tensor]]:
    """Every tensor in the optimizer's state, as (parameter index, key, tensor)."""
    found = []
    for place, state in enumerate(getattr(optimizer, "state", {}).values()):
        if isinstance(state, dict):
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    found.append((place, key, value))
                elif isinstance(value, (list, tuple)):
                    found += [(place, key, one) for one in value if isinstance(one, torch.Tensor)]
    return found
