"""What one rank holds of the parameters under a placement."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from .identity import Held

KEYS = ("rank_parameters", "rank_bytes", "rank_padding")


def shares(
    parameters: List[Held], placement: Dict[str, Any], unknown: Dict[str, str]
) -> Dict[str, Optional[int]]:
    """``ranks``, and elements and bytes of the fullest rank, and the padding of all ranks together.

    Args:
        parameters: of the model.
        placement: {"ranks", "strategy"}: "none" and "ddp" leave all of them on every rank; "fsdp2" divides the
            rows (dimension 0) of each one as ``torch.chunk`` does, so the first rank is the fullest, and the
            others are padded to it.
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
    if strategy in ("none", "ddp") or count == 1:
        return {
            "ranks": count,
            "rank_parameters": sum(one.elements for one in parameters),
            "rank_bytes": sum(one.bytes for one in parameters),
            "rank_padding": 0,
        }
    if strategy != "fsdp2":
        return {"ranks": count, **_none(KEYS, "%s is not known here" % strategy, unknown)}
    scalar = next((one for one in parameters if not one.shape), None)
    if scalar is not None:
        return {"ranks": count, **_none(KEYS, "fsdp2 takes no scalar, and %s is one" % scalar.name, unknown)}
    packed = next((one for one in parameters if one.packed), None)
    if packed is not None:
        return {
            "ranks": count,
            **_none(KEYS, "%s is packed, not rows that can be divided" % packed.name, unknown),
        }
    fullest = [rows(one.shape, count) for one in parameters]
    size = sum(fullest)
    return {
        "ranks": count,
        "rank_parameters": size,
        "rank_bytes": sum(held * one.payload[0].element_size() for held, one in zip(fullest, parameters)),
        "rank_padding": size * count - sum(one.elements for one in parameters),
    }


def rows(shape: Any, count: int) -> int:
    """Elements of the first and fullest of ``torch.chunk(tensor, count)``, rows of dimension 0.

    >>> rows((18,), 4), rows((3, 10), 4)
    (5, 10)
    """
    size = -(-shape[0] // count)
    for length in shape[1:]:
        size *= length
    return size


def _none(keys: Any, reason: str, unknown: Dict[str, str]) -> Dict[str, None]:
    unknown.update(dict.fromkeys(keys, reason))
    return dict.fromkeys(keys)
