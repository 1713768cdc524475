"""PyTorch's caching allocator for CUDA, simulated byte by byte: native backend, default settings.

Sizes are bytes.  *requested* is what was asked for, *allocated* adds rounding and unsplit tails, *active*
adds blocks whose free still waits for another stream, *reserved* is what was taken from the driver, and
*inactive_split* are free blocks that share their segment with others, so that they cannot be given back.
A block is found by best fit among the free blocks of its pool (small: up to 1 MiB) and stream; equal sizes go
by the lowest address.

Standard library only, Python 3.9 syntax.
"""

from bisect import bisect_left, insort
from typing import Callable, Dict, Hashable, Iterator, List, Optional, Tuple

from .blocks import (
    ALLOCATED,
    AWAITING,
    BLOCK,
    FREE,
    SMALL_LIMIT,
    Block,
    Placed,
    Queue,
    Segment,
    round_size,
    segment_size,
)

TOO_LARGE = 1 << 60
"""From here on a request fails without asking the driver."""
FIRST_ADDRESS = 1 << 44


class OutOfMemory(Exception):
    """No free block fits and the capacity has no room, even after every whole free segment was given back.

    ``asked`` is the request, ``rounded`` what it occupies, ``segment`` what the driver was asked for,
    ``capacity`` the limit (None: no limit); ``allocated``, ``reserved``, ``largest_free_block`` and
    ``free_sum`` (of all free blocks) are read when it failed.
    """

    def __init__(self, asked: int, allocator: "CachingAllocator") -> None:
        self.asked = asked
        self.rounded = round_size(asked)
        self.segment = segment_size(self.rounded)
        self.capacity = allocator.capacity
        self.allocated = allocator.allocated
        self.reserved = allocator.reserved
        self.largest_free_block = allocator.largest_free_block()
        self.free_sum = allocator.free_sum()
        super().__init__(
            "out of memory: %d B asked, which needs a segment of %d B; %d of %s B are reserved, "
            "the largest free block has %d of %d B"
            % (asked, self.segment, self.reserved, self.capacity, self.largest_free_block, self.free_sum)
        )


