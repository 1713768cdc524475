"""The timeline of one iteration as a chart needs it: points, phases, what is alive at an instant.

Instants are allocation events, counted from the beginning of the iteration; -1 is before the first one.  Pure,
and made once in a thread: a move of the cursor afterwards costs nothing, however many storages there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.budget.timeline import Alike
    from tui.project.timeline import Timeline

POINTS = 960
"""Points that are kept of an iteration at least: several a column of a wide terminal."""
STEP_SHARE = 0.2
"""Of the width, what the optimizer step has at most: its many small events would leave the others no room."""
TOP = 24
"""Kinds of storages that are told of an instant at most."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Rows of the ledger that are drawn alike."""

    mark: str
    role: str
    label: str
    rows: tuple[str, ...]


KINDS = (
    Kind(
        "█",
        "dim",
        "held",
        (
            "weights",
            "unsharded_weights",
            "packed_metadata",
            "master_weights",
            "optimizer_state",
            "buffers",
        ),
    ),
    Kind("▒", "strong", "gradients", ("gradients", "reduction_buckets")),
    Kind("▓", "water", "activations", ("retained_activations",)),
    Kind("░", "", "temporaries", ("step_temporaries",)),
    Kind("·", "strong", "other", ("input_batch", "operator_scratch", "library_workspaces", "unattributed")),
)
"""From the bottom of the chart to its top; every shade is told apart without colour."""


@dataclass(frozen=True, slots=True)
class Point:
    """The bytes that are alive at one event, by row of the ledger."""

    event: int
    rows: Mapping[str, int]
    total: int


@dataclass(frozen=True, slots=True)
class Moment:
    """What is alive at one instant, the largest first; storages that are alike are one group."""

    event: int
    groups: tuple[Alike, ...]
    """At most ``TOP``."""
    count: int
    """Storages alive, all of them."""


@dataclass(frozen=True, slots=True)
class Course:
    """A timeline with what its chart is made of."""

    timeline: Timeline
    peak_event: int
    peak_bytes: int
    points: tuple[Point, ...]
    scale: tuple[tuple[int, float], ...]
    """(instant counted from 0, share of the width): between two of them the axis is even."""

    @property
    def places(self) -> int:
        """How many instants the iteration has, the one before it included."""
        return self.timeline.events + 1


def course_of(timeline: Timeline) -> Course:
    """Everything that is needed of a timeline to draw it; takes a while for a large one."""
    from tui.budget import timeline as of

    event, size = of.peak(timeline)
    points = tuple(Point(at, rows, sum(rows.values())) for at, rows in of.series(timeline, POINTS))
    return Course(timeline, event, size, points, _scale(timeline))


def _scale(timeline: Timeline) -> tuple[tuple[int, float], ...]:
    """Where the phases begin on the axis: as many events as they have, an optimizer step ``STEP_SHARE`` at most."""
    places = timeline.events + 1
    steps = [(one.first + 1, one.last + 1) for one in timeline.phases if one.micro is None]
    of_steps = sum(last - first for first, last in steps)
    others = places - of_steps
    weight = 1.0
    if of_steps and others > 0:
        weight = min(1.0, STEP_SHARE / (1 - STEP_SHARE) * others / of_steps)
    whole = others + weight * of_steps
    made, at, place = [(0, 0.0)], 0.0, 0
    for first, last in steps:
        at += first - place
        made.append((first, at / whole))
        at, place = at + weight * (last - first), last
        made.append((last, at / whole))
    return (*made, (places, 1.0))


def moment(course: Course, event: int) -> Moment:
    """What is alive at ``event``: one walk over every storage."""
    from tui.budget import timeline as of

    found = of.alive(course.timeline, event)
    return Moment(event, tuple(of.top(found, TOP)), len(found))


def columns(course: Course, width: int) -> list[Point]:
    """One point for each of ``width`` columns: the highest in it, else the one before."""
    made: list[Point | None] = [None] * width
    for point in course.points:
        at = column_of(course, point.event, width)
        here = made[at]
        if here is None or point.total > here.total or point.event == course.peak_event:
            made[at] = point
    last = next((one for one in made if one is not None), Point(-1, {}, 0))
    shown: list[Point] = []
    for one in made:
        last = one if one is not None else last
        shown.append(last)
    return shown


def column_of(course: Course, event: int, width: int) -> int:
    """The column that ``event`` lies in."""
    place = max(0, min(course.places - 1, event + 1))
    at = bisect_right(course.scale, place, key=lambda one: one[0]) - 1
    (first, left), (last, right) = course.scale[at], course.scale[at + 1]
    share = left + (right - left) * (place - first) / max(1, last - first)
    return min(width - 1, int(share * width))


def event_of(course: Course, column: int, width: int) -> int:
    """The event that a column stands for: its highest point, else its first event."""
    point = columns(course, width)[column]
    if column_of(course, point.event, width) == column:
        return point.event
    places = range(course.places)
    return bisect_left(places, column, key=lambda place: column_of(course, place - 1, width)) - 1


def point_at(course: Course, event: int) -> Point:
    """The last point at or before ``event``."""
    place = bisect_right(course.points, event, key=lambda one: one.event)
    return course.points[max(0, place - 1)]


def kinds(rows: Mapping[str, int]) -> tuple[int, ...]:
    """Bytes of each of ``KINDS``."""
    return tuple(sum(rows.get(name, 0) for name in kind.rows) for kind in KINDS)


def phase_text(course: Course, event: int) -> str:
    """``backward of micro-batch 4``; micro-batches are counted from 1."""
    from tui.budget.timeline import phase_at

    found = phase_at(course.timeline, event)
    if found is None:
        return "before the first event" if event < 0 else "between phases"
    several = sum(1 for one in course.timeline.phases if one.name == found.name) > 1
    if found.micro is None or not several:
        return found.name
    return f"{found.name} of micro-batch {found.micro + 1}"
