"""Whether a count can be relied on: two builds alike, and nothing that comes, goes or changes in a forward."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

import torch

from .faults import TaskError
from .identity import Holdings

Sizes = Dict[int, Tuple[str, int]]
"""{id of a parameter: (name, elements)}."""


def refuse_unlike(first: Holdings, second: Holdings) -> None:
    """Raise when two builds from the same seed hold different parameters.

    Raises:
        TaskError: both totals, and the first parameter that differs.
    """
    said = difference(first, second)
    if said is not None:
        raise TaskError(
            "workload",
            "two builds from the same seed have {:,} and {:,} parameters: {}".format(
                first.elements, second.elements, said
            ),
            hint="build() must make the same model each time: does it draw sizes at random, or keep a count?",
        )


def difference(first: Holdings, second: Holdings) -> Optional[str]:
    """The first difference in shape between two builds in words, None without one; names may differ."""
    for one, other in zip(first.parameters, second.parameters):
        if one.shape != other.shape:
            return "%s is %s, then %s is %s" % (one.name, list(one.shape), other.name, list(other.shape))
    longer = max(first.parameters, second.parameters, key=len)
    same = min(len(first.parameters), len(second.parameters))
    if len(longer) > same:
        return "%s is in one of them alone" % longer[same].name
    return None


def sizes(model: torch.nn.Module) -> Sizes:
    """What a model holds at this moment."""
    return {id(one): (name, one.numel()) for name, one in model.named_parameters()}


def refuse_changed(before: Sizes, model: torch.nn.Module) -> None:
    """Raise when a forward added, replaced, dropped or resized parameters.

    Raises:
        TaskError: how many, the first one's name, and what they come to.
    """
    after = sizes(model)
    new = [after[key] for key in after if key not in before]
    gone = [before[key] for key in before if key not in after]
    names = {name for name, _ in gone}
    replaced = [one for one in new if one[0] in names]
    total = sum(size for _, size in before.values())
    if replaced:
        _refuse(
            replaced,
            "replaced by new ones in the first forward",
            total,
            "change their values, not the objects",
        )
    if new:
        _refuse(new, "made in the first forward only", total, "make them in build()")
    if gone:
        _refuse(gone, "gone after the first forward", total, "leave them in the model")
    resized = [after[key] for key in after if after[key][1] != before[key][1]]
    if resized:
        _refuse(resized, "of another size after the first forward", total, "give them their size in build()")


def unregistered(loss: torch.Tensor, found: Holdings) -> List[torch.Tensor]:
    """``nn.Parameter`` objects that ``loss`` trains and the model does not hold, as layers in a plain list are not."""
    held = {id(one.tensor) for one in found.parameters}
    return [one for one in _leaves(loss) if isinstance(one, torch.nn.Parameter) and id(one) not in held]


def refuse_unregistered(others: List[torch.Tensor], found: Holdings) -> None:
    """Raise when there are ``others``: the count is of a part of what is trained.

    Raises:
        TaskError: how many, their elements, and the shape of the first.
    """
    if not others:
        return
    one = len(others) == 1
    raise TaskError(
        "workload",
        "{:,} parameter{} ({:,} elements, {} shape {}) work{} in the forward and {} not registered with the model, so "
        "the count of {:,} does not hold".format(
            len(others),
            "" if one else "s",
            sum(other.numel() for other in others),
            "of" if one else "the first of",
            list(others[0].shape),
            "s" if one else "",
            "is" if one else "are",
            found.elements,
        ),
        hint="hold layers in nn.ModuleList or nn.ModuleDict, and parameters in nn.ParameterList, not in a list or dict",
    )


def _leaves(loss: torch.Tensor) -> List[torch.Tensor]:
    """The tensors that a backward of ``loss`` would give a gradient."""
    seen = set()
    leaves = []
    stack = [loss.grad_fn]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, torch.Tensor):
            leaves.append(leaf)
        stack += [one for one, _ in node.next_functions]
    return leaves


def _refuse(which: List[Tuple[str, int]], what: str, total: int, hint: str) -> None:
    one = len(which) == 1
    raise TaskError(
        "workload",
        "{:,} parameter{} {} {}, {}{} ({:,} elements), so the count of {:,} does not hold".format(
            len(which),
            "" if one else "s",
            "is" if one else "are",
            what,
            "" if one else "such as ",
            which[0][0],
            sum(size for _, size in which),
            total,
        ),
        hint=hint,
    )
