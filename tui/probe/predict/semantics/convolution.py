"""Convolutions on cuDNN: copies into one memory format, the bias's gradient, and a range for the workspace.

``aten/src/ATen/native/Convolution.cpp`` and ``ConvUtils.h``.  Which plan cuDNN takes, and with it the workspace, is
decided on the GPU; torch accepts any that fits into the largest free block.  Sizes are bytes.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Sequence

import torch

from .base import Assumptions, Scratch
from .copies import copied
from .reductions import accumulating, scratch
from .target import Gpu

RANGE = "cuDNN convolution workspace"
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def layout(tensor: torch.Tensor, weight: torch.Tensor) -> torch.memory_format:
    """The format of a convolution's operands: channels last where one of the two has it."""
    last = _LAST.get(weight.dim())
    if last is not None and tensor.dtype != torch.float64:
        for one in (tensor, weight):
            if one.is_contiguous(memory_format=last) and not one.is_contiguous():
                return last
    return torch.contiguous_format


def copies(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """Copies of a forward's operands that are in another format than the convolution."""
    return _copies(args[:2], args[0], args[1])


def copies_backward(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """Copies of a backward's operands that are in another format than the convolution."""
    return _copies(args[:3], args[1], args[2])


def _copies(operands: Sequence[torch.Tensor], tensor: torch.Tensor, weight: torch.Tensor) -> List[Scratch]:
    if any(one.dim() < 4 for one in operands):
        return []
    return copied(operands, "convolution: operand in its memory format", layout(tensor, weight))


def bias_gradient(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """``convolution_backward`` adds up the gradient over everything but channels."""
    grad, mask = args[0], args[-1]
    if not mask[2] or not grad.numel():
        return []
    dims = [dim for dim in range(grad.dim()) if dim != 1]
    return scratch(grad, dims, accumulating(grad.dtype), gpu.machine, "bias gradient")


def declare(args: Sequence[Any], out: torch.Tensor, assumptions: Assumptions) -> None:
    """Widen the declared range by what this convolution may take.

    The highest is its unfolded input, which the largest of cuDNN's direct and matrix algorithms makes.
    """
    tensor, weight, transposed = args[0], args[1], args[6]
    if transposed:
        tensor, out = out, tensor
    kernel = math.prod(weight.shape[2:])
    if kernel == 1:
        return
    unfolded = out.shape[0] * math.prod(out.shape[2:]) * tensor.shape[1] * kernel * tensor.element_size()
    known = assumptions.ranges.setdefault(RANGE, [0, 0])
    known[1] = max(known[1], unfolded)
    assumptions.not_covered(
        "cuDNN convolution workspaces: 0 to the unfolded input of the largest convolution, by the plan that cuDNN takes"
    )
