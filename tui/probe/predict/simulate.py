"""The recorded events through the caching allocator's rules: allocated and reserved bytes of every phase.

All sizes are bytes.  Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..allocator import OutOfMemory

if TYPE_CHECKING:
    from ..allocator import CachingAllocator

Event = Tuple[int, int]
"""(number of the storage, bytes; negative: it is freed)."""


class Levels(NamedTuple):
    """Of one interval: peaks, and what was left at its end."""

    requested: int
    allocated: int
    reserved: int
    end_allocated: int
    end_reserved: int


class Exhausted(NamedTuple):
    """The allocation that failed: in which interval, what ``OutOfMemory`` says of it, and for which storage."""

    interval: int
    error: OutOfMemory
    storage: int


class Simulated(NamedTuple):
    """``levels`` of every interval that was finished; ``exhausted``: None when nothing failed.

    ``retries``: how often the allocator had emptied its cache by the end of each of them.
    """

    levels: List[Levels]
    exhausted: Optional[Exhausted]
    retries: List[int]


def simulate(
    events: Sequence[Event], intervals: Sequence[Tuple[int, int]], allocator: CachingAllocator
) -> Simulated:
    """Play ``events``; ``intervals`` are their (first, last) ones, in order and without overlap."""
    levels: List[Levels] = []
    retries: List[int] = []
    place, id = 0, -1
    malloc, free = allocator.malloc, allocator.free
    for number, (first, last) in enumerate(intervals):
        try:
            for id, nbytes in events[place:first]:
                malloc(id, nbytes) if nbytes > 0 else free(id)
            allocator.reset_peaks()
            for id, nbytes in events[first:last]:
                malloc(id, nbytes) if nbytes > 0 else free(id)
        except OutOfMemory as error:
            return Simulated(levels, Exhausted(number, error, id), retries)
        place = last
        retries.append(allocator.num_alloc_retries)
        levels.append(
            Levels(
                allocator.peak_requested,
                allocator.peak_allocated,
                allocator.peak_reserved,
                allocator.allocated,
                allocator.reserved,
            )
        )
    return Simulated(levels, None, retries)


def largest_reserved(levels: Sequence[Levels]) -> int:
    """Highest reserved bytes of all intervals; 0 without any."""
    return max((one.reserved for one in levels), default=0)


def by_name(names: Sequence[Optional[str]], levels: Sequence[Levels]) -> Dict[str, Levels]:
    """The highest of each named phase, ends from its last interval."""
    found: Dict[str, Levels] = {}
    for name, one in zip(names, levels):
        if name is None:
            continue
        before = found.get(name)
        if before is not None:
            one = Levels(
                max(before.requested, one.requested),
                max(before.allocated, one.allocated),
                max(before.reserved, one.reserved),
                one.end_allocated,
                one.end_reserved,
            )
        found[name] = one
    return found
