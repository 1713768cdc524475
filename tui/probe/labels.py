"""From the allocator's record and the tracker's labels to ledger rows at any instant.

Every allocation gets a row once, by the surest source that there is:

1. registered: weights, gradients, optimizer state, buffers and the batch are looked up by their address at known
   times; what the workload's file made while it was loaded and keeps counts with the batch;
2. tracked: in the labelled iteration by address; in the others by the order and size of the same operators;
3. otherwise scratch, when it lived and died inside one operator, else unattributed.

A tracked allocation without a certain row is placed by its lifetime: made in a forward and alive after it, it is
a retained activation; anything else in an iteration is a step temporary.  No torch.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from . import align
from .label import Label

if TYPE_CHECKING:
    from .allocations import Allocation, Record

TRANSIENT = ("forward", "backward", "step", "validate")
LOADING = "load"
"""While the workload's file is imported: tensors that it makes and keeps are the data that it draws batches from."""
MAKING = "batch"
"""While a batch is made on the host, which belongs to no phase of the iteration."""
UNTRACKED = ("build", "optimizer", "step", "validate")
"""Phases whose passing blocks can be nothing but temporaries, tracked or not: no activation is kept in them."""


Mark = Tuple[int, str, Optional[int], Optional[int]]


class Registration(NamedTuple):
    """A storage that was looked up at a known time: what it holds, and for whom."""

    time_ns: int
    address: int
    row: str
    name: str = ""
    """Of the parameter or buffer that it is of or belongs to."""
    module: str = ""
    """Path of the module that holds it."""
    shape: Tuple[int, ...] = ()
    dtype: str = ""


Birth = Tuple[int, int, Label]


class Interval:
    """One phase of one iteration: events [first, last) of the record."""

    __slots__ = ("first", "iteration", "last", "micro", "phase")

    def __init__(
        self, phase: str, iteration: Optional[int], micro: Optional[int], first: int, last: int = 0
    ) -> None:
        self.phase = phase
        self.iteration = iteration
        self.micro = micro
        self.first = first
        self.last = last


