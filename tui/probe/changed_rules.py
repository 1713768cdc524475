"""How settings change where the caching allocator finds a block, and what it gives back before it fails.

Sizes are bytes.  Source: CUDABlockMachinery.cpp, get_free_block, release_available_cached_blocks and
garbage_collect_cached_blocks.  Standard library only, Python 3.9 syntax.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Optional

from .allocator_settings import NO_LIMIT
from .blocks import Queue

if TYPE_CHECKING:
    from .expandable import ExpandableRanges
    from .machinery import BlockMachinery


class ChangedRules:
    """What an allocator with settings of its own does besides; made by it."""

    def __init__(self, allocator: BlockMachinery, ranges: Optional[ExpandableRanges]) -> None:
        self._allocator = allocator
        self._ranges = ranges
        self._settings = allocator.settings
        self._collects = self._settings.collects and allocator.capacity is not None

    def choose(self, queue: Queue, at: int, size: int, small: bool) -> int:
        """Index of the free block for ``size``; ``at`` is the best fit.  The queue's length: none will do."""
        if self._collects and not small:
            self._allocator.searches += 1
        if at == len(queue):
            return at
        if self._ranges is not None:
            at = self._ranges.choose(queue, at)
        settings, found = self._settings, queue[at][0]
        if size < settings.max_split_size <= found:
            return len(queue)
        if size >= settings.max_split_size and found >= size + settings.max_non_split_rounding:
            return len(queue)
        return at

    def release_oversize(self, small: bool, stream: int, size: int) -> bool:
        """Give back free blocks that may not be split, so that ``size`` finds room; False: they are too few.

        The smallest that is large enough goes; else the largest ones until their sum is.
        """
        limit = self._settings.max_split_size
        if limit == NO_LIMIT:
            return False
        wanted = max(size, limit)
        queue = self._allocator.queue(small, stream)
        at = bisect_left(queue, (wanted,))  # type: ignore[type-var]
        if self._ranges is not None:
            return False  # blocks of expandable segments are not given back here
        if at < len(queue):
            return self._allocator.remove_segment(queue[at][1])
        released = 0
        while released < wanted and queue and queue[-1][0] >= limit:
            found = queue[-1][0]
            if not self._allocator.remove_segment(queue[-1][1]):
                return False
            released += found
        return released >= wanted

    def collect(self) -> None:
        """Give back large segments that have long been free, when more than the threshold is reserved."""
        allocator = self._allocator
        if not self._collects or self._ranges is not None or allocator.limit is None:
            return
        target = allocator.reserved - int(self._settings.garbage_collection_threshold * allocator.limit)
        if target <= 0:
            return
        ages = {block.address: allocator.age(block) for block in allocator.whole_free_segments(small=False)}
        total, reclaimed, freed = sum(ages.values()), 0, True
        while reclaimed < target and freed and ages:
            oldest = total / len(ages)
            freed = False
            for address in [one for one, age in ages.items() if age >= oldest]:
                freed = True
                total -= ages.pop(address)
                before = allocator.reserved
                allocator.remove_segment(address)
                reclaimed += before - allocator.reserved
