"""What the caching allocator does when it may not reserve all that it would: it empties its cache, or gives up.

All sizes are bytes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence

from .. import peaks
from .affine import Lines, Traced, without
from .simulate import Simulated, largest_reserved, simulate

if TYPE_CHECKING:
    from ..allocator import CachingAllocator
    from ..allocator_settings import AllocatorSettings
    from .point import Point

MakeAllocator = Callable[[Optional[int]], "CachingAllocator"]
ATTEMPTS = 4
"""Traces that correct the answer of the lines."""
CAPACITY, FRAGMENTATION = "capacity", "fragmentation"
"""Causes: what is allocated leaves too little, or it would do and the free bytes lie in pieces."""


def capacity_under(settings: AllocatorSettings, capacity: int, total: Optional[int]) -> int:
    """The capacity to give an allocator of such settings so that it reserves at most ``capacity`` of ``total``.

    A ``per_process_memory_fraction`` is a share of the whole device, and limits where it is the tighter.
    """
    share = settings.per_process_memory_fraction
    if share >= 1:
        return capacity
    limit = capacity if total is None else min(capacity, int(share * total))
    return math.ceil(limit / share)


def tables(
    point: Point, free: Simulated, capacities: Sequence[int], allocator: MakeAllocator, default: bool
) -> List[Dict[str, Any]]:
    """What happens within each of ``capacities``: ``within`` of the ``predicted`` table.

    Args:
        point: traced.
        free: its simulation without a limit.
        capacities: bytes that may be reserved.
        allocator: makes an empty one for a capacity.
        default: whether its settings are the defaults, so that a limit beyond the peak changes nothing.
    """
    most = largest_reserved(free.levels)
    found: List[Dict[str, Any]] = []
    for capacity in capacities:
        if default and free.exhausted is None and most <= capacity:
            one = {"retries": 0, "steady_retries": 0, "reserved_bytes": most, "out_of_memory": None}
        else:
            one = _table(point, allocator(capacity))
        found.append({"capacity_bytes": capacity, **one})
    return found


def _table(point: Point, allocator: CachingAllocator) -> Dict[str, Any]:
    done = point.simulate(allocator)
    steady, before = 0, 0
    for interval, so_far in zip(point.labelled.intervals, done.retries):
        if interval.iteration == peaks.STEADY:
            steady += so_far - before
        before = so_far
    return {
        "retries": allocator.num_alloc_retries,
        "steady_retries": steady,
        "reserved_bytes": largest_reserved(done.levels),
        "out_of_memory": None if done.exhausted is None else failure(point, done),
    }


def failure(point: Point, done: Simulated) -> Dict[str, Any]:
    """Where the allocator gave up, and why."""
    assert done.exhausted is not None
    number, error, storage = done.exhausted
    interval = point.labelled.intervals[number]
    place = peaks.phase(point.labelled, interval, 0, {}, storage if storage >= 0 else None)
    enough = error.capacity is None or error.allocated + error.rounded <= error.capacity
    return {
        "phase": point.names[number] or interval.phase,
        "operator": place["operator"],
        "module": place["module"],
        "asked_bytes": error.asked,
        "allocated_bytes": error.allocated,
        "reserved_bytes": error.reserved,
        "largest_free_block_bytes": error.largest_free_block,
        "capacity_bytes": error.capacity,
        "rule": FRAGMENTATION if enough else CAPACITY,
    }


class Emptying:
    """The largest micro-batch that runs within a capacity, however often the cache is emptied for it.

    Args:
        points: traced, by micro-batch; two or more.
        trace: traces others.
        capacity: bytes that may be reserved.
        allocator: makes an empty one for a capacity.
        best: runs without emptying anything; 0: not even one sample does.
        upper: no more samples than this.
    """

    def __init__(
        self,
        points: Dict[int, Point],
        trace: Callable[[int], Point],
        capacity: int,
        allocator: MakeAllocator,
        best: int,
        upper: Optional[int] = None,
    ) -> None:
        self._trace = trace
        self._capacity = capacity
        self._allocator = allocator
        self._best = best
        self._top = upper or 2**20
        self._lines = _lines(points)
        self._runs: Dict[int, Optional[Dict[str, Any]]] = {}
        """By micro-batch that was traced: its figures, None where it runs out of memory."""
        for micro, point in points.items():
            self._take(micro, point)

    def run(self) -> Optional[Dict[str, Any]]:
        """``emptying`` of the ``predicted_largest`` table; None where the traces are not alike."""
        if self._lines is None:
            return None
        low = max([self._best, *(micro for micro, one in self._runs.items() if one is not None)])
        failed = [micro for micro, one in self._runs.items() if one is None and micro > low]
        high = min(failed, default=self._top + 1)
        proposed, step = self._by_lines(low, high), 1
        for _ in range(ATTEMPTS):
            if proposed <= low:
                break
            if self._at(proposed) is not None:
                low = proposed
                proposed = self._by_lines(low, high)
                continue
            high = proposed
            proposed = max(low, proposed - step)
            step *= 2
        found = None if not low else self._at(low)
        beyond = low + 1 if low < self._top else None
        return {
            "micro": low or None,
            "retries": found["retries"] if found else None,
            "reserved_bytes": found["reserved_bytes"] if found else None,
            "next": beyond if beyond == high or self._by_lines(low, high) == low else None,
        }

    def _by_lines(self, low: int, high: int) -> int:
        """The largest micro-batch from ``low`` and below ``high`` that the lines let run."""
        over: Optional[int] = high if high <= self._top else None
        micro = low + 1
        while low < self._top and (over is None or over - low > 1):
            if self._runs_by_lines(micro):
                low = micro
            else:
                over = micro
            micro = min(low * 2, self._top) if over is None else (low + over) // 2
            if micro <= low:
                break
        return low

    def _runs_by_lines(self, micro: int) -> bool:
        assert self._lines is not None
        events, allocator = self._lines.at(micro), self._allocator(self._capacity)
        return simulate(events, self._lines.intervals, allocator).exhausted is None

    def _at(self, micro: int) -> Optional[Dict[str, Any]]:
        if micro not in self._runs:
            self._take(micro, self._trace(micro))
        return self._runs[micro]

    def _take(self, micro: int, point: Point) -> None:
        done = _table(point, self._allocator(self._capacity))
        self._runs[micro] = done if done["out_of_memory"] is None else None


def _lines(points: Dict[int, Point]) -> Optional[Lines]:
    """Through the two micro-batches furthest apart that run the same operators; None: there are no two."""
    plain: Dict[int, Traced] = {}
    for micro, one in points.items():
        events, intervals = without(one.events, one.intervals, one.scratch)
        plain[micro] = Traced(micro, events, intervals, 0)
    pairs = [(low, high) for low in plain for high in plain if low < high]
    for low, high in sorted(pairs, key=lambda pair: pair[0] - pair[1]):
        lines = Lines.between(plain[low], plain[high])
        if lines is not None:
            return lines
    return None
