"""Sizes of every storage as straight lines of the micro-batch, from two traces that are alike.

Between two batches that run the same operators in the same order every storage grows by the same bytes a sample, but
for scratch that kernels size by rules of their own.  So the allocator's answer at any other batch is simulated
without another trace, and traced once where it matters.  All sizes are bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from .simulate import Event, Simulated, largest_reserved, simulate

if TYPE_CHECKING:
    from ..allocator import CachingAllocator

MakeAllocator = Callable[[Optional[int]], "CachingAllocator"]
"""An empty allocator for a capacity in bytes, None: without a limit."""


class Traced(NamedTuple):
    """What a line needs of one traced point."""

    micro: int
    events: Sequence[Event]
    intervals: Sequence[Tuple[int, int]]
    requested: int
    """Highest of all phases."""


def without(events: Sequence[Event], intervals: Sequence[Tuple[int, int]], left_out: Set[int]) -> Any:
    """(events, intervals) without the storages ``left_out``, the others numbered anew by birth.

    Kernels size their scratch by rules of their own, so whether there is any differs from batch to batch.  What is
    freed in one go is freed in the order of birth: a cache of casts has an order of its own each time, and the
    allocator is left with the same blocks in any.
    """
    kept: List[Event] = []
    numbers: Dict[int, int] = {}
    place = [0]
    freed = 0  # how many of the last ones are frees
    for id, size in events:
        if id not in left_out:
            if size > 0 and freed:
                kept[-freed:] = sorted(kept[-freed:])
            freed = freed + 1 if size < 0 else 0
            kept.append((numbers.setdefault(id, len(numbers)), size))
        place.append(len(kept))
    if freed:
        kept[-freed:] = sorted(kept[-freed:])
    return kept, [(place[first], place[last]) for first, last in intervals]


class Lines:
    """Every event's size at any micro-batch; ``between`` says whether two traces are alike."""

    def __init__(self, one: Traced, other: Traced) -> None:
        low, high = (one, other) if one.micro < other.micro else (other, one)
        self._low, self._high = low, high
        self.intervals = low.intervals

    @staticmethod
    def between(one: Traced, other: Traced) -> Optional[Lines]:
        """None where the two do not make the same storages in the same order."""
        if one.micro == other.micro or list(one.intervals) != list(other.intervals):
            return None
        if len(one.events) != len(other.events):
            return None
        for (id, size), (other_id, other_size) in zip(one.events, other.events):
            if id != other_id or (size > 0) != (other_size > 0):
                return None
        return Lines(one, other)

    def at(self, micro: int) -> List[Event]:
        """Events at a micro-batch; sizes are rounded to whole bytes and at least 1."""
        base, span, step = self._low.micro, self._high.micro - self._low.micro, micro - self._low.micro
        if micro == base:
            return list(self._low.events)
        found = []
        for (id, size), (_, other) in zip(self._low.events, self._high.events):
            if size != other:
                grown = abs(size) + round((abs(other) - abs(size)) * step / span)
                size = max(1, grown) if size > 0 else -max(1, grown)
            found.append((id, size))
        return found


class Largest(NamedTuple):
    """The largest micro-batch within a limit of reserved bytes; ``micro`` None: not even one sample fits."""

    micro: Optional[int]
    reserved: Optional[int]
    next_micro: Optional[int]
    """The smallest one above that does not fit; None: nothing above was tried."""
    next_reserved: Optional[int]
    simulated: int
    """How many batches the answer took."""


def largest(
    lines: Lines, limit: int, allocator: MakeAllocator, upper: Optional[int] = None, guess: int = 1
) -> Largest:
    """Search by doubling and halving; reserved bytes are not quite monotone, so the next ones above are looked at.

    Args:
        lines: sizes at any batch.
        limit: bytes that may be reserved.
        allocator: makes an empty one.
        upper: no more samples than this.
        guess: where to begin.
    """
    seen = {}

    def reserved(micro: int) -> int:
        if micro not in seen:
            done: Simulated = simulate(lines.at(micro), lines.intervals, allocator(None))
            seen[micro] = largest_reserved(done.levels)
        return seen[micro]

    top = upper or 2**20
    low, high = 0, None
    micro = max(1, min(guess, top))
    while high is None or high - low > 1:
        if reserved(micro) <= limit:
            low = micro
            if micro >= top:
                break
        else:
            high = micro
        micro = min(low * 2, top) if high is None else (low + high) // 2
        if micro == 0:
            break
    for above in range(low + 1, min(low + LOOK_ABOVE, top) + 1):
        if low and reserved(above) <= limit:
            low = above
    after = low + 1 if low + 1 <= top else None
    return Largest(
        low or None,
        reserved(low) if low else None,
        after,
        reserved(after) if after is not None else None,
        len(seen),
    )


LOOK_ABOVE = 4
"""Batches above the first that fails which are tried as well."""
