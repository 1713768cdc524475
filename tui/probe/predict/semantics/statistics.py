"""Statistics of normalisation layers: what CUDA keeps in fp32, and what its kernels take beside.

``aten/src/ATen/native/cuda/layer_norm_kernel.cu``, ``group_norm_kernel.cu``, ``Normalization.cu`` and
``aten/src/ATen/native/cudnn/BatchNorm.cpp``.  Sizes are bytes.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Sequence, Set

import torch

from .autocast import operator
from .base import Scratch
from .copies import copied
from .reductions import Machine, _ceil, scratch
from .target import Gpu

_LOW = (torch.float16, torch.bfloat16)
_FLOAT = 4
_COPY = "contiguous input of a normalisation"

_KEPT_WIDE = """native_layer_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit.no_stats
_native_batch_norm_legit_functional _batch_norm_with_update _batch_norm_with_update_functional batch_norm_stats"""
"""Operators whose results beyond the first are means and deviations, fp32 for an input of half precision."""


def wide() -> Set[Any]:
    """Operators of which ``nbytes`` knows."""
    return {func for func in map(operator, _KEPT_WIDE.split()) if func is not None}


def nbytes(position: int, tensor: torch.Tensor) -> Any:
    """Bytes of a result of one of ``wide``; None where they are the fake's own."""
    if position in (1, 2) and tensor.dtype in _LOW:
        return tensor.numel() * _FLOAT
    return None


def copies(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """Contiguous copies of a forward's input that is not."""
    return copied(args[:1], _COPY)


def copies_backward(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """Contiguous copies of a backward's gradient and input that are not."""
    return copied(args[:2], _COPY)


def layer_norm_backward(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """Partial sums of the weight's and the bias's gradients; ``args`` end with which gradients are wanted."""
    return gamma_beta(args[1], args[2], sum(bool(one) for one in args[-1][1:]), gpu.machine)


def rms_norm_backward(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """Partial sums of the weight's gradient."""
    return gamma_beta(args[1], args[2], int(bool(args[-1][1])), gpu.machine)


def gamma_beta(tensor: torch.Tensor, shape: Sequence[int], weights: int, machine: Machine) -> List[Scratch]:
    """``LaunchGammaBetaBackwardCUDAKernel``: partial sums where there are very many short rows.

    Args:
        weights: of how many vectors there are gradients.
    """
    columns = math.prod(shape)
    rows = tensor.numel() // max(columns, 1)
    if not weights or rows <= 64 * 1024 or columns // 32 >= machine.sm_count // 2:
        return []
    blocks = min(64 * 1024 // 2 // _ceil(columns, 32), _ceil(rows, 32))
    partial = torch.empty((blocks, columns), dtype=tensor.dtype, device="meta")
    size = blocks * columns * tensor.element_size()
    found = [(size, "layer norm: partial gradients")] * weights
    found.append((columns * tensor.element_size(), "layer norm: sum of partial gradients"))
    return found + scratch(partial, [0], _FLOAT, machine, "partial gradients")


def group_norm(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """``GroupNormKernelImplInternal``: scale and shift of every channel of every sample."""
    tensor, weight, bias, samples, channels, positions = args[:6]
    if positions == 1 or (weight is None and bias is None):
        return []
    size = samples * channels * (8 if tensor.dtype == torch.float64 else _FLOAT)
    return [(size, "group norm: scales"), (size, "group norm: shifts")]


def group_norm_backward(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """``GroupNormBackwardKernelImplInternal``: sums by channel and by group."""
    _, tensor, _, _, weight, samples, channels, positions, groups = args[:9]
    if positions == 1:
        return []
    item = 8 if tensor.dtype == torch.float64 else _FLOAT
    by_channel, by_group = samples * channels * item, samples * groups * item
    found = [
        (by_channel, "group norm: sums of gradient and input"),
        (by_channel, "group norm: sums of gradient"),
    ]
    if args[-1][0]:
        if weight is not None:
            found.append((by_channel, "group norm: first coefficient"))
        found += [(by_group, "group norm: second coefficient"), (by_group, "group norm: third coefficient")]
    return found


def batch_norm_on_cudnn(args: Sequence[Any]) -> bool:
    """Whether ``_select_batch_norm_backend`` takes cuDNN; ``args`` are those of ``native_batch_norm``."""
    tensor, weight, bias, mean, variance, training, _, epsilon = args[:8]
    if not torch.backends.cudnn.enabled or weight is None or bias is None:
        return False
    if tensor.dtype == torch.bfloat16 or weight.dtype == torch.bfloat16:
        return False
    if tensor.dtype == torch.float16 and weight.dtype != torch.float32:
        return False
    statistics = (mean is None) == (variance is None) and (mean is not None or training)
    largest = 880801 if training else 65535
    return statistics and tensor.dim() >= 3 and tensor.shape[0] <= largest and epsilon >= 1e-5


def channels_last(tensor: torch.Tensor) -> bool:
    """Whether a tensor of images or volumes has its channels last in memory."""
    if tensor.dim() == 4:
        return tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()
    if tensor.dim() == 5:
        return tensor.is_contiguous(memory_format=torch.channels_last_3d) and not tensor.is_contiguous()
    return False
