"""Losses that are one operator and yet make the loss of every element before they reduce it.

``aten/src/ATen/native/Loss.cpp`` and ``native/cuda/Loss.cu``.  Sizes are bytes.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

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


def result_bytes(args: Sequence[Any], kwargs: Dict[str, Any]) -> int:
    """The storage of ``mse_loss`` and ``smooth_l1_loss``, on any device, even where the result is one value.

    Their result is made for every element and only then resized, which leaves its storage as it is.
    """
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
    return _reduced(*_elements(args), gpu)


def with_logits(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """``binary_cross_entropy_with_logits``: input, target, weight, weight of positives, reduction."""
    found = [(args[0].numel() * args[0].element_size(), "log of the sigmoid")]
    if _reduction(args, kwargs, 4) == _NONE:
        return found
    return found + _reduced(*_elements(args), gpu)
