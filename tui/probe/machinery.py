"""Blocks, free queues and counters of the caching allocator for CUDA: what its rules are carried out with.

Sizes are bytes.  Standard library only, Python 3.9 syntax.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Dict, Hashable, Iterator, List, Optional, Tuple

from .allocator_settings import DEFAULTS, AllocatorSettings
from .allocator_statistics import Tally
from .blocks import ALLOCATED, BLOCK, FREE, SMALL_LIMIT, Block, Queue


class BlockMachinery:
    """Segments with their blocks; every change keeps the sums and their peaks.

    Args:
        capacity: bytes that may be reserved at most; None: no limit.
        settings: None: the defaults.
        counted: also keep what ``statistics`` gives.
    """

    def __init__(self, capacity: Optional[int], settings: Optional[AllocatorSettings], counted: bool) -> None:
        self.capacity = self.limit = capacity
        self.settings = settings or DEFAULTS
        if capacity is not None and self.settings.per_process_memory_fraction < 1:
            self.limit = int(self.settings.per_process_memory_fraction * capacity)
        self.requested = self.allocated = self.awaiting = self.reserved = self.inactive_split = 0
        self.peak_requested = self.peak_allocated = self.peak_reserved = self.peak_inactive_split = 0
        self._peak_awaiting = 0  # of *active*, while a block was awaiting; else it is that of *allocated*
        self.num_alloc_retries = self.num_ooms = self.num_sync_all_streams = 0
        self.num_device_alloc = self.num_device_free = self.segments_made = 0
        self._blocks: Dict[Hashable, Optional[Block]] = {}
        self._heads: Dict[int, Tuple[int, int, Block]] = {}  # segment's address: size, stream, first block
        self._queues: Tuple[Dict[int, Queue], Dict[int, Queue]] = ({}, {})  # large, small: by stream
        self._max_split = self.settings.max_split_size
        self._tally = Tally(self._max_split) if counted else None
        self._expandable = self.settings.expandable_segments
        self._collects = self.settings.collects and capacity is not None
        self._freed_at: Dict[int, int] = {}  # by address of a wholly free large segment
        self.searches = 0
        """In the large pool, where old segments are given back: the clock by which they grow old."""

    def reset_peaks(self) -> None:
        """Set every peak to the current value."""
        self.peak_requested, self.peak_allocated = self.requested, self.allocated
        self.peak_reserved, self.peak_inactive_split = self.reserved, self.inactive_split
        self._peak_awaiting = self.active
        if self._tally is not None:
            self._tally.reset_peaks()

    @property
    def active(self) -> int:
        """Bytes of blocks that are not free."""
        return self.allocated + self.awaiting

    @property
    def peak_active(self) -> int:
        """Highest *active* since the peaks were reset."""
        return max(self._peak_awaiting, self.peak_allocated)

    @property
    def segment_count(self) -> int:
        """Segments held now that were taken whole."""
        return len(self._heads)

    def largest_free_block(self) -> int:
        """Bytes of the largest free block of any pool and stream; 0 when nothing is free."""
        return max((queue[-1][0] for queue in self._all_queues() if queue), default=0)

    def free_sum(self) -> int:
        """Bytes of all free blocks: reserved and not active."""
        return self.reserved - self.active

    def age(self, block: Block) -> int:
        """Searches since a whole segment became free."""
        return self.searches - self._freed_at.get(block.address, 0)

    def whole_free_segments(self, small: bool) -> List[Block]:
        """The free blocks of a pool that are a segment each."""
        heads = (head for _, _, head in self._heads.values() if head.small is small)
        return [head for head in heads if head.state is FREE and head.next is None]

    def streams(self, small: bool) -> List[int]:
        """Streams that a pool has served, in order."""
        return sorted(self._queues[small])

    def queue(self, small: bool, stream: int) -> Queue:
        """The free blocks of a pool and stream, by size, then address."""
        return self._queues[small].setdefault(stream, [])

    def _all_queues(self) -> Iterator[Queue]:
        for by_stream in self._queues:
            yield from by_stream.values()

    def remove_segment(self, address: int) -> bool:
        """Give a segment back to the driver; False when there is none at ``address`` that is wholly free."""
        if address not in self._heads:
            return False
        size, _, head = self._heads[address]
        if head.state is not FREE or head.size != size:
            return False
        self._forget(head)
        del self._heads[address]
        self.reserved -= size
        self.num_device_free += 1
        if self._tally is not None:
            self._tally.segment(head.small, -size)
        return True

    def map_pages(self, small: bool, size: int) -> None:
        """Count pages of an expandable segment that got memory, or with a negative size lost it."""
        self._hold(size)
        if size > 0:
            self.num_device_alloc += 1
        else:
            self.num_device_free += 1
        if self._tally is not None:
            self._tally.pages(small, size)

    # --- ``_take`` and ``_give_back`` are written out, as every event passes through them ---

    def _take(self, block: Block, id: Hashable, nbytes: int, size: int) -> None:
        """Use a block that is in no queue; split off its high part when the rules let it go."""
        after = block.next
        alone = after is None and block.prev is None
        remaining = block.size - size
        if (remaining > SMALL_LIMIT and size < self._max_split) or (
            remaining >= BLOCK and (block.small or self._expandable)
        ):
            address = block.address + size
            block.next = rest = Block(address, remaining, block.small, block.queue, block, after)
            if after is not None:
                after.prev = rest
            block.size = size
            insort(block.queue, (remaining, address, rest))
            if not self._expandable:
                self.inactive_split += remaining if alone else -size
                if self.inactive_split > self.peak_inactive_split:
                    self.peak_inactive_split = self.inactive_split
        else:
            remaining = 0
            size = block.size
            if not alone and not self._expandable:
                self.inactive_split -= size
        block.state = ALLOCATED
        block.requested = nbytes
        self._blocks[id] = block
        self.requested = total = self.requested + nbytes
        if total > self.peak_requested:
            self.peak_requested = total
        self.allocated = total = self.allocated + size
        if total > self.peak_allocated:
            self.peak_allocated = total
        if self.awaiting and total + self.awaiting > self._peak_awaiting:
            self._peak_awaiting = total + self.awaiting
        if self._tally is not None:
            self._tally.took(block, alone, remaining, not self._expandable)

    def _give_back(self, block: Block) -> None:
        """Merge a block with its free neighbours and put the whole into its queue."""
        queue = block.queue
        split = self.inactive_split
        given, pieces = block.size, 0
        before, after = block.prev, block.next
        if after is not None and after.state is FREE:
            size = after.size
            del queue[bisect_left(queue, (size, after.address))]  # type: ignore[type-var]
            split -= size
            pieces -= 1
            block.size += size
            block.next = after = after.next
            if after is not None:
                after.prev = block
        asked = block.requested
        if before is not None and before.state is FREE:
            size = before.size
            del queue[bisect_left(queue, (size, before.address))]  # type: ignore[type-var]
            split -= size
            pieces -= 1
            before.size = size + block.size
            before.next = after
            if after is not None:
                after.prev = before
            block = before
            before = block.prev
        block.state = FREE
        size = block.size
        if before is not None or after is not None:
            split += size
            pieces += 1
        if self._expandable:
            split = pieces = 0
        elif split > self.peak_inactive_split:
            self.peak_inactive_split = split
        if self._tally is not None:
            self._tally.gave(block.small, given, asked, split - self.inactive_split, pieces)
        self.inactive_split = split
        insort(queue, (size, block.address, block))
        if self._collects and block.prev is None and block.next is None and not block.small:
            self._freed_at[block.address] = self.searches

    def _new_segment(self, address: int, size: int, stream: int, small: bool) -> Block:
        block = Block(address, size, small, self.queue(small, stream))
        self._heads[address] = (size, stream, block)
        self._hold(size)
        if self._tally is not None:
            self._tally.segment(small, size)
        return block

    def _hold(self, size: int) -> None:
        """Count bytes that were taken from the driver."""
        self.reserved += size
        if self.reserved > self.peak_reserved:
            self.peak_reserved = self.reserved

    @staticmethod
    def _forget(block: Block) -> None:
        """Take a free block out of its queue."""
        del block.queue[bisect_left(block.queue, (block.size, block.address))]
