"""What an allocator recorded, as one list of allocations with their births and deaths.

The record of either device becomes a ``Record``: allocations in order of birth, and the events (births and
deaths) in order of time.  Requested bytes at any instant are the sum over what is alive.  No torch.
"""

from __future__ import annotations

import bisect
from typing import Iterable, List, NamedTuple, Optional, Tuple

Row = Tuple[int, int, int, str, Optional[int]]
"""(time_ns, address, nbytes or -nbytes, operator, end of the outermost operator); 0 bytes: an allocation failed."""


class Failure(NamedTuple):
    """An allocation that failed: before event ``event``, at ``time_ns``, inside operator ``op`` ("": outside any)."""

    event: int
    time_ns: int
    op: str


class Allocation:
    """One block that was asked for: ``nbytes`` at ``address`` from event ``born`` to event ``died`` (or None).

    ``op`` is the operator inside which it was made ("" outside of any), ``outer_end_ns`` the end of the outermost
    operator around it, ``born_ns`` and ``died_ns`` wall-clock times.
    """

    __slots__ = ("address", "born", "born_ns", "died", "died_ns", "nbytes", "op", "outer_end_ns")

    def __init__(
        self, address: int, nbytes: int, born_ns: int, op: str = "", outer_end_ns: Optional[int] = None
    ) -> None:
        self.address = address
        self.nbytes = nbytes
        self.born_ns = born_ns
        self.op = op
        self.outer_end_ns = outer_end_ns
        self.born = 0
        self.died: Optional[int] = None
        self.died_ns: Optional[int] = None


class Record:
    """Built from ``Row``s in any order; ``resolution_ns`` is the step of their clock.

    ``allocations``: in order of birth.  ``events``: (time_ns, index of the allocation, +nbytes or -nbytes).
    ``unknown_frees``: frees of blocks that were made before recording began.  ``failures``: in order of time.
    """

    def __init__(self, rows: Iterable[Row], resolution_ns: int = 1) -> None:
        self._resolution_ns = resolution_ns
        self.allocations: List[Allocation] = []
        self.events: List[Tuple[int, int, int]] = []
        self.unknown_frees = 0
        self.failures: List[Failure] = []
        living = {}
        for time_ns, address, nbytes, op, outer_end_ns in sorted(rows, key=lambda row: row[0]):
            if nbytes > 0:
                index = len(self.allocations)
                made = Allocation(address, nbytes, time_ns, op, outer_end_ns)
                made.born = len(self.events)
                self.allocations.append(made)
                living[address] = index
                self.events.append((time_ns, index, nbytes))
            elif nbytes < 0:
                index = living.pop(address, None)
                if index is None:
                    self.unknown_frees += 1
                    continue
                gone = self.allocations[index]
                gone.died, gone.died_ns = len(self.events), time_ns
                self.events.append((time_ns, index, -gone.nbytes))
            else:
                self.failures.append(Failure(len(self.events), time_ns, op))
        self._times = [event[0] for event in self.events]
        self._by_address = {}
        for index, one in enumerate(self.allocations):
            self._by_address.setdefault(one.address, []).append(index)

    def event_at(self, time_ns: int) -> int:
        """Number of events before ``time_ns``; one of the same step of the record's clock counts as later."""
        return bisect.bisect_left(self._times, self.floor(time_ns))

    def floor(self, time_ns: int) -> int:
        """The step of the record's clock that ``time_ns`` lies in."""
        return time_ns // self._resolution_ns * self._resolution_ns

    def alive_at(self, address: int, time_ns: int) -> Optional[int]:
        """Index of the allocation that starts at ``address`` and is alive at ``time_ns``, or None."""
        found = None
        for index in self._by_address.get(address, ()):
            if self.allocations[index].born_ns > time_ns:
                break
            found = index
        if found is None:
            return None
        died = self.allocations[found].died_ns
        return None if died is not None and died < time_ns else found

    def failed_before(self, time_ns: int) -> Failure:
        """The last failure before ``time_ns``; the last allocation by then where the record has none."""
        told = [one for one in self.failures if one.time_ns <= time_ns]
        if told:
            return told[-1]
        births = [one for one in self.allocations if one.born_ns <= time_ns]
        last = births[-1] if births else None
        return Failure(0, time_ns, "") if last is None else Failure(last.born + 1, time_ns, "")

    def levels(self) -> List[int]:
        """Requested bytes after every event."""
        level, out = 0, []
        for _, _, change in self.events:
            level += change
            out.append(level)
        return out

    def peak(self, first: int, last: int) -> Tuple[int, Optional[int]]:
        """(bytes, event index or None) of the highest level in events [first, last); the level before counts.

        The event index is None when nothing in the interval is higher than where it began.
        """
        level = sum(change for _, _, change in self.events[:first])
        best, at = level, None
        for place in range(first, last):
            level += self.events[place][2]
            if level > best:
                best, at = level, place
        return best, at

    def alive_after(self, event: int) -> List[int]:
        """Indices of the allocations that are alive after ``event`` (an index, or -1 for none)."""
        return [
            index
            for index, one in enumerate(self.allocations)
            if one.born <= event and (one.died is None or one.died > event)
        ]
