"""What was allocated before a record began: the events undone from the final segments, and its layout.

Sizes are bytes.  Standard library only, Python 3.9 syntax.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Dict, List

from .blocks import (
    ALLOCATED,
    AWAITING,
    BLOCK,
    FREE,
    SMALL_LIMIT,
    SMALL_SEGMENT,
    Placed,
    Segment,
    round_size,
)
from .history import AllocationEvent


@dataclass
class Before:
    """What was there before the first event, found by undoing all of them from the final segments."""

    alive: Dict[int, Placed]
    """Blocks that were not free, by address; ``size`` is 0 where only the requested bytes are known."""
    segments: List[Segment]
    """By address, without blocks."""
    contradictions: int
    """Events that cannot be undone: they and the final segments are not of one history."""


def undo(final: List[Segment], events: List[AllocationEvent]) -> Before:
    """What was there before ``events``, which led to ``final``."""
    sizes = {segment.address: (segment.size, segment.stream, segment.small) for segment in final}
    held = [block for segment in final for block in segment.blocks if block.state != FREE]
    alive = {b.address: Placed(b.address, b.size, b.requested, b.state, b.address) for b in held}
    wrong = 0
    for event in reversed(events):
        at, kind = event.address, event.kind
        if kind == "alloc":
            wrong += alive.pop(at, None) is None
        elif kind == "free":
            wrong += at in alive
            alive[at] = Placed(at, 0, event.nbytes, AWAITING, at)
        elif kind == "free_requested":
            wrong += at not in alive
            if at in alive:
                alive[at].state = ALLOCATED
        elif kind == "segment_alloc":
            wrong += sizes.pop(at, None) is None
        elif kind == "segment_free":
            wrong += at in sizes
            sizes[at] = (event.nbytes, event.stream, event.nbytes == SMALL_SEGMENT)
    return Before(alive, [Segment(at, *sizes[at]) for at in sorted(sizes)], wrong)


@dataclass
class Layout:
    """Segments filled with blocks, free ones in the gaps."""

    segments: List[Segment]
    open_tails: Dict[int, int]
    """By address: blocks whose unsplit tail the record does not show, and the most that it can be."""
    misplaced: int
    """Segments over one another, and blocks over one another or outside; they are left out."""


def lay_out(before: Before, tails: Dict[int, int]) -> Layout:
    """Where every block was before the first event; ``tails`` are unsplit tails known otherwise, by address.

    A block that is freed in the record shows its requested bytes only.  No free block of the large pool has
    1 MiB or less, so such a gap behind it is its own tail; with a larger gap the tail stays open.
    """
    layout = Layout([], {}, 0)
    segments = _apart(before.segments)
    layout.misplaced += len(before.segments) - len(segments)
    addresses = [segment.address for segment in segments]
    inside: List[List[Placed]] = [[] for _ in addresses]
    for at in sorted(before.alive):
        index = bisect_right(addresses, at) - 1
        if index < 0 or at >= addresses[index] + segments[index].size:
            layout.misplaced += 1
        else:
            inside[index].append(before.alive[at])
    for index, segment in enumerate(segments):
        blocks = _fill(segment, inside[index], tails, layout)
        layout.segments.append(Segment(segment.address, segment.size, segment.stream, segment.small, blocks))
    return layout


def _apart(segments: List[Segment]) -> List[Segment]:
    """Segments by address, without those that begin inside another."""
    found: List[Segment] = []
    for segment in segments:
        if not found or found[-1].address + found[-1].size <= segment.address:
            found.append(segment)
    return found


def _fill(segment: Segment, held: List[Placed], tails: Dict[int, int], layout: Layout) -> List[Placed]:
    blocks: List[Placed] = []
    at, end = segment.address, segment.address + segment.size
    for index, block in enumerate(held):
        limit = held[index + 1].address if index + 1 < len(held) else end
        size = block.size or round_size(block.requested) + tails.get(block.address, 0)
        gap = limit - block.address - size
        if gap < 0 or block.address < at:
            layout.misplaced += 1
            continue
        if gap and not block.size and not segment.small:
            if gap <= SMALL_LIMIT:
                size += gap
            elif block.address not in tails and gap > SMALL_LIMIT + BLOCK:
                layout.open_tails[block.address] = min(SMALL_LIMIT, gap - SMALL_LIMIT - BLOCK)
        if block.address > at:
            blocks.append(Placed(at, block.address - at))
        blocks.append(Placed(block.address, size, block.requested, block.state, block.id))
        at = block.address + size
    if at < end:
        blocks.append(Placed(at, end - at))
    return blocks
