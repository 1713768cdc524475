"""One real backward of one sample, to see which parameters receive a gradient and how often each module is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from . import confined, steady
from .faults import TaskError, is_out_of_memory, one_line, place
from .identity import Holdings
from .setting import Setting

if TYPE_CHECKING:
    from .workload import Workload

MOST_BYTES = 512 * 2**20
"""Parameters of a model that is built for this."""
MOST_GROWTH = 4 * 2**30
MOST_S = 60.0


class Backward:
    """What one forward and backward showed."""

    def __init__(self) -> None:
        self.calls: Optional[Dict[str, int]] = None
        """{first path of a module: how often the forward called it}."""
        self.received: Optional[Dict[str, bool]] = None
        """{first name of a parameter: whether it has a gradient}."""
        self.unregistered: List[torch.Tensor] = []
        """Parameters that the loss trains and the model does not hold."""
        self.why = ""
        """Why there is none, or why there is only half of it."""


def too_much(found: Holdings) -> str:
    """Why a model is not run here, "" when it is."""
    if any(one.divided_by for one in found.parameters):
        return "only a part of the model is here"
    if any(one.packed for one in found.parameters):
        return "packed weights are not run while counting; verify runs one"
    size = sum(max(one.bytes, 4 * one.elements) for one in found.parameters)
    if size > MOST_BYTES:
        return (
            "{:,} B of parameters in fp32 are too many for a backward while counting; verify runs one".format(
                size
            )
        )
    free = confined.available_bytes()
    if free is not None and free // 2 < 3 * size:
        return (
            "a backward needs more than half of the {:,} B of memory that are free; verify runs one".format(
                free
            )
        )
    return ""


def run(
    model: torch.nn.Module,
    found: Holdings,
    source: Workload,
    length: Optional[int],
    seed: int,
    roots: Sequence[str] = (),
) -> Backward:
    """One micro-batch of one sample forward and backward, in fp32.

    Args:
        model: built for real, on the CPU; it is left with its gradients.
        found: what it holds.
        source: gives the batch and the loss.
        length: of the sample, None where samples have a fixed shape.
        seed: of the batch.
        roots: folders of the user's files, one of which an error is said to be in.

    Returns:
        What was seen; what was not has its reason. A fault of the workload's own is a reason, never an error.

    Raises:
        TaskError: parameters that come, go or change in the forward, or that work in it and are not the model's, so
            that the count does not hold.
    """
    seen = Backward()
    if source.has("step"):
        seen.why = "the workload has a step(run) of its own; verify runs it"
        return seen
    free = confined.available_bytes()
    growth = MOST_GROWTH if free is None else min(MOST_GROWTH, free // 2)
    before = steady.sizes(model)
    try:
        with confined.held_to(growth), confined.within(MOST_S):
            _forward_and_backward(model, found, source, length, seed, seen)
    except confined.TookTooLong:
        seen.why = "one sample took longer than %d s; verify runs one" % MOST_S
    except TaskError as error:
        seen.why = "; ".join(filter(None, (error.sentence, error.hint)))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        seen.why = _said(error, growth, roots)
    steady.refuse_changed(before, model)
    steady.refuse_unregistered(seen.unregistered, found)
    return seen


def _said(error: BaseException, growth: int, roots: Sequence[str]) -> str:
    if is_out_of_memory(error):
        return "one sample needs more than the {:,} B that it may have while counting".format(growth)
    where = place(error, list(roots))
    said = "%s: %s" % (type(error).__name__, one_line(error))
    return "one sample could not be run: %s%s" % (where + ": " if where else "", said)


def _forward_and_backward(
    model: torch.nn.Module,
    found: Holdings,
    source: Workload,
    length: Optional[int],
    seed: int,
    seen: Backward,
) -> None:
    setting = Setting("fp32", "cpu")
    model = setting.prepare(model)
    model.train()
    torch.manual_seed(seed + 1)
    with torch.enable_grad():
        loss = _called(model, found, lambda: _loss(model, source, setting, length, seed), seen)
        seen.unregistered = steady.unregistered(loss, found)
        loss.backward()
    seen.received = {one.name: one.tensor.grad is not None for one in found.parameters}


def _loss(
    model: torch.nn.Module, source: Workload, setting: Setting, length: Optional[int], seed: int
) -> torch.Tensor:
    try:
        return source.loss(model, setting.batch(source.batch(1, 0, "train", length, seed)))
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
    # A batch norm cannot normalise a single value: two samples have two.
    return source.loss(model, setting.batch(source.batch(2, 0, "train", length, seed)))


def _called(model: torch.nn.Module, found: Holdings, forward: Callable[[], Any], seen: Backward) -> Any:
    """``forward()``, with the calls of each module counted by hooks while it runs.

    They hold too where the model came to its end, and what was made of its output is no loss.
    """
    counts: Dict[int, int] = {}
    ended = set()  # of numbers: a compiler that traces the hooks takes no modules in them

    def count(module: torch.nn.Module, _: Any) -> None:
        counts[id(module)] = counts.get(id(module), 0) + 1

    def end(module: torch.nn.Module, *_: Any) -> None:
        ended.add(id(module))

    handles = register_module_forward_pre_hook(count), register_module_forward_hook(end)
    try:
        made = forward()
        ended.add(id(model))
        return made
    finally:
        for handle in handles:
            handle.remove()
        if id(model) in ended:
            seen.calls = {path: counts.get(id(module), 0) for path, module in found.modules}


def table(seen: Backward, found: Holdings, unknown: Dict[str, str]) -> Dict[str, Any]:
    """``gradient_receiving`` of the inventory, with its reason in ``unknown`` when there is none."""
    if seen.received is None:
        unknown["gradient_receiving"] = seen.why or "no backward was run"
        return {"gradient_receiving": None}
    got = [one for one in found.parameters if seen.received.get(one.name)]
    return {"gradient_receiving": sum(one.elements for one in got)}
