"""The tables of a memory snapshot: what is alive by frame or size, segments, and replays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rich.text import Text

from tui import units
from tui.app.lines import at, bar, cut, ending, fit, line, wrap
from tui.app.page import BLANK, Row
from tui.app.snapshot_state import SnapshotState
from tui.app.views.figures import Scale, aligned, plural, signed, sized
from tui.report.snapshot_view import Replay, SegmentUse, SnapshotView

_SHARE = 10


def _size(scale: Scale) -> int:
    return 17 if scale.exact else 11


def alive(state: SnapshotState, view: SnapshotView, scale: Scale, width: int) -> list[Row]:
    """The places that hold most at the instant, below the chart."""
    known = state.current
    wide = _size(scale)
    blocks = sum(one.blocks for one in view.live)
    head = line(f" alive then: {plural(blocks, 'block')}" if known else " looking up what is alive then")
    ending(ending(head, width - 1 - wide, "blocks"), width - 1, scale.unit)
    head.stylize("dim")
    rows = [Row(cut(head, width))]
    for one in view.live:
        text = line(" ", fit(one.where, max(8, width - wide - 12)))
        ending(text, width - 1 - wide, f"{one.blocks:,}", "dim")
        ending(text, width - 1, aligned(sized(one.bytes, scale), scale), "" if known else "dim")
        said = f"{one.bytes:,} B in {plural(one.blocks, 'block')}: {one.where}"
        rows.append(Row(cut(text, width), pick=True, detail=line(" " + fit(said, width - 2))))
    return rows


def live(state: SnapshotState, view: SnapshotView, scale: Scale, width: int) -> list[Row]:
    """Every place, or every size, with its share of what is alive."""
    wide, total = _size(scale), max(1, view.at_figures.requested)
    share = _SHARE + 1 if width >= 70 else 0
    end = width - 1 - share
    name = "size, bytes" if state.by_size else "frame"
    head = ending(ending(line("  " + name), end - wide, "blocks"), end, scale.unit)
    if share:
        at(head, end + 1, "share")
    head.stylize("dim")
    rows = [Row(cut(head, width))]
    parts = (
        [(f"{one.each:,}", one.where, one.blocks, one.bytes) for one in view.sizes]
        if state.by_size
        else [(one.where, "", one.blocks, one.bytes) for one in view.live]
    )
    for label, where, blocks, size in parts:
        room = max(8, end - wide - 11)
        shown = f"{label:>16}  {where}" if state.by_size else label
        text = line("  ", fit(shown, room))
        ending(text, end - wide, f"{blocks:,}", "dim")
        ending(text, end, aligned(sized(size, scale), scale), "strong")
        if share:
            at(text, end + 1, bar(size / total, _SHARE), "water")
        said = f"{size:,} B in {plural(blocks, 'block')}: {where or label}"
        rows.append(Row(cut(text, width), pick=True, detail=line(" " + fit(said, width - 2))))
    blocks = sum(one.blocks for one in view.live)
    text = ending(line("  ", ("= requested", "strong")), end - wide, f"{blocks:,}")
    ending(text, end, aligned(sized(sum(one.bytes for one in view.live), scale), scale), "strong")
    return [*rows, Row(text)]


def segments(view: SnapshotView, scale: Scale, width: int) -> list[Row]:
    """How much of what is reserved is free, whether it can be given back, and every segment."""
    if view.segments is None or view.fragmentation is None:
        why = view.unknown.get("segments") or "the record does not tell where blocks lay"
        return [Row(line((" " + part, "dim"))) for part in wrap(f"n/a: {why}", width - 2)]
    found = view.fragmentation
    rows = [Row(line(" " + part)) for part in _sums(view, width)]
    rows.append(BLANK)
    wide, share = _size(scale), width >= 72
    ends = [width - 1 - (share * 12) - wide * place for place in (2, 1, 0)]
    head = line(f"  pool   stream  blocks   {scale.unit}")
    for end, name in zip(ends, ("segment", "free", "largest"), strict=True):
        ending(head, end, name)
    if share:
        at(head, ends[-1] + 2, "in use")
    head.stylize("dim")
    rows.append(Row(cut(head, width)))
    rows += [_segment(some, ends, share, scale, width) for some in _alike(view.segments)]
    text = line("  ", ("= reserved", "strong"))
    for end, size in zip(ends, (found.reserved, found.free), strict=False):
        ending(text, end, aligned(sized(size, scale), scale), "strong")
    return [*rows, Row(cut(text, width))]


def _sums(view: SnapshotView, width: int) -> list[str]:
    found = view.fragmentation
    assert found is not None
    free = f"{units.size(found.free)} of {units.size(found.reserved)} reserved is free"
    split = (
        f"{units.size(found.split_free)} of it shares segments with blocks in use and cannot be given back"
    )
    large = f"largest free block {units.size(found.largest_free_large)} for requests over 1 MiB"
    small = f"{units.size(found.largest_free_small)} below"
    return wrap(f"{free}; {split}; {large}, {small}", width - 2)


def _alike(segments: Iterable[SegmentUse]) -> Iterable[list[SegmentUse]]:
    """Segments that differ in their address alone, together, in the order of the first of each."""
    groups: dict[SegmentUse, list[SegmentUse]] = {}
    for one in segments:
        groups.setdefault(replace(one, address=0), []).append(one)
    return groups.values()


def _segment(some: list[SegmentUse], ends: list[int], share: bool, scale: Scale, width: int) -> Row:
    one = some[0]
    text = line(f"  {one.pool:<6} {one.stream:>6} {one.blocks:>7,}")
    if len(some) > 1 and text.cell_len + len(f"  x {len(some):,}") + (18 if scale.exact else 9) < ends[0]:
        text.append(f"  x {len(some):,}", "strong")
    sizes = (one.bytes, one.free, one.largest_free)
    for end, size, role in zip(ends, sizes, ("strong", "", ""), strict=True):
        ending(text, end, aligned(sized(size, scale), scale), role)
    if share:
        at(text, ends[-1] + 2, bar(one.active / max(1, one.bytes), 10), "water")
    kind = "expandable, " if one.expandable else ""
    split = "its free bytes share it with blocks in use" if one.split else "whole"
    which = (
        f"{len(some):,} segments alike, the first {one.address:#x}, each"
        if len(some) > 1
        else f"segment {one.address:#x}"
    )
    said = f"{which}: {kind}{one.active:,} of {one.bytes:,} B in use; {split}"
    return Row(cut(text, width), pick=True, detail=line(" " + fit(said, width - 2)))


def what_if(state: SnapshotState, view: SnapshotView, scale: Scale, width: int) -> list[Row]:
    """The same requests under other settings of the allocator, each with what they would have reserved."""
    why = (
        "The same requests through the allocator's rules under other settings; w adds some, such as "
        "expandable_segments:True, or what may be reserved: capacity 24 GiB. As recorded is what the run itself "
        "reserved; default replays its requests without any setting."
    )
    rows = [*(Row(line(" " + part)) for part in wrap(why, min(width, 100) - 2)), BLANK]
    if state.fault:
        rows += [Row(line((" " + part, "amber"))) for part in wrap(f"! {state.fault}", width - 2)]
    wide = _size(scale)
    ends = [width - 1 - wide * place for place in (2, 1, 0)]
    head = line(f"  settings, {scale.unit}")
    for end, name in zip(ends, ("allocated", "reserved", "saved"), strict=True):
        ending(head, end, name)
    head.stylize("dim")
    rows.append(Row(cut(head, width)))
    recorded = line("  ", ("as recorded", "strong"))
    for end, size in zip(ends, (view.peak.allocated, view.peak.reserved), strict=False):
        ending(recorded, end, aligned(sized(size, scale), scale), "strong")
    rows.append(Row(cut(recorded, width)))
    for one in view.replays:
        rows.append(_replay(one, view, ends, scale, width))
    if len(view.replays) < len(state.settings):
        rows.append(Row(line((f" replaying {plural(len(state.settings), 'setting')}", "dim"))))
    if view.capacity is not None:
        rows += [Row(line(" " + part)) for part in wrap(_within(view, view.capacity), width - 2)]
    for one in view.replays:
        said = [f"{one.settings or 'default'}: {note}" for note in _notes(one)]
        rows += [Row(line((" " + part, "dim"))) for note in said for part in wrap(note, width - 2)]
    return rows


def _within(view: SnapshotView, capacity: int) -> str:
    """Whether each replay got by with what it might reserve."""
    ended = [
        f"{one.settings or 'default'} {'fits' if one.failure is None else 'runs out of memory'}"
        for one in view.replays
    ]
    return f"in {units.size(capacity)}: {', '.join(ended)}"


def _notes(one: Replay) -> list[str]:
    found = [*one.notes]
    if one.failure is not None:
        asked = units.size(one.failure.asked)
        found.insert(0, f"out of memory at event {one.failure.event:,}: {asked} asked")
    return found


def _replay(one: Replay, view: SnapshotView, ends: list[int], scale: Scale, width: int) -> Row:
    text: Text = line("  ", fit(one.settings or "default", max(8, ends[0] - 14)))
    ending(text, ends[0], aligned(sized(one.peak_allocated, scale), scale))
    ending(text, ends[1], aligned(sized(one.peak_reserved, scale), scale), "strong")
    ending(text, ends[2], aligned(signed(view.peak.reserved - one.peak_reserved, scale), scale))
    retries = f", cache emptied {one.retries:,} x" if one.retries else ""
    said = f"{one.settings or 'default'}: reserved {one.peak_reserved:,} B, {one.basis}{retries}"
    return Row(cut(text, width), pick=True, detail=line(" " + fit(said, width - 2)))
