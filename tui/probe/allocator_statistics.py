"""The caching allocator's counters, as ``torch.cuda.memory_stats`` names them.

``current`` now, ``peak`` since the peaks were reset, ``allocated`` and ``freed`` the sums of all rises and falls.
Bytes or, without ``_bytes``, numbers of blocks and segments.  Standard library only, Python 3.9 syntax.
"""

from __future__ import annotations

from typing import Dict, Tuple

from .allocator_settings import NO_LIMIT
from .blocks import Block

POOLS = ("all", "large_pool", "small_pool")
BY_POOL = (
    "allocation",
    "allocated_bytes",
    "active",
    "active_bytes",
    "requested_bytes",
    "inactive_split",
    "inactive_split_bytes",
    "segment",
    "reserved_bytes",
)


class Stat:
    """One counter."""

    __slots__ = ("allocated", "current", "freed", "peak")

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.freed = 0

    def add(self, by: int) -> None:
        """Rise or fall."""
        self.current += by
        if by > 0:
            self.allocated += by
            if self.current > self.peak:
                self.peak = self.current
        else:
            self.freed -= by


class Tally:
    """All counters of one allocator; its machinery reports what it does."""

    def __init__(self, max_split_size: int) -> None:
        self._max_split = max_split_size
        self._pools = {name: (Stat(), Stat(), Stat()) for name in BY_POOL}
        self._oversize_allocations, self._oversize_segments = Stat(), Stat()

    def took(self, block: Block, alone: bool, remaining: int, plain: bool) -> None:
        """A block is in use now.

        Args:
            block: it, after any split.
            alone: it had its segment for itself before.
            remaining: bytes split off and still free; 0: it was taken whole.
            plain: its segment is not expandable.
        """
        small = block.small
        self._add("allocation", small, 1)
        self._add("allocated_bytes", small, block.size)
        self._add("active", small, 1)
        self._add("active_bytes", small, block.size)
        self._add("requested_bytes", small, block.requested)
        if block.size >= self._max_split:
            self._oversize_allocations.add(1)
        if not plain:
            return
        if remaining and alone:
            self._add("inactive_split", small, 1)
            self._add("inactive_split_bytes", small, remaining)
        elif not alone:
            self._add("inactive_split_bytes", small, -block.size)
            if not remaining:
                self._add("inactive_split", small, -1)

    def let_go(self, block: Block) -> None:
        """Its owner freed a block; another stream may still use it."""
        self._add("allocation", block.small, -1)
        self._add("allocated_bytes", block.small, -block.size)
        if block.size >= self._max_split:
            self._oversize_allocations.add(-1)

    def gave(self, small: bool, size: int, asked: int, split_bytes: int, split_blocks: int) -> None:
        """A block of ``size`` is free; free blocks of split segments changed by so much."""
        self._add("inactive_split", small, split_blocks)
        self._add("inactive_split_bytes", small, split_bytes)
        self._add("active", small, -1)
        self._add("active_bytes", small, -size)
        self._add("requested_bytes", small, -asked)

    def split(self, small: bool, size: int, blocks: int) -> None:
        """So many blocks are free in a segment of several."""
        self._add("inactive_split", small, blocks)
        self._add("inactive_split_bytes", small, size)

    def segment(self, small: bool, size: int) -> None:
        """A segment came from the driver, or with a negative size went back."""
        self._add("segment", small, 1 if size > 0 else -1)
        if abs(size) >= self._max_split:
            self._oversize_segments.add(1 if size > 0 else -1)
        self.pages(small, size)

    def pages(self, small: bool, size: int) -> None:
        """Memory came from the driver, or with a negative size went back."""
        self._add("reserved_bytes", small, size)

    def reset_peaks(self) -> None:
        """Set every peak to the current value."""
        for stats in (*self._pools.values(), (self._oversize_allocations, self._oversize_segments)):
            for stat in stats:
                stat.peak = stat.current

    def statistics(self) -> Dict[str, int]:
        """The table, flat: ``allocated_bytes.all.peak`` and so on."""
        found: Dict[str, int] = {}
        for name, stats in self._pools.items():
            for pool, stat in zip(POOLS, stats):
                found.update(_flat(f"{name}.{pool}", stat))
        found.update(_flat("oversize_allocations", self._oversize_allocations))
        found.update(_flat("oversize_segments", self._oversize_segments))
        found["max_split_size"] = -1 if self._max_split == NO_LIMIT else self._max_split
        return found

    def _add(self, name: str, small: bool, by: int) -> None:
        if by:
            every, large, little = self._pools[name]
            every.add(by)
            (little if small else large).add(by)


def _flat(name: str, stat: Stat) -> Dict[str, int]:
    keys: Tuple[str, ...] = ("current", "peak", "allocated", "freed")
    return {f"{name}.{key}": getattr(stat, key) for key in keys}
