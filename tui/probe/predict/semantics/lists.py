"""Scratch of norms of lists and of matrix products.

Sizes are bytes.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import torch

from ..inplace import dense
from .base import Scratch
from .reductions import _ceil
from .target import Gpu

_CHUNK = 65536  # elements of a list kernel's chunk, ForeachReduceOp.cu


def foreach_norm(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """Norms of the chunks of every tensor of a list, in the type in which they are added up."""
    tensors = [one for one in args[0] if one.numel()]
    order = args[1] if len(args) > 1 else kwargs.get("ord", 2)
    if not tensors or order not in (1, 2, float("inf")) or not _fast(tensors):
        return []
    item = 8 if tensors[0].dtype == torch.float64 else 4
    chunks = max(_ceil(one.numel(), _CHUNK) for one in tensors)
    found = [(len(tensors) * chunks * item, "norms of chunks")]
    if gpu.torch >= (2, 13):
        found += [(320 * item, "norm of all chunks"), (out[0].element_size(), "norm of all tensors")]
    return found


def _fast(tensors: Sequence[torch.Tensor]) -> bool:
    first = tensors[0]
    return all(
        one.layout == torch.strided
        and one.dtype == first.dtype
        and one.dtype.is_floating_point
        and dense(one)
        for one in tensors
    )


def copied_matrices(args: Sequence[Any]) -> List[Scratch]:
    """Copies of matrices whose rows and columns cuBLAS cannot step through, as of an expanded gradient.

    ``prepare_matrix_for_cublas`` and ``prepare_batch_matrix_for_cublas`` of ``aten/src/ATen/native/cuda/Blas.cpp``.
    """
    found: List[Scratch] = []
    for one in args:
        if isinstance(one, torch.Tensor) and one.dim() in (2, 3) and one.numel() and not _steps(one):
            found.append((one.numel() * one.element_size(), "contiguous matrix for cuBLAS"))
    return found


def _steps(matrix: torch.Tensor) -> bool:
    if matrix.is_contiguous():
        return True
    (rows, columns), (down, across) = matrix.shape[-2:], matrix.stride()[-2:]
    return (across == 1 and down >= max(1, columns)) or (down == 1 and across >= max(1, rows))
