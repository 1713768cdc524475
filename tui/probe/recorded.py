"""A recorded history of the CUDA caching allocator, read exactly: peaks, ends, what was alive at the peak.

The record is what ``torch.cuda.memory._snapshot()`` returns, or a file that ``_dump_snapshot`` wrote.  It is
played through the allocator's own rules, block by block at the recorded addresses: *allocated* is not in the
record and follows from them, and every placement is compared.  Where the rules are others (expandable
segments, changed settings) requested and reserved bytes still come from the record, and allocated is None
unless every block is known.

Sizes are bytes, times ns since 1970; an event's index counts from 0.  Standard library only, Python 3.9.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import bounded, history, replay, unpickle
from .before import Before, lay_out, undo
from .blocks import FREE, Segment
from .history import AllocationEvent, Final, Rules
from .replay import Played
from .unpickle import SnapshotError


class Totals(NamedTuple):
    """Bytes at one instant; ``allocated`` is None where the record does not tell it."""

    requested: int
    allocated: Optional[int]
    reserved: int


@dataclass(frozen=True)
class Peak:
    """A highest value; ``index`` is the event that reached it first, None: it was there before the first."""

    bytes: int
    index: Optional[int]


class Alive(NamedTuple):
    """A block that was not free at some instant; ``born`` is its event, None: alive before the record."""

    address: int
    nbytes: int
    born: Optional[int]
    frame: str


class IntervalPeak(NamedTuple):
    """Peaks between two marks, what was there at the first one included, as torch counts after a reset."""

    name: str
    requested: Peak
    allocated: Optional[Peak]
    reserved: Peak


@dataclass
class Recorded:
    """One device's history, replayed."""

    device: int
    events: List[AllocationEvent]
    played: Played
    rules: Rules
    contradictions: int
    """Events and blocks that are not of one history with the final segments."""
    final: Final
    earlier: Before
    """What was there before the first event."""
    notes: List[str] = field(default_factory=list)
    """What a reader must know, such as another device or unknown actions, one sentence each."""

    def __post_init__(self) -> None:
        self._freed = {event.address for event in self.events if event.kind == "free"}

    @property
    def start(self) -> Totals:
        """Bytes before the first event."""
        return Totals(*self.played.before)

    @property
    def end(self) -> Totals:
        """Bytes after the last event."""
        return self.totals(len(self.events) - 1)

    @property
    def peak_requested(self) -> Peak:
        """The ledger's instant."""
        return _peak(self.start.requested, self.played.requested)

    @property
    def peak_allocated(self) -> Optional[Peak]:
        """None where the record does not tell; ``rules.unlike`` says why."""
        if self.start.allocated is None or self.played.allocated is None:
            return None
        return _peak(self.start.allocated, self.played.allocated)

    @property
    def peak_reserved(self) -> Peak:
        """Highest of what was held from the driver."""
        return _peak(self.start.reserved, self.played.reserved)

    @property
    def at_peak(self) -> Totals:
        """All three at the instant of the requested peak."""
        return self.totals(self.peak_requested.index)

    @property
    def largest_free_at_end(self) -> int:
        """Bytes of the largest free block when the snapshot was taken; 0 when nothing was free."""
        blocks = (block for segment in self.final.segments for block in segment.blocks)
        return max((block.size for block in blocks if block.state == FREE), default=0)

    def free_before(self, index: int, small: bool) -> Optional[Tuple[int, int]]:
        """(largest free block of the pool of small or large requests, sum of all) before event ``index``.

        None where the allocator's rules are others.  A block that is freed later in the record shows no tail of
        more than 1 MiB, so the sum may be up to that much too large for each of them.
        """
        if self.rules.unlike:
            return None
        layout = lay_out(undo(self.final.segments, self.events[index:]), {})
        free = [
            (segment.small, block.size)
            for segment in layout.segments
            for block in segment.blocks
            if block.state == FREE
        ]
        ours = [size for its, size in free if its == small]
        return max(ours, default=0), sum(size for _, size in free)

    @property
    def lost(self) -> int:
        """Live blocks that were allocated while stacks were recorded, but whose event is not there."""
        return sum(self._lived_through(address) for address in self.final.stacked)

    def _lived_through(self, address: int) -> bool:
        return address in self.played.start and address not in self._freed

    def count(self, kind: str) -> int:
        """Events of that kind; see ``AllocationEvent``."""
        return sum(event.kind == kind for event in self.events)

    def totals(self, index: Optional[int]) -> Totals:
        """Bytes after event ``index``; None: before the first event."""
        if index is None:
            return self.start
        allocated = self.played.allocated
        return Totals(
            self.played.requested[index],
            None if allocated is None else allocated[index],
            self.played.reserved[index],
        )

    def alive_at(self, index: Optional[int]) -> List[Alive]:
        """What is not free after event ``index`` (None: before the first), largest first.

        The requested bytes of the list add up to ``totals(index).requested``.
        """
        frames = {at: frame for at, frame in self.final.frames.items() if self._lived_through(at)}
        alive = {at: Alive(at, nbytes, None, frames.get(at, "")) for at, nbytes in self.played.start.items()}
        for born, event in enumerate(self.events[: 0 if index is None else index + 1]):
            if event.kind == "alloc" and born not in self.played.ignored:
                alive[event.address] = Alive(event.address, event.nbytes, born, event.frame)
            elif event.kind == "free" and born not in self.played.ignored:
                del alive[event.address]
        return sorted(alive.values(), key=lambda one: (-one.nbytes, one.address))

    def segments_at(self, index: Optional[int]) -> Optional[List[Segment]]:
        """Every segment with its blocks after event ``index`` (None: before the first), by address.

        None where the allocator's rules are others, except at the end, which the file itself shows.
        """
        if index == len(self.events) - 1:
            return self.final.segments
        if self.rules.unlike:
            return None
        so_far = self.events[: 0 if index is None else index + 1]
        return replay.layout_after(self.earlier, so_far, self.played.tails)

    def alive_at_peak(self) -> List[Alive]:
        """What is alive at the requested peak, largest first."""
        return self.alive_at(self.peak_requested.index)

    def peaks_between(self, marks: List[Tuple[str, int]]) -> List[IntervalPeak]:
        """The peaks from each mark to the next, the last one's to the end of the record.

        Args:
            marks: (name, time in ns since 1970), in order.  The record has whole microseconds, so an event of
                the same microsecond counts as after the mark.

        Raises:
            SnapshotError: the record has no times.
            ValueError: the marks are not in order.
        """
        times = [event.time_ns for event in self.events]
        if None in times:
            raise SnapshotError("has no times, so phases cannot be laid over it")
        cuts = [bisect_left(times, ns // 1000 * 1000) for _, ns in marks]  # type: ignore[type-var]
        if sorted(cuts) != cuts:
            raise ValueError("the marks are not in the order of time")
        cuts.append(len(times))
        return [self._between(name, cuts[at], cuts[at + 1]) for at, (name, _) in enumerate(marks)]

    def _between(self, name: str, low: int, high: int) -> IntervalPeak:
        before = self.totals(low - 1 if low else None)
        played = self.played
        allocated = None
        if played.allocated is not None and before.allocated is not None:
            allocated = _peak(before.allocated, played.allocated, low, high)
        return IntervalPeak(
            name,
            _peak(before.requested, played.requested, low, high),
            allocated,
            _peak(before.reserved, played.reserved, low, high),
        )


def _peak(before: int, series: List[int], low: int = 0, high: Optional[int] = None) -> Peak:
    """The highest of ``before`` and ``series[low:high]``; its index is that of the first in ``series``."""
    part = series[low:high]
    highest = max(part, default=before)
    if highest <= before:
        return Peak(before, low - 1 if low else None)
    return Peak(highest, low + part.index(highest))


def load(path: Path, device: Optional[int] = None) -> Recorded:
    """The history in a file that ``torch.cuda.memory._dump_snapshot`` wrote; see ``read``.

    Raises:
        SnapshotError: also when the file is not a pickle of plain values; nothing of it is ever run.
        OSError: the file cannot be read.
    """
    try:
        with path.open("rb") as stream, bounded.reading(unpickle.stream_size(stream)):
            return read(unpickle.read(stream), device)
    except bounded.TooMuch as error:
        raise unpickle.too_much(error) from None


def events(snapshot: Any, device: Optional[int] = None) -> List[AllocationEvent]:
    """The recorded events of ``device``, by default of the one with most of them, in recorded order.

    Raises:
        SnapshotError: it is not a memory snapshot, or has no events there.
    """
    traces = history.traces(snapshot)
    return history.parse_events(traces[history.choose_device(traces, device)])[0]


def read(snapshot: Any, device: Optional[int] = None) -> Recorded:
    """The history in a snapshot, replayed.

    Args:
        snapshot: what ``torch.cuda.memory._snapshot()`` returns.
        device: index of the device; None: the one with most events.

    Raises:
        SnapshotError: it is not a memory snapshot, or has no events there.
    """
    traces = history.traces(snapshot)
    chosen = history.choose_device(traces, device)
    found, strange = history.parse_events(traces[chosen])
    final = history.parse_final(snapshot, chosen)
    rules = history.parse_rules(snapshot, final, found)
    earlier = undo(final.segments, found)
    if rules.unlike:
        reserved_at_end = sum(segment.size for segment in final.segments)
        played = replay.count(earlier, found, reserved_at_end, rules.tailless)
    else:
        played = replay.play(earlier, found)
    recorded = Recorded(
        chosen, found, played, rules, earlier.contradictions + played.misplaced, final, earlier
    )
    recorded.notes = _notes(recorded, [len(trace) for trace in traces] if device is None else [], strange)
    return recorded


def _notes(recorded: Recorded, counts: List[int], strange: Dict[str, int]) -> List[str]:
    """What a reader must know, one sentence each, without a full stop."""
    played, rules, notes = recorded.played, recorded.rules, []
    others = [index for index, count in enumerate(counts) if count and index != recorded.device]
    if others:
        notes.append(
            "events of %d devices; this is device %d, which has the most" % (len(others) + 1, recorded.device)
        )
    if strange:
        named = ", ".join("%s %d" % (action, count) for action, count in sorted(strange.items()))
        notes.append("events of unknown kinds were passed over: %s" % named)
    if recorded.lost:
        notes.append(
            "live blocks with a stack but without an event: %d; the ring of events was full, or recording "
            "began again" % recorded.lost
        )
    if recorded.contradictions or played.ignored:
        notes.append(
            "%d events or blocks contradict the final segments, as when recording was paused; "
            "the figures are those of the rest" % (recorded.contradictions + len(played.ignored))
        )
    if rules.unlike:
        notes.append("%s, so addresses were not compared" % rules.unlike)
    elif played.wrong_addresses:
        notes.append(
            "%d of %d allocations are elsewhere than the default rules say, in private pools or by other "
            "settings; each was put where it was" % (played.wrong_addresses, recorded.count("alloc"))
        )
    if played.open_tails:
        notes.append(
            "allocated may be up to %d B higher while %d blocks from before the record live: their unsplit "
            "tails are not in it" % (sum(played.open_tails.values()), len(played.open_tails))
        )
    return notes
