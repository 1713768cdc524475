"""``peakmark snapshot``: what a recorded torch.cuda memory history says, for people or as JSON."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from .. import __version__, units
from ..budget import exhausted
from ..errors import ProjectError
from ..probe import recorded
from ..probe.blocks import SMALL_LIMIT, round_size, segment_size
from ..probe.recorded import Alive, Recorded, SnapshotError

SHOWN = 10
"""Places that the table names; the rest is one row."""
_FRAME = re.compile(r"(.*):(\d+) (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """Blocks alive at the peak that were made at one place of the program."""

    where: str
    kind: str
    """frame | no-frame | before."""
    bytes: int
    blocks: int


def snapshot(path: Path, as_json: bool) -> int:
    """Print what is in a file of ``torch.cuda.memory._dump_snapshot``; the exit code, always 0.

    Raises:
        ProjectError: the file cannot be read or is not a memory snapshot.
    """
    history = _load(path)
    if as_json:
        print(json.dumps(document(history), indent=2))
    else:
        print("\n".join(lines(history, shutil.get_terminal_size().columns)))
    return 0


def _load(path: Path) -> Recorded:
    if path.exists() and not path.is_file():
        raise ProjectError("is not a regular file", where=str(path), hint="name a file of a memory snapshot")
    try:
        return recorded.load(path)
    except SnapshotError as error:
        raise ProjectError(error.message, where=str(path), hint=error.hint) from error
    except FileNotFoundError as error:
        hint = "write one with torch.cuda.memory._dump_snapshot"
        raise ProjectError("no such file", where=str(path), hint=hint) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(f"cannot be read: {reason}", where=str(path)) from error


def places(history: Recorded) -> list[Place]:
    """What is alive at the requested peak, by place, largest first; the bytes add up to the peak."""
    groups: dict[tuple[str, str, str], list[tuple[Alive, int]]] = {}
    for alive in history.alive_at_peak():
        found = _FRAME.fullmatch(alive.frame)
        if found:
            key, line = ("frame", found[1], found[3]), int(found[2])
        else:
            key, line = ("before" if alive.born is None else "no-frame", "", ""), 0
        groups.setdefault(key, []).append((alive, line))
    stacks = any(event.frame for event in history.events)
    found_places = [
        Place(
            _where(kind, file, name, sorted({line for _, line in group}), stacks),
            kind,
            sum(alive.nbytes for alive, _ in group),
            len(group),
        )
        for (kind, file, name), group in groups.items()
    ]
    return sorted(found_places, key=lambda place: (-place.bytes, place.where))


def _where(kind: str, file: str, name: str, at: list[int], stacks: bool) -> str:
    if kind == "before":
        return "alive before recording began: the file has no stack"
    if kind == "no-frame":
        return (
            "no Python frame: made in the autograd engine's thread" if stacks else "recorded without a stack"
        )
    numbers = ", ".join(f":{line}" for line in at) if len(at) <= 3 else f":{at[0]} to :{at[-1]}"
    return f"{file}{numbers} {name}"


# --- for people ---------------------------------------------------------------------------------------------


def lines(history: Recorded, width: int) -> Iterator[str]:
    """The human output, at most ``width`` columns wide where that is 48 or more."""
    width = max(48, width)
    yield from _wrap(_counted(history), width)
    yield from _wrap(_peaks(history), width)
    yield from _wrap(_instant(history), width)
    for index, event in enumerate(history.events):
        if event.kind == "oom":
            yield from _wrap(
                f"note  out of memory at event {index:,}: {units.size(event.nbytes)} asked, "
                f"{units.size(event.address)} free on the device",
                width,
            )
            found = failed(history, index)
            yield from _wrap(f"cause {found.word.upper()}: {found.why}", width)
    yield from _table(places(history), min(width, 80))
    free = sum(segment.size for segment in history.final.segments) - _active_at_end(history)
    largest = units.size(history.largest_free_at_end)
    yield from _wrap(f"largest free block at the end: {largest} of {units.size(free)} cached", width)
    for note in history.notes:
        yield from _wrap(f"note  {note}", width)


def _counted(history: Recorded) -> str:
    settings = history.rules.settings
    allocator = "settings not in the file" if settings is None else settings or "defaults"
    made, freed, held = history.count("alloc"), history.count("free"), len(history.final.segments)
    counts = ((made, "allocation"), (freed, "free"), (held, "segment"))
    shown = ", ".join(f"{number:,} {name}{'' if number == 1 else 's'}" for number, name in counts)
    return f"{shown}, allocator {allocator}"


def _peaks(history: Recorded) -> str:
    allocated = history.peak_allocated
    return (
        f"peak  requested {units.gib(history.peak_requested.bytes)}"
        f" · allocated {units.gib(allocated.bytes if allocated else None)}"
        f" · reserved {units.gib(history.peak_reserved.bytes)} · cached {units.gib(_cached(history))} GiB"
    )


def _cached(history: Recorded) -> int | None:
    """Reserved high-water minus what is allocated at the requested peak."""
    allocated = history.at_peak.allocated
    return None if allocated is None else history.peak_reserved.bytes - allocated


def _instant(history: Recorded) -> str:
    index = history.peak_requested.index
    if index is None:
        return "at    the start: nothing recorded rose above it"
    event = history.events[index]
    frame = f" in {event.frame}" if event.frame else ""
    return f"at    event {index:,} of {len(history.events):,}: {units.exact(event.nbytes)} B{frame}"


def _active_at_end(history: Recorded) -> int:
    blocks = (block for segment in history.final.segments for block in segment.blocks)
    return sum(block.size for block in blocks if block.state != "free")


def _table(found: list[Place], width: int) -> Iterator[str]:
    """One row a place, its cells at the right edge; the bytes of the rest in a last row."""
    room = width - 20
    yield f"{'alive (innermost frame)':<{room}}{'GiB':>9}{'blocks':>10}"
    for place in found[:SHOWN]:
        where = place.where if len(place.where) < room else place.where[: room - 4] + "..."
        yield f"{where:<{room}}{units.cell(place.bytes):>9}{place.blocks:>10,}"
    rest = found[SHOWN:]
    if rest:
        total, blocks = sum(place.bytes for place in rest), sum(place.blocks for place in rest)
        yield f"{f'{len(rest)} other places':<{room}}{units.cell(total):>9}{blocks:>10,}"


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=" " * 6, break_on_hyphens=False)


# --- for programs -------------------------------------------------------------------------------------------


def document(history: Recorded) -> dict[str, Any]:
    """The JSON document; ``unknown`` has the reason of every null by its path."""
    found: dict[str, Any] = {
        "schema": 1,
        "document": "snapshot",
        "peakmark": __version__,
        "device_index": history.device,
        "settings": history.rules.settings,
        "events_count": len(history.events),
        "allocations_count": history.count("alloc"),
        "frees_count": history.count("free"),
        "segments_count": len(history.final.segments),
        "segments_made_count": history.count("segment_alloc"),
        "start": _totals(history.start),
        "peak": _peak_table(history),
        "instant": _instant_table(history),
        "end": _totals(history.end),
        "largest_free_block_bytes": history.largest_free_at_end,
        "alive": [
            {"where": place.where, "kind": place.kind, "bytes": place.bytes, "blocks_count": place.blocks}
            for place in places(history)
        ],
        "placement": {
            "wrong_addresses_count": history.played.wrong_addresses,
            "start_tail_fixes_count": history.played.start_tail_fixes,
            "open_tails_count": len(history.played.open_tails),
            "open_tails_bytes": sum(history.played.open_tails.values()),
        },
        "out_of_memory": [
            _failed_table(history, index) for index, event in enumerate(history.events) if event.kind == "oom"
        ],
        "notes": history.notes,
    }
    found["unknown"] = {path: _reason(path, history) for path in _nulls(found)}
    return found


def failed(history: Recorded, index: int) -> exhausted.Finding:
    """Why the allocation of event ``index`` failed; a history knows neither a cap nor other processes."""
    return exhausted.classify(_numbers(history, index))


def _numbers(history: Recorded, index: int) -> exhausted.Numbers:
    event, totals = history.events[index], history.totals(index)
    rounded = round_size(event.nbytes)
    largest, free = history.free_before(index, rounded <= SMALL_LIMIT) or (None, None)
    return exhausted.Numbers(
        requested=event.nbytes,
        device_free=event.address,
        reserved=totals.reserved,
        allocated=totals.allocated,
        largest_free=largest,
        free_sum=free,
        segment=segment_size(rounded),
    )


def _failed_table(history: Recorded, index: int) -> dict[str, Any]:
    numbers, found = _numbers(history, index), failed(history, index)
    return {
        "event_index": index,
        "asked_bytes": numbers.requested,
        "device_free_bytes": numbers.device_free,
        "largest_free_block_bytes": numbers.largest_free,
        "free_blocks_bytes": numbers.free,
        "cause": found.word,
        "why": found.why,
    }


def _totals(totals: recorded.Totals) -> dict[str, int | None]:
    return {f"{name}_bytes": value for name, value in totals._asdict().items()}


def _peak_table(history: Recorded) -> dict[str, int | None]:
    allocated = history.peak_allocated
    return {
        "requested_bytes": history.peak_requested.bytes,
        "requested_event_index": history.peak_requested.index,
        "allocated_bytes": allocated.bytes if allocated else None,
        "allocated_event_index": allocated.index if allocated else None,
        "reserved_bytes": history.peak_reserved.bytes,
        "reserved_event_index": history.peak_reserved.index,
        "cached_bytes": _cached(history),
    }


def _instant_table(history: Recorded) -> dict[str, Any]:
    index = history.peak_requested.index
    event = None if index is None else history.events[index]
    return {
        "event_index": index,
        "asked_bytes": event.nbytes if event else None,
        "frame": (event.frame or None) if event else None,
        **_totals(history.at_peak),
    }


def _nulls(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in cast("dict[str, Any]", value).items():
            yield from _nulls(one, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, one in enumerate(cast("list[Any]", value)):
            yield from _nulls(one, f"{path}.{index}")
    elif value is None:
        yield path


def _reason(path: str, history: Recorded) -> str:
    if path == "settings":
        return "the file has no allocator settings; older torch did not write them"
    if path == "instant.frame" and history.peak_requested.index is not None:
        return "no Python frame was recorded for this allocation"
    from_the_start = path in ("instant.frame", "instant.asked_bytes") or path.endswith("_index")
    if from_the_start and not (path.startswith("peak.allocated") and history.peak_allocated is None):
        return "the peak was there before the first event"
    return f"{history.rules.unlike}, so blocks were not followed"
