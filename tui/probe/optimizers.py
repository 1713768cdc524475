"""Building the optimizer that the spec names."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Tuple

import torch

from .faults import TaskError

if TYPE_CHECKING:
    from .workload import Workload


def build(spec: Dict[str, Any], workload: Workload, model: torch.nn.Module) -> Tuple[Any, Any]:
    """(optimizer, scheduler or None) for the parameters that need gradients.

    ``spec`` is Plan.optimizer.  The workload's own ``optimizer(model)`` wins over it.

    Raises:
        TaskError: no such class, arguments that it refuses, an implementation that it does not have.
    """
    if workload.has("optimizer"):
        made = workload.call("optimizer", model=model)
        optimizer, scheduler = made if isinstance(made, (tuple, list)) else (made, None)
        if not hasattr(optimizer, "step"):
            raise TaskError(
                "workload",
                "optimizer(model) gave %s, which has no step()" % type(optimizer).__name__,
                where=workload._line("optimizer"),
            )
        return optimizer, scheduler
    cls = find(spec["name"])
    args = dict(spec.get("args") or {})
    args = {key: tuple(value) if isinstance(value, list) else value for key, value in args.items()}
    args.update(_implementation(spec.get("implementation", "default")))
    trained = [one for one in model.parameters() if one.requires_grad]
    if not trained:
        raise TaskError("workload", "no parameter needs a gradient, so there is nothing to train")
    if _needs_closure(cls):
        raise TaskError(
            "unsupported",
            "%s.step() needs a closure that computes the loss again" % spec["name"],
            hint="write step(run) in a FILE.py that gives it one, or take another optimizer",
        )
    try:
        return cls(trained, **args), None
    except (TypeError, ValueError, RuntimeError) as error:
        raise TaskError(
            "workload", "workload.optimizer: %s refuses its arguments: %s" % (spec["name"], error)
        ) from error


def _needs_closure(cls: Callable[..., Any]) -> bool:
    step = getattr(cls, "step", None)
    found = inspect.signature(step).parameters.get("closure") if callable(step) else None
    return found is not None and found.default is found.empty


def find(name: str) -> Callable[..., Any]:
    """The class named ``package.module.Class`` or ``module:Class``."""
    module_name, _, cls_name = name.partition(":") if ":" in name else name.rpartition(".")
    try:
        cls = getattr(importlib.import_module(module_name), cls_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise TaskError(
            "workload",
            "workload.optimizer.name = %r cannot be found: %s" % (name, error),
            hint="such as torch.optim.AdamW, or module:Class",
        ) from error
    return cls


def _implementation(kind: str) -> Dict[str, bool]:
    return {
        "default": {},
        "foreach": {"foreach": True},
        "fused": {"fused": True},
        "loop": {"foreach": False},
    }[kind]


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
