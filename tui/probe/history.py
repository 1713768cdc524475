"""The shapes inside a torch.cuda memory snapshot: events of one device, its final segments, its rules.

A snapshot is what ``torch.cuda.memory._snapshot()`` returns and ``_dump_snapshot`` writes.  Sizes are bytes,
times ns since 1970.  Standard library only, Python 3.9 syntax.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from .blocks import ALLOCATED, AWAITING, FREE, Placed, Segment
from .unpickle import HOW, SnapshotError, printable

KINDS = {
    "alloc": "alloc",
    "free_requested": "free_requested",
    "free_completed": "free",
    "segment_alloc": "segment_alloc",
    "segment_free": "segment_free",
    "segment_map": "map",
    "segment_unmap": "unmap",
    "oom": "oom",
    "snapshot": "snapshot",
}
"""torch's name of an action: ours."""
STATES = {
    "active_allocated": ALLOCATED,
    "active_awaiting_free": AWAITING,
    "active_pending_free": AWAITING,
    "inactive": FREE,
}


@dataclass
class AllocationEvent:
    """One recorded event.

    ``kind`` is a value of KINDS, or ``other`` for an action that is not known; ``free_requested`` is the
    moment when the owner let go, ``free`` when the bytes can be used again.  ``nbytes`` are requested bytes
    of an alloc or free and segment bytes of the rest; an oom has the free bytes of the device as ``address``
    and what was asked, rounded, as ``nbytes``.  ``frame`` is the innermost Python frame of an alloc or oom,
    such as ``optimizer.py:80 step``, or "".
    """

    time_ns: Optional[int]
    address: int
    nbytes: int
    kind: str
    stream: int
    frame: str


@dataclass
class Final:
    """A device's segments when the snapshot was taken."""

    segments: List[Segment]
    frames: Dict[int, str]
    """Innermost Python frame of a block that is not free, by address; only those that have one."""
    stacked: List[int]
    """Addresses of blocks that are not free and were allocated while stacks were being recorded."""
    growing: List[int] = field(default_factory=list)
    """Addresses of the segments that can grow."""
    private: int = 0
    """How many belong to private pools, as CUDA graphs use them."""


def traces(snapshot: Any) -> List[List[Any]]:
    """The recorded events of each device.

    Raises:
        SnapshotError: it is not a memory snapshot.
    """
    if not isinstance(snapshot, dict) or "segments" not in snapshot or "device_traces" not in snapshot:
        raise SnapshotError(
            "is not a memory snapshot: it has no segments and device_traces",
            HOW,
        )
    found = snapshot["device_traces"]
    if not isinstance(found, list) or not all(isinstance(trace, list) for trace in found):
        raise SnapshotError("device_traces is not a list of lists of events")
    return found


def choose_device(found: List[List[Any]], device: Optional[int]) -> int:
    """``device`` when it has events; by default the one with most of them.

    Raises:
        SnapshotError: nothing was recorded there.
    """
    counts = [len(trace) for trace in found]
    if not any(counts):
        raise SnapshotError(
            "holds no recorded events",
            "call torch.cuda.memory._record_memory_history() before the part that matters",
        )
    if device is None:
        return counts.index(max(counts))
    if not 0 <= device < len(counts) or not counts[device]:
        recorded = ", ".join(str(index) for index, count in enumerate(counts) if count)
        raise SnapshotError("holds no events of device %d, only of %s" % (device, recorded))
    return device


def parse_events(trace: List[Any]) -> Tuple[List[AllocationEvent], Dict[str, int]]:
    """Events in recorded order, and how often each unknown action occurs.

    Raises:
        SnapshotError: an event has a missing or mistyped field.
    """
    events: List[AllocationEvent] = []
    unknown: Counter = Counter()
    named: Dict[int, str] = {}  # by id of the list of frames, which events share
    for index, entry in enumerate(trace):
        try:
            action = entry["action"]
            kind = KINDS.get(action, "other") if isinstance(action, str) else "other"
            address = entry["device_free"] if kind == "oom" and "addr" not in entry else entry.get("addr", 0)
            size, stream, time_us = entry.get("size", 0), entry.get("stream", 0), entry.get("time_us")
            frame = ""
            if kind in ("alloc", "oom"):
                frames = entry.get("frames") or ()
                if id(frames) not in named:
                    named[id(frames)] = innermost(frames)
                frame = named[id(frames)]
        except (TypeError, KeyError, AttributeError) as error:
            raise SnapshotError("event %d is not of a memory snapshot (%s)" % (index, shown(error))) from None
        if not (_fits(address) and _fits(size) and _fits(stream) and isinstance(action, str)):
            raise SnapshotError("event %d has no whole numbers as address, size and stream" % index)
        if size <= 0 and kind not in ("oom", "snapshot", "other"):
            raise SnapshotError("event %d (%s) has a size of %d" % (index, action, size))
        if kind == "other":
            unknown[printable(action)] += 1
        time_ns = time_us * 1000 if _fits(time_us) else None
        events.append(AllocationEvent(time_ns, address, size, kind, stream, frame))
    return events, dict(unknown)


def _fits(number: Any) -> bool:
    """Whether it is a whole number of 64 bits, as every address and size is."""
    return type(number) is int and -(1 << 63) <= number < 1 << 64


