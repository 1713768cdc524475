"""Losses that are one operator and yet make the loss of every element before they reduce it.

``aten/src/ATen/native/Loss.cpp`` and ``native/cuda/Loss.cu``.  Sizes are bytes.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from .base import Scratch
from .reductions import accumulating, scratch
from .target import Gpu

_NONE = 0  # of at::Reduction


def _elements(args: Sequence[Any]) -> Tuple[torch.Tensor, int]:
    """What an elementwise loss of the first two arguments looks like, and its bytes."""
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    loss = torch.empty(shape, dtype=torch.promote_types(args[0].dtype, args[1].dtype), device="meta")
    return loss, loss.numel() * loss.element_size()


def _reduction(args: Sequence[Any], kwargs: Dict[str, Any], place: int) -> int:
    return args[place] if len(args) > place else kwargs.get("reduction", 1)


def _reduced(loss: torch.Tensor, size: int, gpu: Gpu) -> List[Scratch]:
    found = scratch(loss, None, accumulating(loss.dtype), gpu.machine, "loss")
    return [(size, "loss of every element"), *found]


_REDUCTION_AT = {
    torch.ops.aten.mse_loss.default: 2,
    torch.ops.aten.smooth_l1_loss.default: 2,
    torch.ops.aten.binary_cross_entropy.default: 3,
}
"""Position of the argument ``reduction`` of losses that are made for every element and then resized."""


def result_bytes(func: Any, args: Sequence[Any], kwargs: Dict[str, Any]) -> Optional[int]:
    """The storage of a reduced loss, on any device; None: of the size that it seems.

    Some are made for every element and reduced in place, which leaves their storage as it is.
    """
    place = _REDUCTION_AT.get(func)
    if place is None or _reduction(args, kwargs, place) == _NONE:
        return None
    return _elements(args)[1]


def plain(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """``mse_loss`` and its like: input, target, reduction."""
    if _reduction(args, kwargs, 2) == _NONE:
        return []
    return _reduced(*_elements(args), gpu)


def weighted(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """``binary_cross_entropy``: input, target, weight, reduction."""
    if _reduction(args, kwargs, 3) == _NONE:
        return []
    return _reduced(*_elements(args), gpu)[1:]  # what is reduced is the result itself


def with_logits(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """``binary_cross_entropy_with_logits``: input, target, weight, weight of positives, reduction."""
    found = [(args[0].numel() * args[0].element_size(), "log of the sigmoid")]
    if _reduction(args, kwargs, 4) == _NONE:
        return found
    return found + _reduced(*_elements(args), gpu)
