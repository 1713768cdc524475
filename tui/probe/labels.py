"""From the allocator's record and the tracker's labels to ledger rows at any instant.

Every allocation gets a row once, by the surest source that there is:

1. registered: weights, gradients, optimizer state, buffers and the batch are looked up by their address at known
   times;
2. tracked: in the labelled iteration by address; in the others by the order and size of the same operators;
3. otherwise scratch, when it lived and died inside one operator, else unattributed.

A tracked allocation without a certain row is placed by its lifetime: made in a forward and alive after it, it is
a retained activation; anything else in an iteration is a step temporary.  No torch.
"""

from . import align

TRANSIENT = ("forward", "backward", "step", "validate")
UNTRACKED = ("build", "optimizer", "step", "validate")
"""Phases whose passing blocks can be nothing but temporaries, tracked or not: no activation is kept in them."""


class Interval:
    """One phase of one iteration: events [first, last) of the record."""

    __slots__ = ("first", "iteration", "last", "micro", "phase")

    def __init__(self, phase, iteration, micro, first, last=None):
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
        registered: (time_ns, address, row, name): storages looked up at known times.
        births: the tracker's, of iteration ``tracked``.
    """

    def __init__(self, record, marks, registered, births, tracked):
        self.record = record
        self.intervals = _intervals(record, marks)
        self.rows = [None] * len(record.allocations)
        self.labels = [None] * len(record.allocations)
        self.names = [""] * len(record.allocations)
        self.outside = {}
        self._where = [None] * len(record.allocations)
        for interval in self.intervals:
            for place in range(interval.first, interval.last):
                index = record.events[place][1]
                if record.allocations[index].born == place:
                    self._where[index] = interval
        self._join(births)
        self._carry_over(tracked)
        self._register(registered)
        for index in range(len(self.rows)):
            if self.rows[index] is None:
                self.rows[index] = self._by_lifetime(index)

    def _join(self, births):
        for time_ns, address, label in births:
            index = self.record.alive_at(address, time_ns)
            if index is not None and (self.labels[index] is None or label.row):
                self.labels[index] = label

    def _carry_over(self, tracked):
        """Give the labels of the tracked iteration to the same allocations of the others."""
        model = {
            (one.phase, one.micro): self._born_in(one) for one in self.intervals if one.iteration == tracked
        }
        for interval in self.intervals:
            if interval.iteration in (None, tracked):
                continue
            source = model.get((interval.phase, interval.micro), ())
            for mine, theirs in align.pair(self._keys(self._born_in(interval)), self._keys(source)):
                index, other = self._born_in(interval)[mine], source[theirs]
                if self.labels[index] is None:
                    self.labels[index] = self.labels[other]

    def _born_in(self, interval):
        born = []
        for place in range(interval.first, interval.last):
            index = self.record.events[place][1]
            if self.record.allocations[index].born == place:
                born.append(index)
        return born

    def _keys(self, indices):
        return [(self.record.allocations[one].nbytes, self.record.allocations[one].op) for one in indices]

    def _register(self, registered):
        for time_ns, address, row, name in registered:
            index = self.record.alive_at(address, time_ns)
            if index is None:
                self.outside[address] = (row, name)
            else:
                self.rows[index] = row
                self.names[index] = name

    def _by_lifetime(self, index):
        one, label, interval = self.record.allocations[index], self.labels[index], self._where[index]
        if label is None:
            inside = (
                one.outer_end_ns is not None and one.died_ns is not None and one.died_ns <= one.outer_end_ns
            )
            if inside:
                return "operator_scratch"
            passing = interval is not None and one.died is not None and one.died <= interval.last
            return "step_temporaries" if passing and interval.phase in UNTRACKED else "unattributed"
        if label.row:
            return label.row
        if interval is None or interval.phase not in TRANSIENT:
            return "step_temporaries"
        if interval.phase == "forward":
            outlives = one.died is None or one.died >= interval.last
            return "retained_activations" if outlives else "step_temporaries"
        return "step_temporaries"

    def peak(self, interval):
        """(requested bytes, rows at that instant, index of the allocation that set it or None)."""
        value, at = self.record.peak(interval.first, interval.last)
        alive = self.record.alive_after(interval.first - 1 if at is None else at)
        rows = {}
        for index in alive:
            rows[self.rows[index]] = rows.get(self.rows[index], 0) + self.record.allocations[index].nbytes
        return value, rows, None if at is None else self.record.events[at][1]


def _intervals(record, marks):
    found = []
    for time_ns, phase, iteration, micro in marks:
        place = record.event_at(time_ns)
        if found:
            found[-1].last = place
        found.append(Interval(phase, iteration, micro, place))
    if found:
        found.pop()  # the last mark only ends the one before
    return found
