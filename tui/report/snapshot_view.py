"""What a memory snapshot says, as plain values that a screen or a terminal can show.

Made from the JSON document of ``peakmark snapshot``, so that whoever shows it needs neither the file nor the code
that reads it.  Sizes are bytes, events count from 0; None is unknown, and ``SnapshotView.unknown`` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

POINTS = 480
"""Points of a timeline at most."""


@dataclass(frozen=True, slots=True)
class Point:
    """Some events that follow each other: the least and the most in that time, both ends included."""

    first: int
    """Index of the first event."""
    low: int
    high: int
    reserved: int
    """The most that was reserved."""


@dataclass(frozen=True, slots=True)
class Live:
    """Blocks alive at the instant that were made at one place of the program."""

    where: str
    kind: str
    """frame | no-frame | before."""
    bytes: int
    """Requested."""
    blocks: int


@dataclass(frozen=True, slots=True)
class Sized:
    """Blocks alive at the instant that are equally large."""

    each: int
    """Requested bytes of one."""
    blocks: int
    bytes: int
    where: str
    """Where most of them were made."""


@dataclass(frozen=True, slots=True)
class SegmentUse:
    """One stretch of memory taken from the driver, at the instant."""

    address: int
    bytes: int
    pool: str
    """small | large."""
    stream: int
    active: int
    """Bytes of blocks that are not free, rounding and tails included."""
    largest_free: int
    blocks: int
    expandable: bool

    @property
    def free(self) -> int:
        """Bytes of its free blocks."""
        return self.bytes - self.active

    @property
    def split(self) -> bool:
        """Whether its free bytes share it with blocks in use, so that it cannot be given back."""
        return 0 < self.free < self.bytes


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """The segments in sums; what is free in split ones cannot be given back to the driver."""

    segments: int
    reserved: int
    active: int
    split_free: int
    whole_free: int
    largest_free_small: int
    """Largest free block for requests up to 1 MiB."""
    largest_free_large: int

    @property
    def free(self) -> int:
        """All free bytes."""
        return self.split_free + self.whole_free


@dataclass(frozen=True, slots=True)
class Refused:
    """An allocation that failed while it was recorded."""

    event: int
    asked: int
    device_free: int
    """What the driver had left."""
    cause: str
    """capacity | fragmentation | unknown."""
    why: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Where a replay ran out of memory; the figures are those of that moment."""

    event: int
    """-1: already when the blocks from before the record were laid out."""
    asked: int
    frame: str
    allocated: int
    reserved: int
    largest_free: int


@dataclass(frozen=True, slots=True)
class Replay:
    """The same requests through the allocator's rules under some settings."""

    settings: str
    """In the syntax of PYTORCH_CUDA_ALLOC_CONF; "" are the defaults."""
    basis: str
    """How far the rules are proved."""
    peak_requested: int
    peak_allocated: int
    peak_reserved: int
    retries: int
    """How often cached memory had to go back to the driver before a request could be met."""
    failure: Failure | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """The three sizes of one instant or of their peaks; ``events`` are those that reached a peak first."""

    requested: int
    allocated: int | None
    reserved: int
    events: tuple[int | None, int | None, int | None] = (None, None, None)


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """One device's recorded history."""

    file: str
    """Name without its folder."""
    device: int
    settings: str | None
    """Of the allocator that was recorded: "" are the defaults, None: the file does not say."""
    events: int
    allocations: int
    frees: int
    segments_at_end: int
    peak: Figures
    end: Figures
    cached: int | None
    """Reserved high-water less what was allocated at the requested peak."""
    largest_free_at_end: int
    free_at_end: int
    at: str
    """The instant of ``live``, ``sizes`` and ``segments``: "peak", "end" or an event's number."""
    at_event: int | None
    """None: before the first event."""
    at_figures: Figures
    at_asked: int | None
    """Requested bytes of that event."""
    at_frame: str
    timeline_of: str
    """allocated | requested: what ``points`` show."""
    points: tuple[Point, ...]
    """At most ``POINTS``, over all events."""
    live: tuple[Live, ...]
    """By frame, most bytes first; their bytes add up to ``at_figures.requested``."""
    sizes: tuple[Sized, ...]
    """By size, most bytes first; the same blocks."""
    segments: tuple[SegmentUse, ...] | None
    """Most free bytes first; None: where blocks lay at that instant is not known."""
    fragmentation: Fragmentation | None
    failures: tuple[Refused, ...]
    """Allocations that failed while it was recorded."""
    capacity: int | None
    """What the replays might reserve."""
    replays: tuple[Replay, ...]
    notes: tuple[str, ...]
    unknown: Mapping[str, str]
    """Reason of whatever is None, by its path in the document."""


