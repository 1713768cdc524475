"""A CUDA memory snapshot: its timeline, what is alive at an instant, its segments, and other settings."""

from __future__ import annotations

from rich.text import Text

from tui import units
from tui.app.lines import cut, ending, fit, line, wrap
from tui.app.page import BLANK, Page, Row, Section, answer, panes
from tui.app.snapshot_state import LIVE, PANES, SEGMENTS, TIMELINE, Column, SnapshotState, column_of, columns
from tui.app.views import snapshot_tables
from tui.app.views.figures import Scale, plural, scale_of, sized
from tui.report.snapshot_view import Refused, SnapshotView

_LEFT = 7
_KEYS = {
    TIMELINE: (("← →", "instant"), ("Enter", "peak"), ("Tab", "pane"), ("b", "bytes"), ("Esc", "close")),
    LIVE: (("v", "by size"), ("Tab", "pane"), ("c", "copy"), ("b", "bytes"), ("Esc", "close")),
    SEGMENTS: (("Tab", "pane"), ("c", "copy"), ("b", "bytes"), ("Esc", "close")),
}
_WHAT_IF = (("w", "what if"), ("Tab", "pane"), ("b", "bytes"), ("Esc", "close"))


def head(state: SnapshotState, width: int) -> tuple[Text, Text]:
    """Rows 1 and 2: which file, of which device and allocator."""
    text = line(" ", ("snapshot", "strong"), "  ", fit(state.file, max(8, width - 40)))
    if state.view is not None:
        settings = (
            "settings n/a" if state.view.settings is None else state.view.settings or "default allocator"
        )
        room = width - text.cell_len - 4
        said = f"device {state.view.device}, {settings}"
        if room > 12:
            ending(text, width - 1, fit(said, room), "dim")
    return cut(text, width), line(("━" * 10, "water"), ("─" * (width - 10), "dim"))


def page(state: SnapshotState, exact: bool, width: int, height: int) -> Page:
    """The open pane."""
    view = state.view
    if view is None:
        return _unread(state, width)
    scale = scale_of(exact, max(view.peak.requested, view.peak.reserved))
    top = panes(PANES, state.pane, width)
    if state.pane == TIMELINE:
        rows = _timeline(state, view, scale, width, height - 6)
    elif state.pane == LIVE:
        rows = snapshot_tables.live(state, view, scale, width)
    elif state.pane == SEGMENTS:
        rows = snapshot_tables.segments(view, scale, width)
    else:
        rows = snapshot_tables.what_if(state, view, scale, width)
    keys = _KEYS.get(state.pane, _WHAT_IF)
    if state.pane == LIVE and state.by_size:
        keys = (("v", "by frame"), *keys[1:])
    told = _told(state, view, width)
    typing = state.asking is not None
    if state.asking is not None:
        before, under, after = state.asking.window(width - 30)
        told = line(" settings or capacity: ", (before, "edit"), (under, "caret"), (after, "edit"))
        keys = (("Enter", "replay"), ("Esc", "give up"))
    return Page(_answer(state, view, width), (Section("", (top, *rows)),), told, keys, typing=typing)


def canvas_width(width: int) -> int:
    """Columns of the chart on a terminal of ``width``."""
    return width - _LEFT - 1


def _unread(state: SnapshotState, width: int) -> Page:
    if state.fault:
        shown = answer(width, "×", "FAILED", state.fault, good=False)
        rows = tuple(Row(line(" " + part)) for part in wrap(state.fault, width - 2))
        return Page(shown, (Section("", rows),), line(""), (("Esc", "close"),))
    shown = answer(width, "»", "READING", "in a process of its own, with nothing allowed to run")
    return Page(shown, (), line(""), (("Esc", "close"),))


