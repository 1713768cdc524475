"""PyTorch's caching allocator for CUDA, simulated byte by byte: the native backend.

Sizes are bytes.  *requested* is what was asked for, *allocated* adds rounding and unsplit tails, *active*
adds blocks whose free still waits for another stream, *reserved* is what was taken from the driver, and
*inactive_split* are free blocks that share their segment with others, so that they cannot be given back.
A block is found by best fit among the free blocks of its pool (small: up to 1 MiB) and stream; equal sizes go
by the lowest address.  What settings change about that is in ``changed_rules`` and ``expandable``.

Standard library only, Python 3.9 syntax.
"""

from bisect import bisect_left, insort
from typing import Callable, Dict, Hashable, List, Optional

from .allocator_settings import FROM_SOURCE, PROVED, AllocatorSettings
from .blocks import (
    ALLOCATED,
    AWAITING,
    FREE,
    SMALL_LIMIT,
    Block,
    Placed,
    Segment,
)
from .changed_rules import ChangedRules
from .expandable import ExpandableRanges
from .machinery import BlockMachinery

TOO_LARGE = 1 << 60
"""From here on a request fails without asking the driver."""
FIRST_ADDRESS = 1 << 44


class OutOfMemory(Exception):
    """No free block fits and the capacity has no room, even after every whole free segment was given back.

    ``asked`` is the request, ``rounded`` what it occupies, ``segment`` what the driver was asked for,
    ``capacity`` the limit (None: no limit); ``allocated``, ``reserved``, ``largest_free_block`` and
    ``free_sum`` (of all free blocks) are read when it failed.  ``basis`` says how far the rules are proved.
    """

    def __init__(self, asked: int, allocator: "CachingAllocator") -> None:
        self.asked = asked
        self.rounded = allocator.settings.round_size(asked)
        self.segment = allocator.settings.segment_size(self.rounded)
        self.basis = allocator.basis
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


class CachingAllocator(BlockMachinery):
    """Answers malloc and free as the real one does, and keeps its statistics and their peaks.

    Args:
        capacity: bytes that may be reserved at most; None: no limit, nothing fails.
        place_segment: gives the address of a new segment of so many bytes; by default they follow each other.
        settings: None: the defaults.  Shares of the device's memory are taken of ``capacity``.
        counted: also count what ``statistics`` gives, at about three times the time.
    """

    def __init__(
        self,
        capacity: Optional[int] = None,
        place_segment: Optional[Callable[[int], int]] = None,
        settings: Optional[AllocatorSettings] = None,
        counted: bool = False,
    ) -> None:
        super().__init__(capacity, settings, counted)
        self._place_segment = place_segment or self._next_address
        self._address = FIRST_ADDRESS
        self._awaiting: Dict[Hashable, Block] = {}
        self._ranges = ExpandableRanges(self) if self._expandable else None
        self._rules = None if self.settings.default else ChangedRules(self, self._ranges)

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
        rules = self._rules
        size = (nbytes + 511) & -512 if rules is None else self.settings.round_size(nbytes)
        small = size <= SMALL_LIMIT
        queue = self._queues[small].get(stream) or self.queue(small, stream)
        at = bisect_left(queue, (size,))  # type: ignore[type-var]
        if rules is not None:
            at = rules.choose(queue, at, size, small)
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
                if self._tally is not None:
                    self._tally.let_go(block)
            else:
                self.awaiting -= block.size
                del self._awaiting[id]
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
            self._awaiting[id] = block
            self.allocated -= block.size
            self.awaiting += block.size
            if self._tally is not None:
                self._tally.let_go(block)

    def release_cached(self) -> int:
        """Give whatever is wholly free back to the driver, as ``empty_cache`` does; bytes given back.

        That waits for the other streams: what still awaited them is free, and ``free`` of it changes nothing more.
        """
        before = self.reserved
        for id in list(self._awaiting):
            self.free(id)
            self._blocks[id] = None
        self.num_sync_all_streams += 1
        if self._ranges is not None:
            self._ranges.release()
        for address in list(self._heads):
            self.remove_segment(address)
        return before - self.reserved

    def statistics(self) -> Dict[str, int]:
        """What ``torch.cuda.memory_stats`` would give, by its keys.

        Raises:
            ValueError: the allocator was made without ``counted``.
        """
        if self._tally is None:
            raise ValueError("nothing was counted: make the allocator with counted=True")
        counters = ("alloc_retries", "ooms", "sync_all_streams", "device_alloc", "device_free")
        return {
            **self._tally.statistics(),
            **{"num_%s" % one: getattr(self, "num_%s" % one) for one in counters},
        }

    @property
    def basis(self) -> str:
        """How far the rules that were needed so far are proved: PROVED or FROM_SOURCE."""
        retried = self.num_alloc_retries or self.num_ooms
        streams = max(len(by_stream) for by_stream in self._queues)
        return PROVED if self._rules is None and not retried and streams <= 1 else FROM_SOURCE

    def adopt(self, segment: Segment) -> None:
        """Take over a segment with its blocks, as a snapshot lists them; the peaks start anew from here.

        Raises:
            ValueError: the blocks do not cover the segment exactly, an id is there twice, or segments are expandable.
        """
        if self._ranges is not None:
            raise ValueError("an allocator of expandable segments takes over no others")
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
            if self._tally is not None:
                self._tally.split(segment.small, segment.size, len(chain))
        for index, block in enumerate(chain):
            self._fill(block, segment.blocks[index])
        self.reset_peaks()

    def segments(self) -> List[Segment]:
        """The whole layout by address, as ``adopt`` takes it."""
        owners = {block: id for id, block in self._blocks.items() if block is not None}
        if self._ranges is not None:
            return self._ranges.segments(owners)
        found = []
        for address in sorted(self._heads):
            size, stream, head = self._heads[address]
            found.append(Segment(address, size, stream, head.small))
            for block in head.chain():
                found[-1].blocks.append(block.placed(owners.get(block)))
        return found

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
        wanted = self.settings.segment_size(size)
        if nbytes >= TOO_LARGE:  # refused before the allocator's own counters
            raise OutOfMemory(nbytes, self)
        rules = self._rules
        if rules is not None:
            rules.collect()
        block = self._obtain(size, wanted, small, stream)
        if block is None and rules is not None and rules.release_oversize(small, stream, size):
            block = self._obtain(size, wanted, small, stream)
        if block is None:
            self.release_cached()
            self.num_alloc_retries += 1
            block = self._obtain(size, wanted, small, stream)
        if block is None:
            self.num_ooms += 1
            raise OutOfMemory(nbytes, self)
        return block

    def _obtain(self, size: int, wanted: int, small: bool, stream: int) -> Optional[Block]:
        """A new block from the driver, in no queue; None: there is no room for it."""
        full = self.limit is not None and self.reserved + wanted > self.limit
        if full and (self._ranges is None or self.settings.per_process_memory_fraction < 1):
            return None
        if self._ranges is not None:
            return self._ranges.grow(size, small, stream)
        self.segments_made += 1
        self.num_device_alloc += 1
        return self._new_segment(self._place_segment(wanted), wanted, stream, small)

    def _next_address(self, size: int) -> int:
        address = self._address
        self._address += size
        return address
