"""The human output of ``peakmark snapshot``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tui import units
from tui.report.lines import clip, columns, hanging, joined, right
from tui.report.snapshot_view import Replay, SegmentUse, SnapshotView
from tui.report.text_snapshot_chart import FULL, PART, RESERVED, axis_line, chart_lines

TABLE = 80
"""Columns of a table at most, so that figures stay near their names."""


def snapshot_lines(found: SnapshotView, width: int, top: int = 10) -> list[str]:
    """What was recorded, at most ``width`` columns wide.

    Args:
        found: the values.
        width: columns, 60 or more.
        top: rows of each table; the rest is one row.
    """
    width = max(60, width)
    return [
        *_head(found, width),
        *_chart(found, min(width, TABLE)),
        *_failures(found, width),
        *_alive(found, min(width, TABLE), top),
        *_sizes(found, min(width, TABLE), top),
        *_segments(found, min(width, TABLE), width, top),
        *_replays(found, min(width, TABLE), width),
        *_largest(found, width),
        *(line for note in found.notes for line in hanging(f"note  {note}", width, 6)),
        *_verdicts(found, width),
    ]


def _head(found: SnapshotView, width: int) -> Iterator[str]:
    counts = (
        (found.allocations, "allocation"),
        (found.frees, "free"),
        (found.segments_at_end, "segment"),
    )
    settings = "settings not in the file" if found.settings is None else found.settings or "defaults"
    shown = ", ".join(f"{number:,} {name}{'' if number == 1 else 's'}" for number, name in counts)
    yield from hanging(f"{shown}, allocator {settings}", width, 6)
    peak = found.peak
    told = f"requested {units.gib(peak.requested)} · allocated {units.gib(peak.allocated)}"
    told += f" · reserved {units.gib(peak.reserved)} · cached {units.gib(found.cached)} GiB"
    yield from hanging(f"peak  {told}", width, 6)
    yield from hanging(_at(found), width, 6)
    if found.at != "peak":
        here = found.at_figures
        figures = (here.requested, here.allocated, here.reserved)
        names = ("requested", "allocated", "reserved")
        told = " · ".join(f"{name} {units.gib(one)}" for name, one in zip(names, figures, strict=True))
        yield from hanging(f"then  {told} GiB", width, 6)


def _at(found: SnapshotView) -> str:
    if found.at_event is None:
        return "at    the start: nothing recorded rose above it"
    place = "the end, " if found.at == "end" else ""
    asked = f": {units.exact(found.at_asked)} B" if found.at_asked else ""
    frame = f" in {found.at_frame}" if found.at_frame else ""
    return f"at    {place}event {found.at_event:,} of {found.events:,}{asked}{frame}"


def _chart(found: SnapshotView, width: int) -> Iterator[str]:
    if not found.points:
        return
    yield from hanging(
        f"{found.timeline_of} over events: {FULL} all the time, {PART} at times; {RESERVED} reserved",
        width,
        6,
    )
    yield from chart_lines(found.points, width)
    yield axis_line(found.points, found.events, found.at_event, width)


def _failures(found: SnapshotView, width: int) -> Iterator[str]:
    for one in found.failures:
        asked, free = units.size(one.asked), units.size(one.device_free)
        note = f"note  out of memory at event {one.event:,}: {asked} asked, {free} free on the device"
        yield from hanging(note, width, 6)
        yield from hanging(f"cause {one.cause.upper()}: {one.why}", width, 6)


def _alive(found: SnapshotView, width: int, top: int) -> Iterator[str]:
    room = width - 20
    when = "" if found.at == "peak" else f" {_when(found)}"
    yield f"{f'alive{when} (innermost frame)':<{room}}{'GiB':>9}{'blocks':>10}"
    for one in found.live[:top]:
        yield f"{_fitted(one.where, room)}{units.cell(one.bytes):>9}{one.blocks:>10,}"
    rest = found.live[top:]
    if rest:
        total, blocks = sum(one.bytes for one in rest), sum(one.blocks for one in rest)
        yield f"{_others(len(rest), 'place'):<{room}}{units.cell(total):>9}{blocks:>10,}"


def _sizes(found: SnapshotView, width: int, top: int) -> Iterator[str]:
    room = width - 35
    yield f"{'alive by size':>15} {'(most of them from)':<{room - 1}}{'GiB':>9}{'blocks':>10}"
    for one in found.sizes[:top]:
        each = f"{units.exact(one.each)} B"
        yield f"{each:>15} {_fitted(one.where, room - 1)}{units.cell(one.bytes):>9}{one.blocks:>10,}"
    rest = found.sizes[top:]
    if rest:
        total, blocks = sum(one.bytes for one in rest), sum(one.blocks for one in rest)
        yield f"{_others(len(rest), 'size'):>15} {'':<{room - 1}}{units.cell(total):>9}{blocks:>10,}"


def _segments(found: SnapshotView, width: int, wide: int, top: int) -> Iterator[str]:
    when, sums = _when(found), found.fragmentation
    if sums is None or found.segments is None:
        reason = found.unknown.get("segments", "not known")
        yield from hanging(f"segments {when}: n/a, {reason}", wide, 6)
        return
    yield from joined(
        (
            f"{sums.segments:,} segments {when}: {units.gib(sums.reserved)} GiB",
            f"in use {units.gib(sums.active)}",
            f"free {units.gib(sums.free)}",
            f"of it {units.gib(sums.split_free)} in split segments, which stay",
        ),
        wide,
    )
    yield from joined(
        (
            f"largest free block: {units.size(sums.largest_free_large)} for large requests",
            f"{units.size(sums.largest_free_small)} for those up to 1 MiB",
        ),
        wide,
    )
    wide_enough = width >= 76
    widths = _WIDTHS if wide_enough else _NARROW
    room = width - sum(widths)
    head = ("pool", "blocks", "MiB", "in use", "free", "largest free")
    yield f"{'most free in segment':<{room}}{_cells(head if wide_enough else head[-len(widths) :], widths)}"
    named = [one for one in found.segments[:top] if one.free]
    for one in named:
        grows = " grows" if one.expandable else ""
        cells = _row(one.pool, (one,))
        yield f"{_fitted(f'{one.address:#x}{grows}', room)}{_cells(cells[-len(widths) :], widths)}"
    rest = found.segments[len(named) :]
    if rest:
        cells = _row("", rest)
        yield f"{_others(len(rest), 'segment'):<{room}}{_cells(cells[-len(widths) :], widths)}"


_WIDTHS = (6, 8, 10, 10, 9, 14)
_NARROW = (9, 14)


def _when(found: SnapshotView) -> str:
    return {"peak": "at the peak", "end": "at the end"}.get(found.at, f"after event {found.at}")


def _cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    return right(cells, widths).rstrip()


def _row(pool: str, of: Sequence[SegmentUse]) -> list[str]:
    mebibytes = (sum(one.bytes for one in of), sum(one.active for one in of), sum(one.free for one in of))
    largest = max(one.largest_free for one in of)
    return [pool, f"{sum(one.blocks for one in of):,}", *map(_mib, mebibytes), units.size(largest)]


def _mib(size: int) -> str:
    if 0 < size < units.MIB // 20:
        return "<.1"
    return f"{size / units.MIB:,.1f}" if size else "0"


def _replays(found: SnapshotView, width: int, wide: int) -> Iterator[str]:
    if not found.replays:
        return
    widths = _COLUMNS if width >= 76 else _COLUMNS[:-1]
    room = width - sum(widths)
    limit = "" if found.capacity is None or width < 76 else f" in {units.size(found.capacity)}"
    head = ("reserved", "allocated", "retries", "runs out", "rules")[: len(widths)]
    yield f"{_fitted(f'replayed{limit}, GiB', room)}{_cells(head, widths)}"
    peak = found.peak
    cells = (units.cell(peak.reserved), units.cell(peak.allocated), "n/a", "n/a", "")[: len(widths)]
    yield f"{'as recorded':<{room}}{_cells(cells, widths)}"
    for one in found.replays:
        name, cells = one.settings or "defaults", _cells(_replay(one)[: len(widths)], widths)
        if columns(name) >= room:  # the whole name on a line of its own
            yield from hanging(name, width, 6)
            name = ""
        yield f"{_fitted(name, room)}{cells}"
    for basis in dict.fromkeys(one.basis for one in found.replays):
        names = ", ".join(one.settings or "defaults" for one in found.replays if one.basis == basis)
        named = "" if width >= 76 else f" ({names})"
        yield from hanging(f"rules {_short(basis)}: {basis}{named}", wide, 6)
    for note in dict.fromkeys(
        f"{one.settings or 'defaults'}: {note}" for one in found.replays for note in one.notes
    ):
        yield from hanging(f"note  {note}", wide, 6)


_COLUMNS = (10, 11, 9, 10, 8)


def _replay(one: Replay) -> Sequence[str]:
    failed = one.failure
    out = "no" if failed is None else "at start" if failed.event < 0 else f"{failed.event:,}"
    reserved, allocated = units.cell(one.peak_reserved), units.cell(one.peak_allocated)
    return reserved, allocated, f"{one.retries:,}", out, _short(one.basis)


def _short(basis: str) -> str:
    return "proved" if basis.endswith("recorded traces") else "source"


def _largest(found: SnapshotView, width: int) -> Iterator[str]:
    largest = units.size(found.largest_free_at_end)
    yield from hanging(
        f"largest free block at the end: {largest} of {units.size(found.free_at_end)} cached", width, 6
    )


def _verdicts(found: SnapshotView, width: int) -> Iterator[str]:
    """With a capacity: whether each replay fitted."""
    if found.capacity is None:
        return
    for one in found.replays:
        name = one.settings or "the defaults"
        limit = units.size(found.capacity)
        failed = one.failure
        if failed is None:
            yield from hanging(
                f"FITS {limit} with {name}: {units.size(one.peak_reserved)} reserved", width, 6
            )
            continue
        where = "the blocks from before the record" if failed.event < 0 else f"event {failed.event:,}"
        frame = f" in {failed.frame}" if failed.frame else ""
        yield from hanging(
            f"DOES NOT FIT {limit} with {name}: {where} asked {units.size(failed.asked)}{frame} with "
            f"{units.size(failed.reserved)} reserved, {units.size(failed.allocated)} of it allocated; "
            f"the largest free block was {units.size(failed.largest_free)}",
            width,
            6,
        )


def _others(number: int, name: str) -> str:
    return f"{number:,} other {name}{'' if number == 1 else 's'}"


def _fitted(text: str, room: int) -> str:
    """Text in exactly ``room`` columns, one blank at least at its end."""
    short = clip(text, room - 1)
    return short + " " * (room - columns(short))
