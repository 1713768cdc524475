"""Softmax and its kin: a half-precision input that is not converted first, and what their kernels take beside.

``aten/src/ATen/native/SoftMax.cpp``, ``native/cuda/SoftMax.cu`` and ``ReduceOps.cpp``.  Sizes are bytes.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

from .base import Scratch
from .copies import copied
from .target import Gpu

_ATEN = torch.ops.aten
_COPY = "softmax: contiguous input"


def install(library: Any) -> None:
    """Register the operators with ``library``, one of ``torch.library`` for "aten"."""
    library.impl("softmax.int", _converting(_ATEN._softmax.default), "AutogradCPU")
    library.impl("log_softmax.int", _converting(_ATEN._log_softmax.default), "AutogradCPU")


def _converting(kernel: Any) -> Callable[..., torch.Tensor]:
    """CUDA's kernel reads fp16 and writes fp32 in one; a CPU, and CUDA for bf16, makes an fp32 copy first."""

    def softmax(input: torch.Tensor, dim: int, dtype: Optional[torch.dtype] = None) -> torch.Tensor:
        if input.dtype == torch.float16 and dtype == torch.float32:
            return kernel(input, dim, True)
        return kernel(input if dtype is None else input.to(dtype), dim, False)

    return softmax


def forward(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """``host_softmax``: a contiguous copy of an input that is none."""
    return copied(args[:1], _COPY)


def backward(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """``softmax_backward_cuda_out``: the product of gradient and result, as large as they are."""
    grad, result = args[:2]
    size = grad.numel() * max(grad.element_size(), result.element_size())
    return [(size, "softmax: product of gradient and result"), *copied([result], _COPY)]


def log_backward(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """``host_softmax_backward``: contiguous copies alone."""
    return copied(args[:2], _COPY)


def safe(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """``_safe_softmax``: the plain softmax and a mask of what is minus infinity, before the result is put together."""
    tensor, dim = args[0], args[1]
    dtype = args[2] if len(args) > 2 else kwargs.get("dtype")
    item = tensor.element_size() if dtype is None else dtype.itemsize
    size = tensor.numel()
    rows = size // max(tensor.shape[dim], 1) if tensor.dim() else 1
    found: List[Scratch] = []
    if item != tensor.element_size() and not (tensor.dtype == torch.float16 and item == 4):
        found.append((size * item, "safe softmax: converted input"))
    return [
        *found,
        (size * item, "safe softmax: plain softmax"),
        (size, "safe softmax: masked scores"),
        (rows, "safe softmax: masked rows"),
        (item, "safe softmax: zero"),
    ]


def logsumexp(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """``logsumexp_out_impl``: the highest values, and the exponentials of all, as large as the input."""
    tensor = args[0]
    if not tensor.numel():
        return []
    item = out.element_size()
    return [(out.numel() * item, "logsumexp: highest"), (tensor.numel() * item, "logsumexp: exponentials")]
