"""Playing a recorded history: through the allocator's rules, or by counting alone where the rules are others.

Sizes are bytes, an event's index counts from 0.  Standard library only, Python 3.9 syntax.
"""

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Set, Tuple

from .before import Before, Layout, lay_out
from .blocks import AWAITING, FREE, SMALL_SEGMENT, Block, Placed, Segment, round_size, segment_size
from .following import FollowingAllocator
from .history import AllocationEvent


@dataclass
class Played:
    """What a replay gives: the state before, and the totals after every event."""

    start: Dict[int, int]
    """Requested bytes of the blocks that were not free before the first event, by address."""
    before: Tuple[int, Optional[int], int]
    """Requested, allocated and reserved bytes before the first event."""
    requested: List[int] = field(default_factory=list)
    allocated: Optional[List[int]] = field(default_factory=list)
    reserved: List[int] = field(default_factory=list)
    ignored: Set[int] = field(default_factory=set)
    """Events that contradict what was there, such as the free of an unknown block; they change nothing."""
    misplaced: int = 0
    """Blocks of the start that cannot have been there together; they are left out."""
    wrong_addresses: Optional[int] = 0
    """Allocations that are elsewhere than the rules say; None: not compared."""
    start_tail_fixes: int = 0
    """Unsplit tails of the start that only a later placement showed."""
    tails: Dict[int, int] = field(default_factory=dict)
    """Unsplit tails of the start that placements showed, by address; 0: there is none."""
    open_tails: Dict[int, int] = field(default_factory=dict)
    """By address: blocks of the start whose unsplit tail stays unknown, and the most that it can be."""


def play(before: Before, events: List[AllocationEvent]) -> Played:
    """The replay through the default rules, each block put where the record says."""
    tails: Dict[int, int] = {}
    player = _Player(lay_out(before, tails), events)
    while any(player.found.values()):  # a tail counts from the start on, so play again with it
        tails.update(player.found)
        player = _Player(lay_out(before, tails), events)
    player.played.start_tail_fixes = sum(1 for tail in tails.values() if tail)
    player.played.tails = tails
    return player.played


def layout_after(before: Before, events: List[AllocationEvent], tails: Dict[int, int]) -> List[Segment]:
    """Where every block is after ``events``, by the default rules; ``tails`` are those of ``play``."""
    player = _Player(lay_out(before, tails), events)
    return player.segments()


