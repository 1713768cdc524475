"""What attention takes beside its results: fp32 accumulators of its kernels.

Flash attention: ``aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp``.  Efficient attention:
``attention_backward.cu`` and ``mem_eff_attention/kernel_backward.h`` beside it.  Sizes are bytes.

# B batch, H heads, S positions of queries, T of keys, D size of a head: BHSD and BHTD.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Sequence

import torch

from .base import Scratch
from .copies import copied
from .reductions import _ceil
from .target import Gpu

_FLOAT = 4
_HALVES = (torch.float16, torch.bfloat16)


def _up(number: int, multiple: int) -> int:
    return _ceil(number, multiple) * multiple


def copies_flash(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """Contiguous BSHD copies of what comes as BHSD: of the gradient, and for flash attention of the result."""
    gradient, result = args[0].transpose(1, 2), args[4].transpose(1, 2)
    return copied([gradient], "attention: contiguous gradient") + copied(
        [result], "attention: contiguous result"
    )


def copies_efficient(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """A contiguous BSHD copy of the gradient, where it is none already."""
    return copied([args[0].transpose(1, 2)], "attention: contiguous gradient")


def flash_forward(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """Partial results where keys are split over blocks, because there is too little to do otherwise."""
    query, key = args[0], args[1]
    B, H, S, D = query.shape
    if (args[3] if len(args) > 3 else kwargs.get("dropout_p", 0.0)) > 0:
        return []
    wide = 256 if D <= 64 else (128 if D <= 128 else 64)
    splits = _splits(B * H * _ceil(S, 64), gpu.machine.sm_count * 2, _ceil(key.shape[2], wide))
    if splits <= 1:
        return []
    rounded = _up(D, 32 if D <= 128 else 64)
    return [
        (splits * B * H * S * _FLOAT, "flash attention: sums of splits"),
        (splits * B * H * S * rounded * _FLOAT, "flash attention: results of splits"),
    ]


def _splits(work: int, slots: int, blocks: int) -> int:
    """``num_splits_heuristic``: the fewest splits within 85 % of the best use of the processors."""
    if work >= 0.8 * slots:
        return 1
    uses: Dict[int, float] = {}
    for splits in range(1, min(128, slots, blocks) + 1):
        if splits == 1 or _ceil(blocks, splits) != _ceil(blocks, splits - 1):
            waves = work * splits / slots
            uses[splits] = waves / math.ceil(waves)
    best = max(uses.values(), default=0.0)
    return next((splits for splits, use in uses.items() if use >= 0.85 * best), 1)


def flash_backward(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """``mha_bwd``: gradients of queries in fp32, row sums, and keys and values of every query head."""
    query, key = args[1], args[2]
    B, H, S, D = query.shape
    rows = _up(S, 128)
    accumulator = B * rows * H * _up(D, 32 if D <= 128 else 64) * _FLOAT
    if torch.are_deterministic_algorithms_enabled() and not (
        torch.is_deterministic_algorithms_warn_only_enabled()
    ):
        accumulator *= _ceil(gpu.machine.sm_count, B * H)
    found = [
        (B * H * rows * _FLOAT, "flash attention: row sums"),
        (accumulator, "flash attention: fp32 gradient of queries"),
    ]
    if key.shape[1] != H:
        size = B * key.shape[2] * H * D * query.element_size()
        found += [(size, "flash attention: gradient of %s by query head" % one) for one in ("keys", "values")]
    return found


def efficient_forward(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """An fp32 result where a head does not fit into registers and the result is of half precision."""
    query, value = args[0], args[2]
    if query.dtype not in _HALVES or value.shape[-1] <= 128:
        return []
    return [
        (query.shape[0] * query.shape[2] * query.shape[1] * value.shape[-1] * _FLOAT, "fp32 attention result")
    ]


class Blocks(NamedTuple):
    """Tile of the backward kernel: queries, keys and the largest head it takes."""

    queries: int
    keys: int
    head: int


def blocks_of(gpu: Gpu, dtype: torch.dtype, size: int, dropout: bool) -> Blocks:
    """The first kernel of ``cutlassB.h`` that takes heads of ``size`` and fits the shared memory of the GPU."""
    half = dtype in _HALVES
    if size <= 32:
        return Blocks(64, 64, 32)
    if size <= 64:
        return Blocks(64, 64, 64)
    roomy = gpu.capability in ((8, 0), (8, 7), (9, 0)) or gpu.major in (10, 11)
    if half and gpu.major >= 8:
        if size <= 96 and gpu.capability in ((8, 6), (8, 9)) and not dropout:
            return Blocks(128, 64, 96)
        if size <= 128:
            return Blocks(128, 128, 128) if roomy else Blocks(64, 64, 128)
    head = 128 if size <= 128 else 65536
    return Blocks(128 if roomy else 64, 64, head)


def efficient_backward(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
    """Row sums, and fp32 gradients of a block wherever registers do not hold them."""
    query, key, value = args[1:4]
    B, H, S, D = query.shape
    T, Dv = key.shape[2], value.shape[3]
    dropout = float(args[9]) if len(args) > 9 else float(kwargs.get("dropout_p", 0.0))
    size = efficient_workspace(gpu, query.dtype, (B, H, S, T, D, Dv), dropout > 0)
    largest = (size, "efficient attention: fp32 gradients")
    products = B * H * S * Dv * _FLOAT
    if query.dtype not in _HALVES and products > size:  # they are gone when the workspace is taken
        largest = (products, "efficient attention: products of gradient and result")
    found = [(B * H * S * _FLOAT, "efficient attention: row sums")]
    if largest[0]:
        found.append(largest)
    if key.shape[1] != H:  # since torch 2.14: gradients by query head, added up at the end
        for size, name in ((D, "keys"), (Dv, "values")):
            nbytes = B * H * T * size * query.element_size()
            found.append((nbytes, "efficient attention: gradient of %s by query head" % name))
    return found


def efficient_workspace(gpu: Gpu, dtype: torch.dtype, shape: Sequence[int], dropout: bool) -> int:
    """``Params::workspace_size``; ``shape`` is (B, H, S, T, D, D of values)."""
    B, H, S, T, D, Dv = shape
    tile = blocks_of(gpu, dtype, max(D, Dv), dropout)
    half = dtype in _HALVES
    in_registers = half and tile.head <= tile.queries
    accumulates = half and not in_registers  # keys and values; an fp32 gradient needs no other
    splits = _ceil(T, tile.keys) if gpu.major >= 7 else 1
    if B * H * _ceil(S, tile.queries) >= 256 and 2 * tile.keys >= T:
        splits = 1
    if accumulates:
        splits = max(1, min(splits, 200 // (B * H)))
    deterministic = torch.are_deterministic_algorithms_enabled()
    if deterministic and not torch.is_deterministic_algorithms_warn_only_enabled():
        splits = 1
    elements = 0
    if accumulates:
        elements += splits * tile.keys * (_up(D, tile.queries) + _up(Dv, tile.queries))
    if gpu.major >= 7 or half:
        stored = 4 + tile.queries * tile.keys  # a lock and a tile
        elements += _ceil(S, tile.queries) * _ceil(D, tile.keys) * stored
    return B * H * _up(elements, 4) * _FLOAT
