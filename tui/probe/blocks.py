"""Sizes and pieces of the caching allocator for CUDA: rounding, segments, blocks.

Sizes are bytes.  Standard library only, Python 3.9 syntax.
"""

from dataclasses import dataclass, field
from typing import Any, Hashable, Iterator, List, Optional, Tuple

BLOCK = 512
"""Sizes are rounded up to a multiple of this."""
SMALL_LIMIT = 1 << 20
"""Largest rounded size that goes to the small pool; a larger remainder is split off in the large pool."""
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
OWN_SEGMENT = 10 << 20
"""From this size on a request gets a segment of its own size, in whole steps."""
SEGMENT_STEP = 2 << 20

FREE, ALLOCATED, AWAITING, UNMAPPED = "free", "allocated", "awaiting", "unmapped"
"""States of a block; *awaiting*: let go by its owner, still in use on another stream; *unmapped*: addresses of an
expandable segment without memory behind them."""


def round_size(nbytes: int) -> int:
    """Bytes that a request of ``nbytes`` > 0 occupies before any unsplit tail.

    >>> round_size(1), round_size(512), round_size(513)
    (512, 512, 1024)
    """
    return (nbytes + BLOCK - 1) // BLOCK * BLOCK


def segment_size(rounded: int) -> int:
    """Bytes asked of the driver when no free block fits a request of ``rounded`` bytes."""
    if rounded <= SMALL_LIMIT:
        return SMALL_SEGMENT
    if rounded < OWN_SEGMENT:
        return LARGE_SEGMENT
    return (rounded + SEGMENT_STEP - 1) // SEGMENT_STEP * SEGMENT_STEP


@dataclass
class Placed:
    """A block at a known place; ``id`` names its owner and is None when it is free."""

    address: int
    size: int
    requested: int = 0
    state: str = FREE
    id: Optional[Hashable] = None


@dataclass
class Segment:
    """One stretch of memory taken from the driver; ``blocks`` cover it without gaps, by address."""

    address: int
    size: int
    stream: int
    small: bool
    blocks: List[Placed] = field(default_factory=list)


class Block:
    """A part of a segment; ``prev`` and ``next`` are its neighbours, ``queue`` the free blocks of its kind.

    ``requested`` is set while it is not free.
    """

    __slots__ = ("address", "next", "prev", "queue", "requested", "size", "small", "state")

    def __init__(
        self,
        address: int,
        size: int,
        small: bool,
        queue: List[Any],
        prev: "Optional[Block]" = None,
        next: "Optional[Block]" = None,
    ) -> None:
        self.address = address
        self.size = size
        self.small = small
        self.queue = queue
        self.state = FREE
        self.prev = prev
        self.next = next

    def placed(self, id: Optional[Hashable]) -> Placed:
        """Where it is, for whoever looks from outside."""
        return Placed(self.address, self.size, 0 if self.state is FREE else self.requested, self.state, id)

    def chain(self) -> "Iterator[Block]":
        """This block and those behind it in the segment."""
        block: Optional[Block] = self
        while block is not None:
            yield block
            block = block.next


Queue = List[Tuple[int, int, Block]]
"""Free blocks of one pool and stream, sorted by size, then address."""
