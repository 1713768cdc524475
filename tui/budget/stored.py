"""What is stored of a tensor where it is not stored as it is: packed in few bits, sharded, or held several times.

Pure integers: elements and bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

# --- packed ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Packed:
    """A linear layer's weight in few bits: what it stands for, and the bytes that are stored for it."""

    logical: int
    """Elements of the weight; packing changes none of them."""
    payload_bytes: int
    """Of the packed elements; in a uint8 tensor also its number of elements."""
    blocks: int
    """Runs of elements that share a scale."""
    scale_bytes: int
    zero_point_bytes: int
    second_bytes: int
    """Of scales that were quantised once more: their own scales and their offset."""

    @property
    def metadata_bytes(self) -> int:
        """All but the payload."""
        return self.scale_bytes + self.zero_point_bytes + self.second_bytes

    @property
    def total_bytes(self) -> int:
        """Payload and metadata."""
        return self.payload_bytes + self.metadata_bytes


def packed(
    inputs: int,
    outputs: int,
    bits: int = 4,
    *,
    block: int = 64,
    along: Literal["flat", "input"] = "flat",
    scale_itemsize: int = 4,
    zero_points: bool = False,
    double: int = 0,
) -> Packed:
    """A weight of (outputs, inputs) in ``bits`` an element, with a scale for every block.

    Payload and zero points are rounded up to whole bytes a tensor.  Left out: tables of code values, which a library
    keeps once or for every tensor (64 B of 4-bit ones), and the bias, which stays as it is.

    Args:
        inputs: columns.
        outputs: rows.
        bits: of one element.
        block: elements that share a scale; 0: a whole row.
        along: "flat" cuts the flattened matrix into blocks (NF4: Dettmers et al. 2023, arXiv:2305.14314), "input"
            cuts every row by itself into groups (GPTQ: Frantar et al. 2022, arXiv:2210.17323).
        scale_itemsize: bytes of a scale: 4 for fp32, 2 for fp16.
        zero_points: one of ``bits`` for every block too.
        double: scales that share a scale of their own, 0: none.  Each is then one byte; theirs are fp32, and one
            fp32 offset is subtracted before.

    >>> found = packed(4096, 4096, 4, block=64, double=256)
    >>> found.payload_bytes, found.metadata_bytes
    (8388608, 266244)
    """
    logical = inputs * outputs
    rows = along == "input" or not block
    blocks = outputs * _up(inputs, block or inputs) if rows else _up(logical, block)
    return Packed(
        logical=logical,
        payload_bytes=_up(logical * bits, 8),
        blocks=blocks,
        scale_bytes=blocks if double else blocks * scale_itemsize,
        zero_point_bytes=_up(blocks * bits, 8) if zero_points else 0,
        second_bytes=4 * _up(blocks, double) + 4 if double else 0,
    )


# --- sharded --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sharded:
    """A tensor that several ranks share out, with what each of them holds."""

    logical: int
    """Elements of the whole tensor."""
    ranks: int
    slice: int
    """Elements that one rank stores, padding included: the same on every rank."""
    unit: int
    """Elements of one row; 1 when flattened."""

    def own(self, rank: int) -> int:
        """Elements of the tensor itself that ``rank`` (from 0) holds; later ranks may hold none."""
        return max(0, min(self.slice, self.logical - rank * self.slice))

    @property
    def padding(self) -> int:
        """Elements that are stored over all ranks and belong to no tensor."""
        return self.ranks * self.slice - self.logical

    @property
    def empty_ranks(self) -> int:
        """Ranks that hold nothing but padding."""
        return self.ranks - _up(self.logical, self.slice)


def by_rows(shape: Sequence[int], ranks: int) -> Sharded:
    """Dimension 0 cut as by ``torch.chunk``, the last slices padded with whole rows: torch's ``fully_shard``.

    Args:
        shape: of the tensor, of at least one dimension and no empty one.
        ranks: how many share it.

    >>> by_rows((18, 1), 4).slice, [by_rows((9, 2), 4).own(rank) for rank in range(4)]
    (5, [6, 6, 6, 0])
    """
    row = prod(shape[1:])
    return Sharded(prod(shape), ranks, _up(shape[0], ranks) * row, row)


def flattened(elements: int, ranks: int) -> Sharded:
    """Elements in one row, padded to a multiple of ``ranks``: ``FullyShardedDataParallel`` and ZeRO stage 3.

    >>> flattened(18, 4).slice, flattened(18, 4).padding
    (5, 2)
    """
    return Sharded(elements, ranks, _up(elements, ranks), 1)


# --- held several times -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tied:
    """An embedding that the first and the last stage of a pipeline both need: two true answers."""

    unique: int
    """Elements of the model's parameter."""
    resident: int
    """Elements that the ranks of one pipeline hold of it together."""


def tied_embedding(entries: int, width: int, held_by: Sequence[int], stages: int) -> Tied:
    """A table of (entries, width) that the stages ``held_by`` of ``stages`` keep a copy of.

    Raises:
        ValueError: a stage that does not exist or is named twice, or none.

    >>> tied_embedding(1000, 64, (0, 1), 2)
    Tied(unique=64000, resident=128000)
    """
    if not held_by:
        raise ValueError("held_by must name at least 1 stage")
    for stage in held_by:
        if stage >= stages:
            raise ValueError(f"held_by = {stage} is no stage: they are 0 to {stages - 1}")
    if len(set(held_by)) != len(held_by):
        raise ValueError("held_by names a stage twice")
    return Tied(entries * width, len(held_by) * entries * width)


def _up(dividend: int, divisor: int) -> int:
    """The quotient rounded up."""
    return -(-dividend // divisor)
