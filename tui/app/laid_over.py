"""A predicted timeline laid over the measured one, phase by phase: they have different numbers of events.  Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.app.course import Course, column_of

if TYPE_CHECKING:
    from tui.project.timeline import Timeline


def line_over(course: Course, other: Course, width: int) -> list[int | None]:
    """Requested bytes of ``other`` in each of ``width`` columns of ``course``: the most of each column.

    None: the column lies in a phase that ``other`` does not have.
    """
    from tui.budget.timeline import anchors, moved

    between = anchors(other.timeline, course.timeline)
    skipped = _only(other.timeline, course.timeline)
    made: list[int | None] = [None] * width
    for point in other.points:
        place = point.event + 1
        if any(first < place <= last for first, last in skipped):
            continue
        at = column_of(course, moved(place, between) - 1, width)
        made[at] = max(point.total, made[at] or 0)
    last = other.points[0].total if other.points else 0
    for at, size in enumerate(made):
        last = last if size is None else size
        made[at] = last
    for begin, end in _only(course.timeline, other.timeline):
        for at in range(column_of(course, begin, width), column_of(course, end - 1, width) + 1):
            made[at] = None
    return made


def event_over(course: Course, other: Course, event: int) -> int | None:
    """The event of ``other`` at the instant ``event`` of ``course``, peak for peak; None: it lacks the phase."""
    from tui.budget.timeline import anchors, moved

    if event == course.peak_event:
        return other.peak_event
    place = event + 1
    if any(first < place <= last for first, last in _only(course.timeline, other.timeline)):
        return None
    return moved(place, anchors(course.timeline, other.timeline)) - 1


def _only(one: Timeline, other: Timeline) -> list[tuple[int, int]]:
    """(first, last) of the phases of ``one`` that ``other`` does not have."""
    from tui.budget.timeline import shared_phases

    shared = [mine for mine, _ in shared_phases(one, other)]
    return [(phase.first, phase.last) for phase in one.phases if phase not in shared]