class CachingAllocator:
    """Answers malloc and free as the real one does, and keeps its statistics and their peaks.

    Args:
        capacity: bytes that may be reserved at most; None: no limit, nothing fails.
        place_segment: gives the address of a new segment of so many bytes; by default they follow each other.
    """

    def __init__(
        self, capacity: Optional[int] = None, place_segment: Optional[Callable[[int], int]] = None
    ) -> None:
        self.capacity = capacity
        self.requested = self.allocated = self.awaiting = self.reserved = self.inactive_split = 0
        self.peak_requested = self.peak_allocated = self.peak_reserved = self.peak_inactive_split = 0
        self._peak_awaiting = 0  # of *active*, while a block was awaiting; else it is that of *allocated*
        self.num_alloc_retries = self.num_ooms = self.segments_made = 0
        self._blocks: Dict[Hashable, Optional[Block]] = {}
        self._heads: Dict[int, Tuple[int, int, Block]] = {}  # segment's address: size, stream, first block
        self._queues: Tuple[Dict[int, Queue], Dict[int, Queue]] = ({}, {})  # large, small: by stream
        self._place_segment = place_segment or self._next_address
        self._address = FIRST_ADDRESS

    def malloc(self, id: Hashable, nbytes: int, stream: int = 0) -> int:
        """Give ``id`` a block of ``nbytes`` and return its address; 0 bytes get address 0 and no block.

        Raises:
            OutOfMemory: neither a free block nor the capacity has room for it.
            ValueError: ``id`` has a block already, or ``nbytes`` is negative.
        """
        if id in self._blocks:
            raise ValueError("%r has a block already" % (id,))
        if nbytes <= 0:
            if nbytes < 0:
                raise ValueError("cannot allocate %d bytes" % nbytes)
            self._blocks[id] = None
            return 0
        size = (nbytes + 511) & -512
        small = size <= SMALL_LIMIT
        queue = self._queues[small].get(stream) or self._queue(small, stream)
        at = bisect_left(queue, (size,))  # type: ignore[type-var]
        block = queue.pop(at)[2] if at < len(queue) else self._grow(nbytes, size, small, stream)
        self._take(block, id, nbytes, size)
        return block.address

    def free(self, id: Hashable) -> None:
        """Take back the block of ``id``, whose work is complete on every stream.

        Raises:
            ValueError: ``id`` has no block.
        """
        try:
            block = self._blocks.pop(id)
        except KeyError:
            raise ValueError("%r has no block" % (id,)) from None
        if block is not None:
            if block.state is ALLOCATED:
                self.allocated -= block.size
            else:
                self.awaiting -= block.size
            self.requested -= block.requested
            self._give_back(block)

    def request_free(self, id: Hashable) -> None:
        """The owner let go, another stream still works on it: only *allocated* falls, until ``free``.

        Raises:
            ValueError: ``id`` has no block.
        """
        if id not in self._blocks:
            raise ValueError("%r has no block" % (id,))
        block = self._blocks[id]
        if block is not None and block.state is ALLOCATED:
            block.state = AWAITING
            self.allocated -= block.size
            self.awaiting += block.size

    def release_cached(self) -> int:
        """Give every wholly free segment back to the driver, as ``empty_cache`` does; bytes given back."""
        before = self.reserved
        for address in list(self._heads):
            self.remove_segment(address)
        return before - self.reserved

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
        return True

    def adopt(self, segment: Segment) -> None:
        """Take over a segment with its blocks, as a snapshot lists them; the peaks start anew from here.

        Raises:
            ValueError: the blocks do not cover the segment exactly, or an id is there twice.
        """
        ends = [segment.address] + [block.address + block.size for block in segment.blocks]
        starts = [block.address for block in segment.blocks] + [segment.address + segment.size]
        if starts != ends:
            raise ValueError("the blocks of the segment at %#x do not cover it exactly" % segment.address)
        queue = self._new_segment(segment.address, segment.size, segment.stream, segment.small).queue
        chain: List[Block] = []
        for placed in segment.blocks:
            before = chain[-1] if chain else None
            chain.append(Block(placed.address, placed.size, segment.small, queue, before))
            if before is not None:
                before.next = chain[-1]
        self._heads[segment.address] = (segment.size, segment.stream, chain[0])
        if len(chain) > 1:
            self.inactive_split += segment.size  # ``_take`` subtracts what is not free
        for index, block in enumerate(chain):
            self._fill(block, segment.blocks[index])
        self.reset_peaks()

    def reset_peaks(self) -> None:
        """Set every peak to the current value."""
        self.peak_requested, self.peak_allocated = self.requested, self.allocated
        self.peak_reserved, self.peak_inactive_split = self.reserved, self.inactive_split
        self._peak_awaiting = self.active

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
        """Segments held now."""
        return len(self._heads)

    def largest_free_block(self) -> int:
        """Bytes of the largest free block of any pool and stream; 0 when nothing is free."""
        return max((queue[-1][0] for queue in self._all_queues() if queue), default=0)

    def free_sum(self) -> int:
        """Bytes of all free blocks: reserved and not active."""
        return self.reserved - self.active

    def segments(self) -> List[Segment]:
        """The whole layout by address, as ``adopt`` takes it."""
        owners = {block: id for id, block in self._blocks.items() if block is not None}
        found = []
        for address in sorted(self._heads):
            size, stream, head = self._heads[address]
            found.append(Segment(address, size, stream, head.small))
            for block in head.chain():
                asked = 0 if block.state is FREE else block.requested
                found[-1].blocks.append(
                    Placed(block.address, block.size, asked, block.state, owners.get(block))
                )
        return found

    # --- the machinery; ``_take`` and ``_give_back`` are written out, as every event passes through them ---

    def _take(self, block: Block, id: Hashable, nbytes: int, size: int) -> None:
        """Use a block that is in no queue; split off its high part when the rules let it go."""
        after = block.next
        alone = after is None and block.prev is None
        remaining = block.size - size
        if remaining > SMALL_LIMIT or (remaining >= BLOCK and block.small):
            address = block.address + size
            block.next = rest = Block(address, remaining, block.small, block.queue, block, after)
            if after is not None:
                after.prev = rest
            block.size = size
            insort(block.queue, (remaining, address, rest))
            self.inactive_split += remaining if alone else -size
            if self.inactive_split > self.peak_inactive_split:
                self.peak_inactive_split = self.inactive_split
        else:
            size = block.size
            if not alone:
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

    def _give_back(self, block: Block) -> None:
        """Merge a block with its free neighbours and put the whole into its queue."""
        queue = block.queue
        split = self.inactive_split
        before, after = block.prev, block.next
        if after is not None and after.state is FREE:
            size = after.size
            del queue[bisect_left(queue, (size, after.address))]  # type: ignore[type-var]
            split -= size
            block.size += size
            block.next = after = after.next
            if after is not None:
                after.prev = block
        if before is not None and before.state is FREE:
            size = before.size
            del queue[bisect_left(queue, (size, before.address))]  # type: ignore[type-var]
            split -= size
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
            if split > self.peak_inactive_split:
                self.peak_inactive_split = split
        self.inactive_split = split
        insort(queue, (size, block.address, block))

    def _fill(self, block: Block, placed: Placed) -> None:
        """Bring a new block into the state that ``placed`` says."""
        if placed.state == FREE:
            insort(block.queue, (block.size, block.address, block))
            return
        if placed.id is None or placed.id in self._blocks:
            raise ValueError("the block at %#x needs an id of its own, got %r" % (placed.address, placed.id))
        self._take(block, placed.id, placed.requested, placed.size)
        if placed.state == AWAITING:
            self.request_free(placed.id)

    def _grow(self, nbytes: int, size: int, small: bool, stream: int) -> Block:
        """A new segment for a request that no free block fits; it is in no queue."""
        wanted = segment_size(size)
        if nbytes < TOO_LARGE and not self._has_room(wanted):
            self.num_alloc_retries += 1
            self.release_cached()
        if nbytes >= TOO_LARGE or not self._has_room(wanted):
            self.num_ooms += 1
            raise OutOfMemory(nbytes, self)
        self.segments_made += 1
        return self._new_segment(self._place_segment(wanted), wanted, stream, small)

    def _has_room(self, size: int) -> bool:
        return self.capacity is None or self.reserved + size <= self.capacity

    def _new_segment(self, address: int, size: int, stream: int, small: bool) -> Block:
        block = Block(address, size, small, self._queue(small, stream))
        self._heads[address] = (size, stream, block)
        self.reserved += size
        if self.reserved > self.peak_reserved:
            self.peak_reserved = self.reserved
        return block

    def _next_address(self, size: int) -> int:
        address = self._address
        self._address += size
        return address

    def _queue(self, small: bool, stream: int) -> Queue:
        return self._queues[small].setdefault(stream, [])

    def _all_queues(self) -> Iterator[Queue]:
        for by_stream in self._queues:
            yield from by_stream.values()

    @staticmethod
    def _forget(block: Block) -> None:
        """Take a free block out of its queue."""
        del block.queue[bisect_left(block.queue, (block.size, block.address))]