class _Player:
    """One pass over all events; ``found`` are tails that it saw, 0 included."""

    def __init__(self, layout: Layout, events: List[AllocationEvent]) -> None:
        self.allocator = allocator = FollowingAllocator()
        for segment in layout.segments:
            allocator.adopt(segment)
        start = {b.address: b.requested for one in layout.segments for b in one.blocks if b.state != FREE}
        before = (allocator.requested, allocator.allocated, allocator.reserved)
        self.played = Played(start, before, misplaced=layout.misplaced)
        self.found: Dict[int, int] = {}
        self._open = dict(layout.open_tails)
        self._fresh: List[AllocationEvent] = []  # segments whose first block is not yet given out
        self._fresh_bytes = 0
        self._handlers = {
            "alloc": self._alloc,
            "free_requested": self._request_free,
            "free": self._free,
            "segment_alloc": self._segment_alloc,
            "segment_free": self._segment_free,
        }
        for index, event in enumerate(events):
            self._follow(index, event)
        self.played.open_tails = {at: n for at, n in layout.open_tails.items() if at not in self.found}

    def segments(self) -> List[Segment]:
        """The layout now; a segment that nothing has used yet is one free block."""
        unused = [
            Segment(one.address, one.nbytes, one.stream, _is_small(one), [Placed(one.address, one.nbytes)])
            for one in self._fresh
        ]
        return sorted(self.allocator.segments() + unused, key=lambda segment: segment.address)

    def _follow(self, index: int, event: AllocationEvent) -> None:
        """Do what the event says and note the totals after it."""
        handler = self._handlers.get(event.kind)
        played = self.played
        if handler is not None and not handler(event):
            played.ignored.add(index)
        allocator = self.allocator
        played.requested.append(allocator.requested)
        played.allocated.append(allocator.allocated)  # type: ignore[union-attr]
        played.reserved.append(allocator.reserved + self._fresh_bytes)

    def _alloc(self, event: AllocationEvent) -> bool:
        chosen = self.allocator.best_fit(event.nbytes, event.stream)
        block, right = chosen, chosen is not None and chosen.address == event.address
        if self._fresh:
            fresh = self._unwrap(event)
            if fresh is not None:
                block = fresh
                right = (
                    chosen is None
                    and fresh.address == event.address
                    and fresh.size == segment_size(round_size(event.nbytes))
                )
        if block is None or not block.address <= event.address < block.address + block.size:
            block = self.allocator.free_block_at(event.address)
        if block is None:
            return False
        if self._open and self._see_tail(block, event.address):
            return self.allocator.put(block, event.address, event.nbytes, block.address)
        if not right:
            self.played.wrong_addresses += 1  # type: ignore[operator]
        return self.allocator.put(block, event.address, event.nbytes, event.address)

    def _see_tail(self, block: Block, address: int) -> bool:
        """Learn the tail of the block in front of a free one that holds ``address``; True: it has one."""
        owner = block.prev.address if block.prev is not None else -1
        lead = address - block.address
        if lead > self._open.get(owner, -1):
            return False
        del self._open[owner]
        self.found[owner] = lead
        if lead:
            self.allocator.grow_tail(owner, lead)
        return lead > 0

    def _unwrap(self, event: AllocationEvent) -> Optional[Block]:
        """Put the fresh segments of a stream to use; the one that holds the event's address."""
        found = None
        for fresh in [one for one in self._fresh if one.stream == event.stream]:
            self._fresh.remove(fresh)
            self._fresh_bytes -= fresh.nbytes
            block = self.allocator.add_segment(fresh.address, fresh.nbytes, fresh.stream, _is_small(fresh))
            if fresh.address <= event.address < fresh.address + fresh.nbytes:
                found = block
        return found

    def _segment_alloc(self, event: AllocationEvent) -> bool:
        end = event.address + event.nbytes
        waiting = any(e.address < end and event.address < e.address + e.nbytes for e in self._fresh)
        if waiting or self.allocator.overlaps(event.address, event.nbytes):
            return False
        self._fresh.append(event)
        self._fresh_bytes += event.nbytes
        return True

    def _segment_free(self, event: AllocationEvent) -> bool:
        return self.allocator.remove_segment(event.address)

    def _request_free(self, event: AllocationEvent) -> bool:
        try:
            self.allocator.request_free(event.address)
        except ValueError:
            return False
        return True

    def _free(self, event: AllocationEvent) -> bool:
        self._open.pop(event.address, None)
        try:
            self.allocator.free(event.address)
        except ValueError:
            return False
        return True


def _is_small(fresh: AllocationEvent) -> bool:
    """Whether a new segment belongs to the small pool."""
    return fresh.nbytes == SMALL_SEGMENT


def count(before: Before, events: List[AllocationEvent], reserved_at_end: int, tailless: bool) -> Played:
    """The totals by adding and subtracting alone.

    Args:
        before: what was there before the first event.
        events: in recorded order.
        reserved_at_end: bytes of the final segments.
        tailless: every block has just its rounded size, so that allocated bytes are known too.
    """
    alive = {at: block.requested for at, block in before.alive.items()}
    waiting = {at for at, block in before.alive.items() if block.state == AWAITING}
    signs = {"segment_alloc": 1, "map": 1, "segment_free": -1, "unmap": -1}
    requested = sum(alive.values())
    allocated = sum(round_size(nbytes) for at, nbytes in alive.items() if at not in waiting)
    reserved = reserved_at_end - sum(signs.get(event.kind, 0) * event.nbytes for event in events)
    played = Played(dict(alive), (requested, allocated if tailless else None, reserved), wrong_addresses=None)
    series: List[int] = []
    for index, event in enumerate(events):
        at, kind = event.address, event.kind
        if kind in signs:
            reserved += signs[kind] * event.nbytes
        elif (kind == "alloc" and at in alive) or (kind in ("free", "free_requested") and at not in alive):
            played.ignored.add(index)
        elif kind == "alloc":
            alive[at] = event.nbytes
            requested += event.nbytes
            allocated += round_size(event.nbytes)
        elif kind == "free_requested" and at not in waiting:
            waiting.add(at)
            allocated -= round_size(alive[at])
        elif kind == "free":
            nbytes = alive.pop(at)
            requested -= nbytes
            allocated -= 0 if at in waiting else round_size(nbytes)
            waiting.discard(at)
        played.requested.append(requested)
        played.reserved.append(reserved)
        series.append(allocated)
    played.allocated = series if tailless else None
    return played