def _answer(state: SnapshotState, view: SnapshotView, width: int) -> Text:
    if not state.current:
        word = "FAILED" if state.fault else "INSTANT"
        said = state.fault or f"event {state.event or 0:,}: looking up what is alive then"
        return answer(width, "×" if state.fault else "●", word, said, good=not state.fault)
    figures, scale = view.at_figures, scale_of(False, max(view.peak.requested, view.peak.reserved))
    requested, reserved = sized(figures.requested, scale), sized(figures.reserved, scale)
    allocated = f" allocated {sized(figures.allocated, scale)}," if width >= 70 else ""
    rest = f" {scale.unit} requested,{allocated} reserved {reserved}"
    word = "PEAK" if view.at == "peak" else "INSTANT"
    right = "before the record" if view.at_event is None else f"event {view.at_event:,}"
    return answer(width, "●", word, (requested, "strong"), rest, right=right)


def _told(state: SnapshotState, view: SnapshotView, width: int) -> Text:
    if state.fault and state.current:
        return line((f" {fit(state.fault, width - 2)}", "dim"))
    frame = f", in {view.at_frame}" if view.at_frame and state.current else ""
    counted = f"{plural(view.allocations, 'allocation')}, {plural(view.frees, 'free')}"
    said = f"{counted}, {plural(view.segments_at_end, 'segment')} at the end{frame}"
    return line((f" {fit(said, width - 2)}", "dim"))


def _timeline(state: SnapshotState, view: SnapshotView, scale: Scale, width: int, room: int) -> list[Row]:
    """What was allocated as filled columns, what was reserved as a line over them, and what is alive."""
    across = canvas_width(width)
    notes = [_refused(one, width) for one in view.failures[:2]]
    table = max(2, min(14, room // 4))
    tall = max(2, room - 3 - table - len(notes))
    shown = columns(view.points, across)
    if not shown:
        return [Row(line((" the record has no events", "dim"))), *notes]
    event = state.peak_event if state.event is None else state.event
    cursor = column_of(shown, event)
    top = max(1, max(max(one.high, one.reserved) for one in shown))
    rows = [Row(_chart_row(y, tall, top, shown, cursor, width)) for y in range(tall)]
    axis = line(("     0└", "dim"))
    for x in range(across):
        axis.append("┼" if x == cursor else "─", "caret" if x == cursor else "dim")
    count = line((f"{'':{_LEFT}}event 0", "dim"))
    ending(count, width - 1, f"{view.events:,}", "dim")
    here = shown[cursor]
    legend = line(f" {scale.unit} {view.timeline_of}  ", ("█", "water"))
    if here.low == here.high:
        legend.append(f" {sized(here.high, scale)}")
    else:
        legend.append(f" at least {sized(here.low, scale)}  ▒ at most {sized(here.high, scale)}")
    legend.append("  ").append("─", "strong").append(f" reserved {sized(here.reserved, scale)}")
    body = snapshot_tables.alive(state, view, scale, width)[:table]
    return [
        *rows,
        Row(axis),
        Row(count),
        Row(cut(legend, width)),
        *notes,
        *body,
        *[BLANK] * (table - len(body)),
    ]


def _refused(one: Refused, width: int) -> Row:
    asked = f"event {one.event:,} asked for {units.size(one.asked)} in vain"
    return Row(line((" " + fit(f"! {asked}, {one.cause}: {one.why}", width - 2), "amber")))


def _chart_row(y: int, tall: int, top: int, shown: list[Column], cursor: int, width: int) -> Text:
    share = 1.0 if not y else 0.5 if y == tall // 2 else 0.0
    label = f"{share * top / 2**30:.1f}" if share and top >= 2**30 else ""
    if share and top < 2**30:
        label = f"{share * top / 2**20:.0f}M"
    text = ending(line(""), _LEFT - 2, label, "dim")
    text.append(" │" if not label else " ┤", "dim")
    level = tall - y
    for x, one in enumerate(shown):
        low, high, held = (_level(size, top, tall) for size in (one.low, one.high, one.reserved))
        cell, role = " ", ""
        if level <= low:
            cell, role = "█", "water"
        elif level <= high:
            cell, role = "▒", ""
        elif level == held:
            cell, role = "─", "strong"
        if x == cursor:
            cell, role = ("│", "strong") if cell == " " else (cell, "caret")
        text.append(cell, role or None)
    return cut(text, width)


def _level(size: int, top: int, tall: int) -> int:
    """Rows that ``size`` fills: rounded, and one at least for anything."""
    return max(1, min(tall, round(tall * size / top))) if size > 0 else 0
