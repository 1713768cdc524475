"""What is known of a memory snapshot that is looked at, and where the cursors are.  Pure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui import units

if TYPE_CHECKING:
    from tui.app.line_edit import LineEdit
    from tui.report.snapshot_view import Point, SnapshotView

PANES = ("timeline", "live", "segments", "what if")
TIMELINE, LIVE, SEGMENTS, WHAT_IF = range(len(PANES))


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """One file as far as it was read."""

    file: str
    """Name without its folder."""
    view: SnapshotView | None = None
    """None while it is read for the first time."""
    fault: str = ""
    """Why it, or the instant that was asked for, cannot be shown."""
    event: int | None = None
    """The instant of the cursor; None: the requested peak."""
    reading: bool = True
    pane: int = TIMELINE
    by_size: bool = False
    """The live set by size instead of by frame."""
    row: int = -1
    settings: tuple[str, ...] = ()
    """Of the allocator, that the record is replayed under."""
    capacity: int | None = None
    """Bytes that a replay may reserve; None: as many as it likes."""
    asking: LineEdit | None = None
    """The settings that are typed."""

    @property
    def at(self) -> str:
        """The instant as the reader of the file takes it."""
        return "peak" if self.event is None else str(self.event)

    @property
    def current(self) -> bool:
        """Whether the tables are of the instant of the cursor."""
        return self.view is not None and self.view.at == self.at

    @property
    def peak_event(self) -> int:
        """The event of the requested peak; 0 when it was there before the first one."""
        return 0 if self.view is None else self.view.peak.events[0] or 0


@dataclass(frozen=True, slots=True)
class Column:
    """What one column of the chart stands for."""

    first: int
    """Its first event."""
    low: int
    high: int
    reserved: int


def columns(points: tuple[Point, ...], width: int) -> list[Column]:
    """One column for each of ``width``; a point that is wider than one fills several."""
    made: list[Column] = []
    count = len(points)
    for x in range(width if count else 0):
        part = points[x * count // width : max(x * count // width + 1, (x + 1) * count // width)]
        low, high = min(one.low for one in part), max(one.high for one in part)
        made.append(Column(part[0].first, low, high, max(one.reserved for one in part)))
    return made


def column_of(shown: list[Column], event: int) -> int:
    """The first column of the point that ``event`` lies in."""
    at = max(0, bisect_right(shown, event, key=lambda one: one.first) - 1)
    while at > 0 and shown[at - 1].first == shown[at].first:
        at -= 1
    return at


def moved(state: SnapshotState, by: int, width: int) -> int | None:
    """The event of the cursor after ``by`` columns to the right, on a chart of ``width``."""
    if state.view is None or not state.view.points:
        return state.event
    shown = columns(state.view.points, width)
    here = column_of(shown, state.peak_event if state.event is None else state.event)
    at = here
    while 0 <= at + (1 if by > 0 else -1) < len(shown) and abs(at - here) < abs(by):
        at += 1 if by > 0 else -1
        while shown[at].first == shown[here].first and 0 < at < len(shown) - 1:
            at += 1 if by > 0 else -1  # a point may be several columns wide
    return shown[at].first


def capacity_of(typed: str) -> int | None:
    """The bytes of ``capacity 24 GiB``; 0 for ``capacity none``; None: it is no capacity but settings.

    Raises:
        ValueError: what stands behind the word is no size.

    >>> capacity_of("capacity = 1 GiB"), capacity_of("capacity none"), capacity_of("max_split_size_mb:20")
    (1073741824, 0, None)
    """
    name, _, said = typed.replace("=", " ").replace(":", " ", 1).strip().partition(" ")
    if name != "capacity":
        return None
    said = said.strip()
    if said in ("", "none"):
        return 0
    return units.parse_bytes(int(said) if said.isascii() and said.isdigit() else said)