def shown(error: Exception) -> str:
    """An error in a few safe words, whatever the file put into it."""
    said = error.args[0] if error.args and isinstance(error.args[0], str) else ""
    return printable("%s: %s" % (type(error).__name__, said[:100]))


def innermost(frames: Any) -> str:
    """The innermost Python frame as ``file.py:line name``; torch's own only when there is no other.

    Optimizers and sharding stay, although they are torch's: what they allocate is theirs.
    """
    found = ""
    for frame in frames:
        name = frame["filename"]
        if name[-3:] != ".py" and name[:1] != "<":
            continue
        line, function = frame["line"], frame["name"]
        if not (_fits(line) and isinstance(function, str)):
            raise TypeError("a frame has no line and name")
        text = "%s:%d %s" % (name.replace("\\", "/").rpartition("/")[2], line, function)
        if not _is_plumbing(name):
            return printable(text)
        found = found or text
    return printable(found)


def _is_plumbing(filename: str) -> bool:
    head, found, rest = ("/" + filename.replace("\\", "/")).rpartition("/torch/")
    if not found or (head and not head.endswith(("site-packages", "dist-packages", "pytorch"))):
        return False
    return not rest.startswith(("optim/", "distributed/"))


def parse_final(snapshot: Dict[str, Any], device: int) -> Final:
    """The segments of ``device`` with their blocks.

    Raises:
        SnapshotError: a segment has a missing or mistyped field, or blocks that do not cover it.
    """
    final = Final([], {}, [])
    if not isinstance(snapshot["segments"], list):
        raise SnapshotError("segments is not a list")
    for index, entry in enumerate(snapshot["segments"]):
        try:
            if entry["device"] == device:
                _parse_segment(entry, final)
        except (TypeError, KeyError, AttributeError) as error:
            raise SnapshotError(
                "segment %d is not of a memory snapshot (%s)" % (index, shown(error))
            ) from None
    final.segments.sort(key=lambda segment: segment.address)
    for low, high in zip(final.segments, final.segments[1:]):
        if low.address + low.size > high.address:
            raise SnapshotError("the segments at %#x and %#x overlap" % (low.address, high.address))
    return final


def _parse_segment(entry: Dict[str, Any], final: Final) -> None:
    small = entry["segment_type"] == "small"
    segment = Segment(entry["address"], entry["total_size"], entry["stream"], small)
    if entry.get("is_expandable"):
        final.growing.append(segment.address)
    final.private += tuple(entry.get("segment_pool_id", (0, 0))) != (0, 0)
    at = segment.address
    _require_sizes(segment.address, segment.stream, segment.size)
    for part in entry["blocks"]:
        name = part["state"]
        state = STATES[name if isinstance(name, str) else ""]
        asked = part.get("requested_size", part["size"]) if state != FREE else 0
        _require_sizes(asked, at, part["size"])
        segment.blocks.append(Placed(at, part["size"], asked, state, at if state != FREE else None))
        if state != FREE and part.get("frames"):
            final.stacked.append(at)
            final.frames[at] = innermost(part["frames"])
        at += part["size"]
    if at != segment.address + segment.size:
        raise SnapshotError("the blocks of the segment at %#x do not cover it exactly" % segment.address)
    final.segments.append(segment)


def _require_sizes(first: Any, second: Any, size: Any) -> None:
    if not (_fits(first) and _fits(second) and _fits(size) and size > 0):
        raise TypeError("sizes and addresses are whole numbers")


@dataclass
class Rules:
    """Which rules the recorded allocator followed."""

    settings: Optional[str]
    """What differs from the default, such as ``expandable_segments:True``; None: the record does not say."""
    unlike: str
    """Why blocks are not placed by the default rules; "" when they are."""
    tailless: bool
    """Every block has just its rounded size."""


def parse_rules(snapshot: Dict[str, Any], final: Final, events: List[AllocationEvent]) -> Rules:
    """The rules behind a snapshot, from its settings, segments and events.

    Raises:
        SnapshotError: the settings are not a table.
    """
    table = snapshot.get("allocator_settings")
    if not isinstance(table, (dict, type(None))):
        raise SnapshotError("allocator_settings is not a table")
    table = table or {}
    changed = []
    divisions = table.get("roundup_power2_divisions")
    if isinstance(divisions, dict) and any(divisions.values()):
        changed.append("roundup_power2_divisions")
    limit = table.get("max_split_size", -1)
    if isinstance(limit, int) and 0 <= limit < 1 << 60:
        changed.append("max_split_size_mb:%d" % (limit >> 20))
    odd = bool(changed)
    if table.get("expandable_segments"):
        changed.append("expandable_segments:True")
    threshold = table.get("garbage_collection_threshold")
    if threshold and isinstance(threshold, (int, float)):  # what it frees is recorded, so the rules stay
        changed.append("garbage_collection_threshold:%.4g" % threshold)
    mapped = final.growing or any(event.kind in ("map", "unmap") for event in events)
    unlike = ""
    if odd:
        unlike = "the allocator settings are not the default ones (%s)" % ",".join(changed)
    elif mapped or table.get("expandable_segments"):
        unlike = "the allocator used expandable segments"
    plain = any(event.kind == "segment_alloc" for event in events) or len(final.growing) < len(final.segments)
    settings = ",".join(changed) if "allocator_settings" in snapshot else None
    return Rules(settings, unlike, bool(unlike) and not odd and not plain)
