"""Scratch of what CUDA sorts: index_put with accumulation, the backward of embeddings, sort and topk.

``aten/src/ATen/native/cuda/Indexing.cu``, ``Embedding.cu``, ``EmbeddingBackwardKernel.cu`` and ``Sort.cpp``; the
temporary storage is that of CUB's ``DeviceRadixSort``.  Sizes are bytes.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import torch

from .base import Scratch
from .copies import copied
from .reductions import _ceil
from .target import Gpu

_DIGITS = 256  # of 8 bits
_BLOCK = 256  # CUB aligns each part of its storage
_ROWS = 10  # of a partial sum of an embedding's gradient
_SMALL_EMBEDDING = 3072  # indices; fewer are added without sorting


def radix_sort(count: int, key: int, value: int, bits: int) -> int:
    """Temporary storage of sorting ``count`` pairs, ``key`` and ``value`` bytes each, by ``bits`` bits.

    A single block sorts few of them in its own shared memory; torch asks for 1 byte then.
    """
    widest = max(key, value, 4)
    if count <= 256 * max(1, 19 * 4 // widest):
        return 1
    passes = _ceil(bits, 8)
    blocks = _ceil(count, 384 * max(1, 21 * 4 // widest))
    parts = [passes * _DIGITS * 4, blocks * _DIGITS * 4, passes * 4]
    if passes > 1:
        parts += [count * key, count * value]
    return sum(_ceil(part, _BLOCK) * _BLOCK for part in parts) + _BLOCK - 1


def bits_of(highest: int) -> int:
    """Bits of the largest key, at least one (``get_num_bits``)."""
    return max(1, int(highest).bit_length())


def index_put(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """The indices as offsets, sorted and in their order, where values are added up."""
    accumulate = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    if not accumulate:
        return []
    target, indices, values = args[:3]
    given = [one for one in indices if one is not None]
    if not given or any(one.dtype in (torch.bool, torch.uint8) for one in given):
        return []
    places = torch.broadcast_shapes(*(one.shape for one in given))
    count = 1
    for size in places:
        count *= size
    if not count:
        return []
    whole = 1
    for dim, size in enumerate(target.shape):
        if dim < len(indices) and indices[dim] is not None:
            whole *= size
    found = [(8 * count, "index_put: offsets")]
    found += copied([values], "index_put: contiguous values")
    found += [(8 * count, "index_put: %s" % what) for what in ("sorted", "order", "range")]
    found.append((radix_sort(count, 8, 8, bits_of(whole - 1)), "index_put: sort"))
    return found


def embedding_before(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """Of ``embedding_dense_backward``: sorted indices and their order, made before the gradient."""
    grad, indices = args[0], args[1]
    found = copied([grad], "embedding: contiguous gradient")
    count = indices.numel()
    if _sorts(args):
        size = count * indices.element_size()
        found += [(size, "embedding: sorted indices"), (size, "embedding: order of indices")]
        if args[4]:
            found.append((size, "embedding: frequencies"))
    return found


def embedding_after(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """Of ``embedding_dense_backward``: segments of equal indices and their partial sums in fp32."""
    if not _sorts(args):
        return []
    grad, indices, weights = args[:3]
    count, item, width = indices.numel(), indices.element_size(), grad.shape[-1]
    segments = min(count, weights)
    partial = count // _ROWS + segments
    itemsize = 8 if grad.dtype == torch.float64 else 4
    return [
        (count * item, "embedding: segments"),
        (8, "embedding: number of segments"),
        (segments * item, "embedding: partial sums by segment"),
        (segments * item, "embedding: offsets of partial sums"),
        (8, "embedding: number of partial sums"),
        (partial * item, "embedding: starts of partial sums"),
        (partial * width * itemsize, "embedding: partial sums"),
    ]


def _sorts(args: Sequence[Any]) -> bool:
    return args[1].numel() > _SMALL_EMBEDDING or bool(len(args) > 4 and args[4])


def sort(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """Keys and order of a segmented sort along a dimension of more than 2048 elements."""
    tensor, values = args[0], out[0]
    if not tensor.dim():
        return []
    named = [value for value in args[1:] if isinstance(value, int) and not isinstance(value, bool)]
    dim = named[0] if named else kwargs.get("dim", -1)
    length = tensor.shape[dim]
    if length <= 2048:  # sorted in place, in shared memory
        return []
    size, item = tensor.numel(), tensor.element_size()
    found: List[Scratch] = []
    if tensor.stride(dim) != 1:
        found.append((size * item, "sort: input by dimension"))
    if values.stride(dim) != 1:
        found += [(size * item, "sort: sorted values"), (size * 8, "sort: order")]
    found.append((size * 8, "sort: positions"))
    found.append((radix_sort(size, item, 8, item * 8), "sort: temporary storage"))
    return found


def scan(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """State of the tiles of a scan over a vector; other scans need none."""
    tensor = args[0]
    if not isinstance(tensor, torch.Tensor) or tensor.dim() != 1 or not tensor.numel():
        return []
    item = out.element_size()
    tiles = _ceil(tensor.numel(), 128 * max(1, 15 * 4 // max(item, 4)))
    return [((tiles + 32) * (16 if item > 4 else 8) + _BLOCK - 1, "scan: state of tiles")]
