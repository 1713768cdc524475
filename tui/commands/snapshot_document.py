"""The JSON document of a recorded torch.cuda memory history."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tui import __version__
from tui.budget import exhausted
from tui.probe import recorded
from tui.probe.blocks import FREE, SMALL_LIMIT, Segment, round_size, segment_size
from tui.probe.recorded import Alive, Recorded
from tui.probe.what_if import WhatIf
from tui.report.json_values import Missing, explained, known
from tui.report.snapshot_view import POINTS

_FRAME = re.compile(r"(.*):(\d+) (.*)", re.DOTALL)

BEFORE = "alive before recording began: the file has no stack"
ENGINE = "no Python frame: made in the autograd engine's thread"
STACKLESS = "recorded without a stack"
EARLIER = "the peak was there before the first event"


@dataclass(frozen=True, slots=True)
class Instant:
    """What ``--at`` asked for; ``index`` None: before the first event."""

    what: str
    index: int | None


def document(
    history: Recorded,
    file: str = "",
    at: Instant | None = None,
    replays: Sequence[WhatIf] = (),
    capacity: int | None = None,
) -> dict[str, Any]:
    """The JSON document; ``unknown`` has the reason of every null by its path.

    Args:
        history: of one device.
        file: its name, without the folder.
        at: the instant of what is listed; None: the requested peak.
        replays: under other settings.
        capacity: what they might reserve.
    """
    at = at or Instant("peak", history.peak_requested.index)
    unlike = f"{history.rules.unlike}, so blocks were not followed"
    segments = history.segments_at(at.index)
    nowhere = Missing(f"{unlike}; only the end is in the file")
    return explained(
        {
            **_head(history, file),
            "start": _totals(history, history.start),
            "peak": _peak_table(history),
            "instant": _instant_table(history, history.peak_requested.index),
            "end": _totals(history, history.end),
            "largest_free_block_bytes": history.largest_free_at_end,
            "free_bytes": sum(_free(segment) for segment in history.final.segments),
            "at": {"what": at.what, **_instant_table(history, at.index)},
            "alive": list(_places(history, at.index)),
            "alive_by_size": list(_sizes(history, at.index)),
            "timeline": _timeline(history),
            "segments": nowhere
            if segments is None
            else [_segment(history, one) for one in _ranked(segments)],
            "fragmentation": nowhere if segments is None else _fragmentation(segments),
            "placement": {
                "wrong_addresses_count": known(history.played.wrong_addresses, unlike),
                "start_tail_fixes_count": history.played.start_tail_fixes,
                "open_tails_count": len(history.played.open_tails),
                "open_tails_bytes": sum(history.played.open_tails.values()),
            },
            "out_of_memory": list(_failures(history)),
            "capacity_bytes": known(capacity, "no --capacity was given: nothing runs out"),
            "replays": [_replay(one) for one in replays],
            "notes": history.notes,
        }
    )


def _head(history: Recorded, file: str) -> dict[str, Any]:
    """Of what it is, and how many of everything."""
    return {
        "schema": 1,
        "document": "snapshot",
        "peakmark": __version__,
        "file": file,
        "device_index": history.device,
        "settings": known(
            history.rules.settings, "the file has no allocator settings; older torch did not write them"
        ),
        "events_count": len(history.events),
        "allocations_count": history.count("alloc"),
        "frees_count": history.count("free"),
        "segments_count": len(history.final.segments),
        "segments_made_count": history.count("segment_alloc"),
    }


def _totals(history: Recorded, totals: recorded.Totals) -> dict[str, Any]:
    return {f"{name}_bytes": _known(history, value) for name, value in totals._asdict().items()}


def _known(history: Recorded, value: int | None) -> Any:
    return known(value, f"{history.rules.unlike}, so blocks were not followed")


def _peak_table(history: Recorded) -> dict[str, Any]:
    """Peaks with the events that reached them first, and what was cached at the requested one."""
    requested, allocated, reserved = history.peak_requested, history.peak_allocated, history.peak_reserved
    at = history.at_peak.allocated
    index = None if allocated is None else known(allocated.index, EARLIER)
    return {
        "requested_bytes": requested.bytes,
        "requested_event_index": known(requested.index, EARLIER),
        "allocated_bytes": _known(history, allocated.bytes if allocated else None),
        "allocated_event_index": _known(history, None) if allocated is None else index,
        "reserved_bytes": reserved.bytes,
        "reserved_event_index": known(reserved.index, EARLIER),
        "cached_bytes": _known(history, None if at is None else reserved.bytes - at),
    }


def _instant_table(history: Recorded, index: int | None) -> dict[str, Any]:
    event = None if index is None else history.events[index]
    frame = (event.frame or None) if event else None
    reason = EARLIER if event is None else "no Python frame was recorded for this event"
    return {
        "event_index": known(index, EARLIER),
        "event": known(event.kind if event else None, EARLIER),
        "asked_bytes": known(event.nbytes if event else None, EARLIER),
        "frame": known(frame, reason),
        **_totals(history, history.totals(index)),
    }


def _places(history: Recorded, index: int | None) -> Iterator[dict[str, Any]]:
    """What is alive by place, most bytes first; the bytes add up to what is requested then."""
    groups: dict[tuple[str, str, str], list[tuple[Alive, int]]] = {}
    for alive in history.alive_at(index):
        found = _FRAME.fullmatch(alive.frame)
        if found:
            key, line = ("frame", found[1], found[3]), int(found[2])
        else:
            key, line = ("before" if alive.born is None else "no-frame", "", ""), 0
        groups.setdefault(key, []).append((alive, line))
    stacks = _has_stacks(history)
    rows: list[dict[str, Any]] = [
        {
            "where": _where(kind, file, name, sorted({line for _, line in group}), stacks),
            "kind": kind,
            "bytes": sum(alive.nbytes for alive, _ in group),
            "blocks_count": len(group),
        }
        for (kind, file, name), group in groups.items()
    ]
    yield from sorted(rows, key=lambda row: (-row["bytes"], row["where"]))


def _has_stacks(history: Recorded) -> bool:
    return any(event.frame for event in history.events)


def _where(kind: str, file: str, name: str, at: list[int], stacks: bool) -> str:
    if kind == "before":
        return BEFORE
    if kind == "no-frame":
        return ENGINE if stacks else STACKLESS
    numbers = ", ".join(f":{line}" for line in at) if len(at) <= 3 else f":{at[0]} to :{at[-1]}"
    return f"{file}{numbers} {name}"


def _sizes(history: Recorded, index: int | None) -> Iterator[dict[str, Any]]:
    """What is alive by the size of a block, most bytes first, with where most of that size were made."""
    places: dict[int, Counter[str]] = {}
    stacks = _has_stacks(history)
    for alive in history.alive_at(index):
        nowhere = BEFORE if alive.born is None else ENGINE if stacks else STACKLESS
        places.setdefault(alive.nbytes, Counter())[alive.frame or nowhere.partition(":")[0]] += 1
    for each, counted in sorted(places.items(), key=lambda one: (-one[0] * one[1].total(), -one[0])):
        where, most = counted.most_common(1)[0]
        more = counted.total() - most
        yield {
            "each_bytes": each,
            "blocks_count": counted.total(),
            "bytes": each * counted.total(),
            "where": f"{where} and {more} elsewhere" if more else where,
        }


def _timeline(history: Recorded) -> dict[str, Any]:
    """Least and most of what is allocated, over at most ``POINTS`` stretches of events."""
    played, start = history.played, history.start
    levels, before, of = played.allocated, start.allocated, "allocated"
    if levels is None or before is None:
        levels, before, of = played.requested, start.requested, "requested"
    count = len(levels)
    edges = sorted({count * step // POINTS for step in range(POINTS + 1)})
    points: list[dict[str, int]] = []
    for first, last in pairwise(edges):
        part = [before if first == 0 else levels[first - 1], *levels[first:last]]
        held = [start.reserved if first == 0 else played.reserved[first - 1], *played.reserved[first:last]]
        points.append(
            {
                "event_index": first,
                "low_bytes": min(part),
                "high_bytes": max(part),
                "reserved_bytes": max(held),
            }
        )
    return {"of": of, "points": points}


def _free(segment: Segment) -> int:
    return sum(block.size for block in segment.blocks if block.state == FREE)


def _largest(segment: Segment) -> int:
    return max((block.size for block in segment.blocks if block.state == FREE), default=0)


def _ranked(segments: list[Segment]) -> list[Segment]:
    return sorted(segments, key=lambda one: (-_free(one), one.address))


def _segment(history: Recorded, segment: Segment) -> dict[str, Any]:
    return {
        "address": segment.address,
        "bytes": segment.size,
        "pool": "small" if segment.small else "large",
        "stream": segment.stream,
        "active_bytes": segment.size - _free(segment),
        "free_bytes": _free(segment),
        "largest_free_block_bytes": _largest(segment),
        "blocks_count": len(segment.blocks),
        "expandable": segment.address in history.final.growing,
    }


def _fragmentation(segments: list[Segment]) -> dict[str, int]:
    """Sums over the segments; what is free in a split one cannot go back to the driver."""
    reserved = sum(segment.size for segment in segments)
    free = sum(_free(segment) for segment in segments)
    whole = sum(segment.size for segment in segments if _free(segment) == segment.size)
    return {
        "segments_count": len(segments),
        "reserved_bytes": reserved,
        "active_bytes": reserved - free,
        "free_bytes": free,
        "split_free_bytes": free - whole,
        "whole_free_bytes": whole,
        "largest_free_small_bytes": max((_largest(one) for one in segments if one.small), default=0),
        "largest_free_large_bytes": max((_largest(one) for one in segments if not one.small), default=0),
    }


def _failures(history: Recorded) -> Iterator[dict[str, Any]]:
    """Why each failed allocation failed; a history knows neither a cap nor other processes."""
    for index, event in enumerate(history.events):
        if event.kind != "oom":
            continue
        totals, rounded = history.totals(index), round_size(event.nbytes)
        largest, free = history.free_before(index, rounded <= SMALL_LIMIT) or (None, None)
        numbers = exhausted.Numbers(
            requested=event.nbytes,
            device_free=event.address,
            reserved=totals.reserved,
            allocated=totals.allocated,
            largest_free=largest,
            free_sum=free,
            segment=segment_size(rounded),
        )
        found = exhausted.classify(numbers)
        yield {
            "event_index": index,
            "asked_bytes": event.nbytes,
            "device_free_bytes": event.address,
            "largest_free_block_bytes": _known(history, largest),
            "free_blocks_bytes": _known(history, numbers.free),
            "cause": found.word,
            "why": found.why,
        }


def _replay(found: WhatIf) -> dict[str, Any]:
    failed = found.failure
    return {
        "settings": found.settings,
        "basis": found.basis,
        "peak_requested_bytes": found.peak_requested,
        "peak_allocated_bytes": found.peak_allocated,
        "peak_reserved_bytes": found.peak_reserved,
        "retries_count": found.retries,
        "memory_stats": found.statistics,
        "out_of_memory": {}
        if failed is None
        else {
            "event_index": failed.event,
            "asked_bytes": failed.asked,
            "frame": failed.frame,
            "allocated_bytes": failed.allocated,
            "reserved_bytes": failed.reserved,
            "largest_free_block_bytes": failed.largest_free,
        },
        "notes": found.notes,
    }