def view(document: Mapping[str, Any]) -> SnapshotView:
    """The values in a document of ``peakmark snapshot --json``.

    Raises:
        ValueError: it is another document, or lacks something.
    """
    if document.get("document") != "snapshot":
        raise ValueError(f"this is a document {document.get('document')!r} and no snapshot")
    try:
        return _view(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the document of a snapshot lacks something: {error!r}") from error


def _view(found: Mapping[str, Any]) -> SnapshotView:
    at, points = found["at"], found["timeline"]["points"]
    rows = found["segments"]
    return SnapshotView(
        file=found["file"],
        device=found["device_index"],
        settings=found["settings"],
        events=found["events_count"],
        allocations=found["allocations_count"],
        frees=found["frees_count"],
        segments_at_end=found["segments_count"],
        peak=_figures(found["peak"]),
        end=_figures(found["end"]),
        cached=found["peak"]["cached_bytes"],
        largest_free_at_end=found["largest_free_block_bytes"],
        free_at_end=found["free_bytes"],
        at=at["what"],
        at_event=at["event_index"],
        at_figures=_figures(at),
        at_asked=at["asked_bytes"],
        at_frame=at["frame"] or "",
        timeline_of=found["timeline"]["of"],
        points=tuple(Point(*(one[key] for key in _POINT)) for one in points),
        live=tuple(Live(*(one[key] for key in _LIVE)) for one in found["alive"]),
        sizes=tuple(Sized(*(one[key] for key in _SIZED)) for one in found["alive_by_size"]),
        segments=None if rows is None else tuple(SegmentUse(*(one[key] for key in _SEGMENT)) for one in rows),
        fragmentation=_fragmentation(found["fragmentation"]),
        failures=tuple(_failed(one) for one in found["out_of_memory"]),
        capacity=found["capacity_bytes"],
        replays=tuple(_replay(one) for one in found["replays"]),
        notes=tuple(found["notes"]),
        unknown=found["unknown"],
    )


_POINT = ("event_index", "low_bytes", "high_bytes", "reserved_bytes")
_LIVE = ("where", "kind", "bytes", "blocks_count")
_SIZED = ("each_bytes", "blocks_count", "bytes", "where")
_SEGMENT = (
    "address",
    "bytes",
    "pool",
    "stream",
    "active_bytes",
    "largest_free_block_bytes",
    "blocks_count",
    "expandable",
)
_FRAGMENTATION = (
    "segments_count",
    "reserved_bytes",
    "active_bytes",
    "split_free_bytes",
    "whole_free_bytes",
    "largest_free_small_bytes",
    "largest_free_large_bytes",
)


def _figures(table: Mapping[str, Any]) -> Figures:
    names = ("requested", "allocated", "reserved")
    requested, allocated, reserved = (table[f"{name}_bytes"] for name in names)
    first, second, third = (table.get(f"{name}_event_index") for name in names)
    return Figures(requested, allocated, reserved, (first, second, third))


def _fragmentation(table: Mapping[str, Any] | None) -> Fragmentation | None:
    return None if table is None else Fragmentation(*(table[key] for key in _FRAGMENTATION))


def _failed(table: Mapping[str, Any]) -> Refused:
    names = ("event_index", "asked_bytes", "device_free_bytes", "cause", "why")
    return Refused(*(table[name] for name in names))


def _replay(table: Mapping[str, Any]) -> Replay:
    failed = table["out_of_memory"]
    return Replay(
        settings=table["settings"],
        basis=table["basis"],
        peak_requested=table["peak_requested_bytes"],
        peak_allocated=table["peak_allocated_bytes"],
        peak_reserved=table["peak_reserved_bytes"],
        retries=table["retries_count"],
        failure=None
        if not failed
        else Failure(
            failed["event_index"],
            failed["asked_bytes"],
            failed["frame"],
            failed["allocated_bytes"],
            failed["reserved_bytes"],
            failed["largest_free_block_bytes"],
        ),
        notes=tuple(table["notes"]),
    )
