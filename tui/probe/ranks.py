"""What one rank holds of the parameters under a placement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional

from . import named
from .faults import TaskError
from .identity import Held

if TYPE_CHECKING:
    import torch

KEYS = ("rank_parameters", "rank_bytes", "rank_padding")
GATHERED = ("rank_gathered_bytes", "rank_group_bytes")
AT_ONCE = 2
"""Neighbouring groups that are whole at one time: the one that works and the one that is fetched ahead."""


def shares(
    parameters: List[Held], placement: Dict[str, Any], unknown: Dict[str, str]
) -> Dict[str, Optional[int]]:
    """``ranks``, and elements and bytes of the fullest rank, and the padding of all ranks together.

    Args:
        parameters: of the model.
        placement: {"ranks", "strategy"}: "none", "ddp", "zero1" and "zero2" leave all of them on every rank;
            "fsdp2" divides the rows (dimension 0) of each one as ``torch.chunk`` does, so the first rank is the
            fullest, and the others are padded to it; "zero3" divides the elements of each one.
        unknown: gets the reasons.
    """
    count, strategy = int(placement.get("ranks") or 1), str(placement.get("strategy") or "none")
    if any(one.divided_by for one in parameters):
        by = next(one.divided_by for one in parameters if one.divided_by)
        return {
            "ranks": count,
            **_none(("rank_padding",), "the parts are those of %s" % by, unknown),
            "rank_parameters": sum(one.stored for one in parameters),
            "rank_bytes": sum(one.bytes for one in parameters),
        }
    if strategy in ("none", "ddp", "zero1", "zero2") or count == 1:
        return {
            "ranks": count,
            "rank_parameters": sum(one.elements for one in parameters),
            "rank_bytes": sum(one.bytes for one in parameters),
            "rank_padding": 0,
        }
    if strategy not in ("fsdp2", "zero3"):
        return {"ranks": count, **_none(KEYS, "%s is not known here" % strategy, unknown)}
    scalar = next((one for one in parameters if not one.shape), None)
    if scalar is not None and strategy == "fsdp2":
        return {"ranks": count, **_none(KEYS, "fsdp2 takes no scalar, and %s is one" % scalar.name, unknown)}
    packed = next((one for one in parameters if one.packed), None)
    if packed is not None:
        return {
            "ranks": count,
            **_none(KEYS, "%s is packed, not rows that can be divided" % packed.name, unknown),
        }
    fullest = [
        rows(one.shape, count) if strategy == "fsdp2" else -(-one.elements // count) for one in parameters
    ]
    size = sum(fullest)
    return {
        "ranks": count,
        "rank_parameters": size,
        "rank_bytes": sum(held * one.payload[0].element_size() for held, one in zip(fullest, parameters)),
        "rank_padding": size * count - sum(one.elements for one in parameters),
    }


def gathered(
    model: torch.nn.Module, placement: Dict[str, Any], unknown: Dict[str, str]
) -> Dict[str, Optional[int]]:
    """Bytes of whole weights, padding included, that are there at once and of the largest group.

    Args:
        model: before it is divided.
        placement: {"ranks", "strategy", "shard_each", "reshard_after_forward"}; only "fsdp2" and "zero3" gather.
        unknown: gets the reasons.
    """
    count, strategy = int(placement.get("ranks") or 1), str(placement.get("strategy") or "none")
    if strategy not in ("fsdp2", "zero3") or count == 1:
        return dict.fromkeys(GATHERED, 0)
    try:
        inner = named.of_classes(model, placement.get("shard_each") or (), "placement.shard_each")
    except TaskError as error:
        return _none(GATHERED, error.sentence, unknown)
    among = {id(one) for one in inner}
    chosen = [one for one in model.modules() if id(one) in among and one is not model]
    seen = set()
    sizes = {id(one): 0 for one in chosen}
    for module in reversed(chosen):  # inner ones first: what they hold is theirs
        for one in module.parameters():
            if id(one) not in seen:
                seen.add(id(one))
                sizes[id(module)] += _padded(one, count)
    root = sum(_padded(one, count) for one in model.parameters() if id(one) not in seen)
    groups = [sizes[id(one)] for one in chosen]
    largest = max([*groups, root])
    if placement.get("reshard_after_forward") is False:
        return {"rank_gathered_bytes": root + sum(groups), "rank_group_bytes": largest}
    starts = range(max(1, len(groups) - AT_ONCE + 1))
    together = max(sum(groups[start : start + AT_ONCE]) for start in starts)
    return {"rank_gathered_bytes": root + together, "rank_group_bytes": largest}


def _padded(parameter: Any, count: int) -> int:
    shape = tuple(parameter.shape) or (1,)
    return rows(shape, count) * count * parameter.element_size()


def rows(shape: Any, count: int) -> int:
    """Elements of the first and fullest of ``torch.chunk(tensor, count)``, rows of dimension 0.

    >>> rows((18,), 4), rows((3, 10), 4)
    (5, 10)
    """
    size = -(-shape[0] // count)
    for length in shape[1:]:
        size *= length
    return size


def _none(keys: Any, reason: str, unknown: Dict[str, str]) -> Dict[str, Optional[int]]:
    unknown.update(dict.fromkeys(keys, reason))
    return dict.fromkeys(keys)