class Labelled:
    """Rows for the allocations of a record.

    Args:
        record: an ``allocations.Record``.
        marks: (time_ns, phase, iteration or None, micro or None), in order; the last one ends the measurement.
        registered: storages looked up at known times; the last word about one counts.
        births: the tracker's, of iteration ``tracked``; None: none was tracked, and the places in the program
            where a block was made and freed decide alone (a run that ended too early).
        spans: (begun_ns, ended_ns) of every operator of that iteration, in order, for a record that does not
            say inside which operator a block was made.
        workspaces: sizes of the blocks that libraries ask for once and keep.
        compiled: the model's own code is compiled but in iteration ``tracked``, so that only labels of what is
            done outside of its modules say anything of the others; the rest has no name.
    """

    def __init__(
        self,
        record: Record,
        marks: List[Mark],
        registered: Iterable[Registration],
        births: List[Birth],
        tracked: Optional[int],
        spans: Sequence[Tuple[int, int]] = (),
        workspaces: FrozenSet[int] = frozenset(),
        compiled: bool = False,
    ) -> None:
        self.record = record
        self._workspaces = workspaces
        self._compiled = compiled
        self._names_operators = any(one.outer_end_ns is not None for one in record.allocations)
        self.intervals = _intervals(record, marks)
        self.rows: List[Optional[str]] = [None] * len(record.allocations)
        self.labels: List[Optional[Label]] = [None] * len(record.allocations)
        self.names = [""] * len(record.allocations)
        self.outside: Dict[int, Tuple[str, str]] = {}
        self.held: Dict[int, Registration] = {}
        self._tracked = tracked
        self._where: List[Optional[Interval]] = [None] * len(record.allocations)
        for interval in self.intervals:
            for place in range(interval.first, interval.last):
                index = record.events[place][1]
                if record.allocations[index].born == place:
                    self._where[index] = interval
        self._join(births)
        self._mark_scratch(spans, tracked)
        self._carry_over(tracked)
        self._register(registered)
        for index in range(len(self.rows)):
            if self.rows[index] is None:
                self.rows[index] = self._by_lifetime(index)

    def _join(self, births: List[Birth]) -> None:
        for time_ns, address, label in births:
            index = self.record.alive_at(address, time_ns)
            if index is not None and (self.labels[index] is None or label.row):
                self.labels[index] = label

    def _mark_scratch(self, spans: Sequence[Tuple[int, int]], tracked: Optional[int]) -> None:
        """Label what was made and freed within one operator of the tracked iteration, where only time says so."""
        begins = [self.record.floor(begun) for begun, _ in spans]
        for index, one in enumerate(self.record.allocations):
            interval = self._where[index]
            if self.labels[index] is not None or one.outer_end_ns is not None or one.died_ns is None:
                continue
            if interval is None or interval.iteration != tracked:
                continue
            place = bisect.bisect_right(begins, one.born_ns) - 1
            if place >= 0 and one.died_ns <= spans[place][1]:
                self.labels[index] = Label("operator_scratch", one.op, "", interval.phase)

    def _carry_over(self, tracked: Optional[int]) -> None:
        """Give the labels of the tracked iteration to the same allocations of the others."""
        model = {
            (one.phase, one.micro): self._born_in(one) for one in self.intervals if one.iteration == tracked
        }
        for interval in self.intervals:
            if interval.iteration in (None, tracked):
                continue
            source = model.get((interval.phase, interval.micro), [])
            born = self._born_in(interval)
            if all(self.labels[index] is not None for index in born):
                continue  # all of it was seen, as where nothing is measured
            ops, other_ops = self._ops(born), self._ops(source)
            # Where sizes depend on the data, as those of routed tokens do, the operators' order is what is the same.
            for mine, theirs in align.pair_loosely(self._keys(born), self._keys(source), ops, other_ops):
                index, other = born[mine], source[theirs]
                same = self.record.allocations[index].nbytes == self.record.allocations[other].nbytes
                label = self.labels[other]
                if self._compiled and label is not None and label.module:
                    continue
                if self.labels[index] is None and (same or ops[mine]):
                    self.labels[index] = self.labels[other]

    def _born_in(self, interval: Interval) -> List[int]:
        born = []
        for place in range(interval.first, interval.last):
            index = self.record.events[place][1]
            if self.record.allocations[index].born == place:
                born.append(index)
        return born

    def _keys(self, indices: List[int]) -> List[Tuple[int, str]]:
        return [(self.record.allocations[one].nbytes, self.record.allocations[one].op) for one in indices]

    def _ops(self, indices: List[int]) -> List[str]:
        return [self.record.allocations[one].op for one in indices]

    def _register(self, registered: Iterable[Registration]) -> None:
        for one in registered:
            index = self.record.alive_at(one.address, one.time_ns)
            if index is None:
                self.outside[one.address] = (one.row, one.name)
            else:
                self.rows[index] = one.row
                self.names[index] = one.name
                self.held[index] = one

    def _by_lifetime(self, index: int) -> str:
        one, label, interval = self.record.allocations[index], self.labels[index], self._where[index]
        if label is None:
            inside = (
                one.outer_end_ns is not None and one.died_ns is not None and one.died_ns <= one.outer_end_ns
            )
            if inside:
                return "operator_scratch"
            if one.died is None and one.nbytes in self._workspaces:
                return "library_workspaces"
            if self._tracked is None and interval is not None and interval.phase in TRANSIENT:
                return self._by_phase(one, interval)
            if interval is not None and interval.phase in (LOADING, MAKING):
                return "input_batch"
            if interval is None or one.died is None:
                return "unattributed"
            if interval.phase in UNTRACKED and one.died <= interval.last:
                return "step_temporaries"
            # Made by no operator, so unseen by the tracker, such as the generator states of a recomputed forward.
            by_nobody = self._names_operators and not one.op and interval.phase in TRANSIENT
            by_nobody = by_nobody and not self._compiled
            return self._by_phase(one, interval) if by_nobody else "unattributed"
        if label.row:
            return label.row
        if interval is None or interval.phase not in TRANSIENT:
            return "step_temporaries"
        return self._by_phase(one, interval)

    @staticmethod
    def _by_phase(one: Allocation, interval: Interval) -> str:
        outlives = one.died is None or one.died >= interval.last
        return "retained_activations" if interval.phase == "forward" and outlives else "step_temporaries"

    def peak(self, interval: Interval) -> Tuple[int, Dict[str, int], Optional[int]]:
        """(requested bytes, rows at that instant, index of the allocation that set it or None)."""
        value, at = self.record.peak(interval.first, interval.last)
        rows = self._rows_after(interval.first - 1 if at is None else at)
        return value, rows, None if at is None else self.record.events[at][1]

    def after_last_birth(self) -> Tuple[int, Dict[str, int]]:
        """(requested bytes, rows) as the last allocation was made: what was alive when the next one failed."""
        rows = self._rows_after(max((one.born for one in self.record.allocations), default=-1))
        return sum(rows.values()), rows

    def _rows_after(self, event: int) -> Dict[str, int]:
        rows: Dict[str, int] = {}
        for index in self.record.alive_after(event):
            row = self.rows[index] or "unattributed"
            rows[row] = rows.get(row, 0) + self.record.allocations[index].nbytes
        return rows


def _intervals(record: Record, marks: List[Mark]) -> List[Interval]:
    found = []
    for time_ns, phase, iteration, micro in marks:
        place = record.event_at(time_ns)
        if found:
            found[-1].last = place
        found.append(Interval(phase, iteration, micro, place))
    if found:
        found.pop()  # the last mark only ends the one before
    return found
