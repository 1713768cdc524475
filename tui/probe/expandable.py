"""Expandable segments of the caching allocator: address ranges that get memory page by page.

One range for each pool and stream holds nearly every block; where its free end is too small for a request, pages
are mapped behind it.  Pages are 2 MiB in the small pool and 20 MiB in the large one.  Sizes are bytes.
Source: CUDABlockMachinery.cpp, try_allocate_expandable_block, map_block and unmap_block.

Standard library only, Python 3.9 syntax.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Dict, Hashable, List, Optional, Tuple

from .blocks import FREE, SMALL_SEGMENT, UNMAPPED, Block, Queue, Segment

if TYPE_CHECKING:
    from .machinery import BlockMachinery

DEVICE_BYTES = 1 << 44
"""What a device without a known capacity counts as when a range is laid out: no range is ever full."""


class ExpandableRanges:
    """The ranges of one allocator, which makes it.  Unmapped blocks are in no queue of free ones."""

    def __init__(self, allocator: BlockMachinery) -> None:
        self._allocator = allocator
        self.heads: List[Block] = []
        """First block of each range, in the order in which they were made."""
        self._streams: Dict[int, int] = {}  # by address of a range
        self._unmapped: Dict[Tuple[bool, int], List[Tuple[int, Block]]] = {}  # by pool and stream: by address
        self._next_address = 1 << 44

    def choose(self, queue: Queue, at: int) -> int:
        """The index from ``at`` on whose block and the unmapped one behind it are smallest, as far as they shrink."""
        while at + 1 < len(queue) and _reach(queue[at + 1][2]) < _reach(queue[at][2]):
            at += 1
        return at

    def grow(self, size: int, small: bool, stream: int) -> Optional[Block]:
        """A free block of at least ``size`` in no queue, pages mapped for it; None: there is no memory for them.

        What was mapped before memory ran out stays, as a free block.
        """
        block = self._candidate(size, small, stream)
        if block.state is UNMAPPED:
            mapped = self._map(block, min(block.size, size), small, stream)
            if mapped is None:
                return None
            block = mapped
        while block.size < size:
            after = block.next
            assert after is not None  # the candidate was chosen so
            mapped = self._map(after, min(size - block.size, after.size), small, stream)
            if mapped is None:
                return None
            block = mapped
        self._unqueue(block)
        return block

    def release(self) -> None:
        """Give back every whole page that is free; ranges without any memory go."""
        for small in (False, True):
            for stream in self._allocator.streams(small):
                for _, _, block in list(self._allocator.queue(small, stream)):
                    self._unmap(block, small, stream)

    def segments(self, owners: Dict[Block, Hashable]) -> List[Segment]:
        """Every stretch with memory behind it, by address."""
        found: List[Segment] = []
        for head in self.heads:
            stream, open_ = self._streams[head.address], False
            for block in head.chain():
                if block.state is UNMAPPED:
                    open_ = False
                    continue
                if not open_:
                    found.append(Segment(block.address, 0, stream, head.small))
                open_ = True
                found[-1].size += block.size
                found[-1].blocks.append(block.placed(owners.get(block)))
        return sorted(found, key=lambda segment: segment.address)

    def _candidate(self, size: int, small: bool, stream: int) -> Block:
        """Where free and unmapped blocks that follow each other have ``size`` together, the lowest such place."""
        for _, block in self._unmapped.get((small, stream), ()):
            first = block.prev if block.prev is not None and block.prev.state is FREE else block
            room, one = 0, first
            while room < size and one is not None and one.state in (FREE, UNMAPPED):
                room += one.size
                one = one.next  # type: ignore[assignment]
            if room >= size:
                return first
        return self._new_range(size, small, stream)

    def _new_range(self, size: int, small: bool, stream: int) -> Block:
        page = self._page(small)
        total = self._allocator.capacity
        total = DEVICE_BYTES if total is None else total
        pages = max(-(-(total + total // 8) // page), -(-size // page))
        start = -(-self._next_address // page) * page  # so that whole pages are those of whole multiples
        block = Block(start, pages * page, small, self._allocator.queue(small, stream))
        block.state = UNMAPPED
        self._next_address = start + pages * page
        self.heads.append(block)
        self._streams[block.address] = stream
        self._keep_unmapped(block, stream)
        return block

    def _map(self, block: Block, size: int, small: bool, stream: int) -> Optional[Block]:
        """Put memory behind the first ``size`` bytes of an unmapped block, in whole pages; the free block it joins."""
        page, allocator = self._page(small), self._allocator
        mapped = -(-size // page) * page
        if allocator.capacity is not None and allocator.reserved + mapped > allocator.capacity:
            return None
        self._drop_unmapped(block, stream)
        if mapped < block.size:
            rest = Block(block.address + mapped, block.size - mapped, small, block.queue, block, block.next)
            rest.state = UNMAPPED
            if rest.next is not None:
                rest.next.prev = rest
            block.next, block.size = rest, mapped
            self._keep_unmapped(rest, stream)
        allocator.map_pages(small, mapped)
        return self._join_free(block)

    def _join_free(self, block: Block) -> Block:
        """Merge a newly mapped block with free neighbours and queue it."""
        for side in (block.prev, block.next):
            if side is not None and side.state is FREE:
                self._unqueue(side)
                block = self._merge(block, side)
        block.state = FREE
        insort(block.queue, (block.size, block.address, block))
        return block

    def _merge(self, block: Block, side: Block) -> Block:
        """One block of two neighbours; the lower one stays, so that a range's first block does."""
        low, high = (side, block) if side is block.prev else (block, side)
        low.size += high.size
        low.next = high.next
        if high.next is not None:
            high.next.prev = low
        return low

    def _unmap(self, block: Block, small: bool, stream: int) -> None:
        """Take the memory from every whole page inside a free block; its ends stay free."""
        page = self._page(small)
        start = -(-block.address // page) * page
        end = (block.address + block.size) // page * page
        if end <= start:
            return
        self._unqueue(block)
        tail = block.address + block.size - end
        if tail:
            rest = Block(end, tail, small, block.queue, block, block.next)
            if rest.next is not None:
                rest.next.prev = rest
            block.next = rest
            insort(block.queue, (tail, end, rest))
        lead = start - block.address
        if lead:
            inner = Block(start, end - start, small, block.queue, block, block.next)
            if inner.next is not None:
                inner.next.prev = inner
            block.next, block.size = inner, lead
            insort(block.queue, (lead, block.address, block))
            block = inner
        block.size = end - start
        block.state = UNMAPPED
        self._allocator.map_pages(small, start - end)
        for side in (block.prev, block.next):
            if side is not None and side.state is UNMAPPED:
                self._drop_unmapped(side, stream)
                block = self._merge(block, side)
        if block.prev is None and block.next is None:
            self.heads.remove(block)
            del self._streams[block.address]
        else:
            self._keep_unmapped(block, stream)

    def _page(self, small: bool) -> int:
        return SMALL_SEGMENT if small else self._allocator.settings.large_segment_size

    def _keep_unmapped(self, block: Block, stream: int) -> None:
        insort(self._unmapped.setdefault((block.small, stream), []), (block.address, block))

    def _drop_unmapped(self, block: Block, stream: int) -> None:
        held = self._unmapped[block.small, stream]
        del held[bisect_left(held, (block.address,))]  # type: ignore[type-var]

    @staticmethod
    def _unqueue(block: Block) -> None:
        del block.queue[bisect_left(block.queue, (block.size, block.address))]  # type: ignore[type-var]


def _reach(block: Block) -> int:
    """How large a free block can become where it is: with the unmapped one behind it."""
    after = block.next
    return block.size + (after.size if after is not None and after.state is UNMAPPED else 0)
