"""Scratch of CUDA reductions: sum, mean, max, var, norm and their kin share one kernel with one launch heuristic.

Where few outputs are made from many inputs the kernel splits one output over several thread blocks; their partial
results meet in a buffer of global memory, beside one counter a block.  Buffer and counters come from the caching
allocator.  The rules are those of ``aten/src/ATen/native/cuda/Reduce.cuh`` (``setReduceConfig``) and of the
``TensorIterator`` that orders and merges the dimensions before it.  Sizes are bytes, strides elements.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .base import Scratch

_ATEN = torch.ops.aten
_WARP = 32
_MOST_THREADS = 512
_FEWEST_VALUES, _MOST_VALUES = 16, 256  # of one thread, where an output is split over blocks
_INT32 = 2**31 - 1

Extent = Tuple[int, int]
"""(stride in elements, elements) of one dimension."""


class Machine(NamedTuple):
    """What the heuristic asks of a GPU."""

    sm_count: int
    threads_per_sm: int


class Shape(NamedTuple):
    """A reduction as the kernel sees it: dimensions by stride, neighbours that are one range merged."""

    reduced: List[Extent]
    kept: List[Extent]

    @property
    def outputs(self) -> int:
        return math.prod(size for _, size in self.kept)

    @property
    def inputs(self) -> int:
        """Elements that make one output."""
        return math.prod(size for _, size in self.reduced)


def shape_of(sizes: Sequence[int], strides: Sequence[int], dims: Optional[Sequence[int]]) -> Shape:
    """The reduction of a tensor over ``dims`` (None or empty: all of them).

    Reduced dimensions come first, by the stride of the input; the others by the stride of the output, which is
    contiguous (``TensorIteratorBase::reorder_dimensions``).
    """
    count = len(sizes)
    over = {dim % count for dim in dims} if dims and count else set(range(count))
    backwards = range(count - 1, -1, -1)
    reduced = [(strides[dim], sizes[dim]) for dim in backwards if dim in over and sizes[dim] != 1]
    kept = [(strides[dim], sizes[dim]) for dim in backwards if dim not in over and sizes[dim] != 1]
    return Shape(_merged(sorted(reduced, key=_stride)), _merged(kept))


def _stride(extent: Extent) -> int:
    return extent[0]


def _merged(extents: Sequence[Extent]) -> List[Extent]:
    found: List[Extent] = []
    for stride, size in extents:
        if found and found[-1][0] * found[-1][1] == stride:
            found[-1] = (found[-1][0], found[-1][1] * size)
        else:
            found.append((stride, size))
    return found


def buffers(shape: Shape, itemsize: int, machine: Machine) -> Tuple[int, int]:
    """Bytes of the buffer of partial results and of its counters; (0, 0) where one block makes an output.

    Args:
        itemsize: bytes of one partial result: 4 for an fp32 sum, 16 for a pair of value and index.
    """
    outputs, inputs = shape.outputs, shape.inputs
    if not shape.reduced or not outputs or not inputs:
        return 0, 0
    along_inputs = not shape.kept or shape.reduced[0][0] < shape.kept[0][0]
    width, height = (inputs, outputs) if along_inputs else (outputs, inputs)
    vector = 1
    if (shape.reduced if along_inputs else shape.kept)[0][0] == 1:
        if not along_inputs:
            vector = _output_vector(shape)
            width //= vector
        elif width >= 128 and len(shape.reduced) == 1:
            width //= 4
    block_width, block_height = _block(width, height, _MOST_THREADS // vector)
    step_input = block_width if along_inputs else 1
    step_output = 1 if along_inputs else block_width
    if _ceil(inputs, step_input) < min(block_height * 16, _MOST_VALUES):
        return 0, 0  # every warp makes outputs of its own
    step_input *= block_height
    values = _ceil(inputs, step_input)
    grid = _ceil(outputs // vector, step_output)
    wanted = machine.sm_count * (machine.threads_per_sm // (block_width * block_height))
    if values < _MOST_VALUES or grid > wanted:
        return 0, 0
    blocks = max(min(_ceil(wanted, grid), _ceil(values, _FEWEST_VALUES)), _ceil(values, _MOST_VALUES))
    if blocks <= 1:
        return 0, 0
    size = itemsize * outputs * blocks
    if not along_inputs:
        size *= block_width * vector
    return size, 4 * grid


def _output_vector(shape: Shape) -> int:
    """Outputs that one load brings: 4, 2 or 1, by what the sizes and strides can be divided by."""
    vector = 4
    for number in [shape.kept[0][1], *(stride for stride, _ in [*shape.reduced, *shape.kept[1:]])]:
        while number % vector:
            vector //= 2
    return vector


def _block(width: int, height: int, most: int) -> Tuple[int, int]:
    """Threads of a block along the faster and the slower dimension, both powers of two."""
    wide = _power(width) if width < most else most
    high = _power(height) if height < most else most
    block_width = min(wide, _WARP)
    block_height = min(high, most // block_width)
    return min(wide, most // block_height), block_height


def _power(number: int) -> int:
    return 1 << (max(number, 1).bit_length() - 1)


def _ceil(number: int, by: int) -> int:
    return -(-number // by)


def scratch(
    tensor: torch.Tensor, dims: Optional[Sequence[int]], itemsize: int, machine: Machine, name: str
) -> List[Scratch]:
    """What one reduction of ``tensor`` over ``dims`` takes, largest part first.

    A tensor beyond 32-bit offsets is reduced in halves, one after the other: the larger half counts.
    """
    shape = shape_of(tensor.shape, tensor.stride(), dims)
    while _too_wide(shape, tensor.element_size()):
        shape = _half(shape)
    buffer, counters = buffers(shape, itemsize, machine)
    if not buffer:
        return []
    return [(buffer, "partial results of %s" % name), (counters, "counters of %s" % name)]


def _too_wide(shape: Shape, itemsize: int) -> bool:
    reach = 1 + sum((size - 1) * abs(stride) * itemsize for stride, size in [*shape.reduced, *shape.kept])
    return reach > _INT32 or shape.outputs * shape.inputs > _INT32


def _half(shape: Shape) -> Shape:
    """The first half along the dimension that reaches farthest (``with_32bit_indexing``)."""
    reduced, kept = list(shape.reduced), list(shape.kept)
    group, place = max(
        [(group, place) for group in (reduced, kept) for place in range(len(group))],
        key=lambda one: (one[0][one[1]][1] - 1) * abs(one[0][one[1]][0]),
    )
    stride, size = group[place]
    group[place] = (stride, size - size // 2)
    return Shape(reduced, kept)


class Reduction(NamedTuple):
    """Where an operator has its dimensions, and what one partial result is."""

    dims: int
    """Position of the dimensions among the arguments; -1: all of them are reduced."""
    partial: str
    """"sum": the accumulating type; "value": the input's; "pair": value and index; "moments": of Welford's."""
    widens: bool = True
    """Whether an input of another type than the result is converted first, into a copy."""


_REDUCTIONS: Dict[str, Reduction] = {
    "sum.default": Reduction(-1, "sum"),
    "sum.dim_IntList": Reduction(1, "sum"),
    "nansum.default": Reduction(1, "sum"),
    "mean.default": Reduction(-1, "sum"),
    "mean.dim": Reduction(1, "sum"),
    "prod.default": Reduction(-1, "sum"),
    "prod.dim_int": Reduction(1, "sum"),
    "max.default": Reduction(-1, "value", False),
    "min.default": Reduction(-1, "value", False),
    "max.dim": Reduction(1, "pair", False),
    "min.dim": Reduction(1, "pair", False),
    "argmax.default": Reduction(1, "pair", False),
    "argmin.default": Reduction(1, "pair", False),
    "amax.default": Reduction(1, "value", False),
    "amin.default": Reduction(1, "value", False),
    "all.default": Reduction(-1, "flag", False),
    "any.default": Reduction(-1, "flag", False),
    "all.dim": Reduction(1, "flag", False),
    "any.dim": Reduction(1, "flag", False),
    "var.correction": Reduction(1, "moments", False),
    "std.correction": Reduction(1, "moments", False),
    "var_mean.correction": Reduction(1, "moments", False),
    "std_mean.correction": Reduction(1, "moments", False),
    "linalg_vector_norm.default": Reduction(2, "sum"),
    "norm.ScalarOpt_dim": Reduction(2, "sum"),
    "norm.Scalar": Reduction(-1, "sum"),
}


def table() -> Dict[Any, Reduction]:
    """The reductions by operator, those that this torch has."""
    found = {}
    for name, reduction in _REDUCTIONS.items():
        packet, overload = name.split(".")
        func = getattr(getattr(_ATEN, packet, None), overload, None)
        if func is not None:
            found[func] = reduction
    return found


_LOW = (torch.float16, torch.bfloat16)


def accumulating(dtype: torch.dtype) -> int:
    """Bytes of the type in which a kernel adds up: fp32 for half precision, int64 for integers."""
    if dtype in _LOW:
        return 4
    if dtype.is_floating_point or dtype.is_complex:
        return dtype.itemsize
    return 8


def of_operator(
    reduction: Reduction, func: Any, args: Sequence[Any], kwargs: Dict[str, Any], out: Any, machine: Machine
) -> List[Scratch]:
    """Scratch of a reducing operator, taken after its result."""
    tensor = args[0]
    if not isinstance(tensor, torch.Tensor) or not tensor.numel():
        return []
    dims = _dims(reduction, args, kwargs)
    result = out[0] if isinstance(out, (tuple, list)) else out
    dtype, name = tensor.dtype, func.name()[6:].split(".")[0]
    found: List[Scratch] = []
    if reduction.widens and result.dtype != dtype and not (dtype in _LOW and result.dtype == torch.float32):
        found.append((tensor.numel() * result.element_size(), "input of %s as %s" % (name, result.dtype)))
        dtype = result.dtype
    return found + scratch(tensor, dims, _itemsize(reduction.partial, dtype), machine, name)


def _dims(reduction: Reduction, args: Sequence[Any], kwargs: Dict[str, Any]) -> Optional[List[int]]:
    dims = None
    if reduction.dims >= 0:
        dims = args[reduction.dims] if len(args) > reduction.dims else kwargs.get("dim")
    if dims is None:
        return None
    return [dims] if isinstance(dims, int) else list(dims)


def _itemsize(partial: str, dtype: torch.dtype) -> int:
    if partial == "flag":
        return 1
    if partial == "value":
        return dtype.itemsize
    if partial == "pair":
        return 16
    if partial == "moments":
        return 32 if dtype == torch.float64 else 16  # mean, squares, count and weight
    return accumulating(dtype)
