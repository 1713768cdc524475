"""The caching allocator led along a record: segments and blocks at the addresses that were really given.

Sizes are bytes.  Standard library only, Python 3.9 syntax.
"""

from bisect import bisect_left, insort
from typing import Hashable, Optional

from .allocator import CachingAllocator
from .blocks import FREE, SMALL_LIMIT, Block, round_size


class FollowingAllocator(CachingAllocator):
    """Says what the rules would choose, and takes what the record says was chosen."""

    def add_segment(self, address: int, size: int, stream: int, small: bool) -> Block:
        """A new segment, wholly free, at ``address``."""
        block = self._new_segment(address, size, stream, small)
        insort(block.queue, (size, address, block))
        return block

    def overlaps(self, address: int, size: int) -> bool:
        """Whether some segment has bytes in that stretch."""
        return any(at < address + size and address < at + held[0] for at, held in self._heads.items())

    def best_fit(self, nbytes: int, stream: int) -> Optional[Block]:
        """The free block that ``malloc`` would use; None when it would ask the driver."""
        size = round_size(nbytes)
        queue = self.queue(size <= SMALL_LIMIT, stream)
        at = bisect_left(queue, (size,))  # type: ignore[type-var]
        return queue[at][2] if at < len(queue) else None

    def free_block_at(self, address: int) -> Optional[Block]:
        """The free block that contains ``address``."""
        for queue in self._all_queues():
            for size, start, block in queue:
                if start <= address < start + size:
                    return block
        return None

    def put(self, block: Block, id: Hashable, nbytes: int, address: int) -> bool:
        """Give ``id`` the part of free ``block`` that begins at ``address``; False: it has no room there."""
        size = round_size(nbytes)
        lead = address - block.address
        if id in self._blocks or lead < 0 or block.size - lead < size:
            return False
        self._forget(block)
        if lead:
            block = self._cut(block, lead)
        self._take(block, id, nbytes, size)
        return True

    def grow_tail(self, id: Hashable, by: int) -> None:
        """Extend the block of ``id`` by ``by`` bytes of the free block behind it, which must be larger.

        Raises:
            ValueError: there is no such free block behind it.
        """
        block = self._blocks.get(id)
        after = block.next if block is not None else None
        if block is None or after is None or after.state is not FREE or after.size <= by:
            raise ValueError("no free block of more than %d B behind %r" % (by, id))
        self._forget(after)
        after.address += by
        after.size -= by
        block.size += by
        insort(after.queue, (after.size, after.address, after))
        self.allocated += by
        self.inactive_split -= by

    def _cut(self, block: Block, lead: int) -> Block:
        """Leave the first ``lead`` bytes of a block that is in no queue free, and return the rest."""
        if block.prev is None and block.next is None:
            self.inactive_split += block.size
        rest = Block(block.address + lead, block.size - lead, block.small, block.queue, block, block.next)
        if rest.next is not None:
            rest.next.prev = rest
        block.next = rest
        block.size = lead
        insort(block.queue, (lead, block.address, block))
        return rest
