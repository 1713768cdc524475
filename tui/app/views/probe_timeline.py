"""The timeline pane: requested bytes of one traced iteration by category, and what is alive at the cursor.

What was measured is filled; what is predicted is a line of dots, over it or alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.text import Text

from tui import units
from tui.app.course import KINDS, Course, Kind, column_of, columns, kinds, phase_text, point_at
from tui.app.laid_over import event_over, line_over
from tui.app.lines import Piece, at, cut, ending, fit, line
from tui.app.page import BLANK, Page, Row, Section, answer
from tui.app.probe_state import ProbeState
from tui.app.views.canvas import stacked
from tui.app.views.figures import Scale, aligned, plural, scale_of, signed, sized, title

_LEFT = 7
"""Columns left of the canvas: the axis and its figures."""
_LEAST_CHART, _LEAST_TABLE = 2, 2
KEYS = (
    ("← →", "instant"),
    ("p", "prediction"),
    ("v", "phases"),
    ("Tab", "pane"),
    ("Enter", "peak"),
    ("b", "bytes"),
)
DOT = "·"
"""A column of what is predicted."""
_BELOW_A_LINE = (
    *KINDS[:3],
    Kind("░", "", "temporaries, other", (*KINDS[3].rows, *KINDS[4].rows)),
)
"""Shades where dots are a line, so that no shade is dots."""


def canvas_width(width: int) -> int:
    """Columns of the chart on a terminal of ``width``."""
    return width - _LEFT - 1


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What the rows of the chart share."""

    course: Course
    width: int
    """Columns of the canvas."""
    cursor: int
    """Column of the cursor."""
    scale: Scale
    over: Course | None
    """What is predicted, over it."""
    alone: bool
    """What is drawn is predicted itself."""

    @property
    def top(self) -> int:
        """The bytes that the chart is as high as."""
        both = (self.course,) if self.over is None else (self.course, self.over)
        return max(1, *(size for one in both for size in (one.peak_bytes, *(at.total for at in one.points))))

    @property
    def line(self) -> list[int | None]:
        """Predicted bytes of each column."""
        if self.over is not None:
            return line_over(self.course, self.over, self.width)
        return [point.total for point in columns(self.course, self.width)] if self.alone else []


def page(state: ProbeState, head: Row, exact: bool, width: int, height: int) -> Page:
    """The chart, its legend, and a table of what is alive at the instant of the cursor."""
    course, event = state.course, state.at
    assert isinstance(course, Course)
    assert event is not None
    scale = scale_of(exact, course.peak_bytes)
    across = canvas_width(width)
    graded = scale_of(False, course.peak_bytes)
    drawn = _Drawn(course, across, column_of(course, event, across), graded, state.over, state.alone)
    room = height - 3 - 2 - 1  # strip, rule, answer; detail, keys; panes
    below = _legend(drawn, event, width, scale)
    table = max(_LEAST_TABLE, min(14, room // 4))
    tall = room - 3 - len(below) - table
    rows = [head, _peak_line(drawn, width), *_canvas(drawn, max(_LEAST_CHART, tall))]
    rows += [*_axis(drawn, width), *(Row(one) for one in below)]
    rows += _alive(state, width, table, scale)
    shown = _answer(drawn, event, width, scale)
    told = line((f" {_where(course, event)}; ← → moves, Enter goes to the peak", "dim"))
    if state.laid and state.over is None:
        told = line((" reading the predicted timeline", "dim"))
    keys = tuple(one for one in KEYS if one[0] != "v") if state.alone else KEYS
    return Page(shown, (Section("", tuple(rows)),), told, keys)


def absent(said: str, width: int) -> Row:
    """Why there is no timeline, over what is known without one."""
    return Row(line((" " + fit(said, width - 2), "dim")))


def _answer(drawn: _Drawn, event: int, width: int, scale: Scale) -> Text:
    course = drawn.course
    size = _level(course, event)
    word = "PEAK" if event == course.peak_event else "INSTANT"
    if drawn.over is not None:
        said, right = _against(drawn, event, size, width, scale), ""
    else:
        said, right = (
            ((units.size(size), "strong"), f" requested, {phase_text(course, event)}"),
            "traced, untimed",
        )
    if drawn.alone:
        return answer(width, "○", f"PREDICTED {word}", *said, right="nothing measured")
    return answer(width, "●", word, *said, right=right)


def _level(course: Course, event: int) -> int:
    return course.peak_bytes if event == course.peak_event else point_at(course, event).total


def _against(drawn: _Drawn, event: int, size: int, width: int, scale: Scale) -> tuple[Piece, ...]:
    """Predicted, measured and their difference at an instant; of two peaks also where the other one is."""
    assert drawn.over is not None
    there = event_over(drawn.course, drawn.over, event)
    where = phase_text(drawn.course, event)
    if there is None:
        said = f"nothing predicted, measured {sized(size, scale)} {scale.unit}, {where}"
        return ((said, ""),)
    predicted = _level(drawn.over, there)
    other = phase_text(drawn.over, there)
    if event == drawn.course.peak_event and other != where:
        where = f"{where}; predicted in {other}"
    first = f"predicted {sized(predicted, scale)}, measured "
    rest = f" {scale.unit}, difference {signed(size - predicted, scale)}"
    figure = sized(size, scale)
    room = width - 14 - len(first) - len(figure) - len(rest)
    return first, (figure, "strong"), rest, (f", {where}" if len(where) + 2 <= room else "")


def _where(course: Course, event: int) -> str:
    return f"event {event + 1:,} of {course.places - 1:,}"


def _peak_line(drawn: _Drawn, width: int) -> Row:
    """The mark over the column of the peak, and beside it what it is, as far as either side has room."""
    course = drawn.course
    column = _LEFT + column_of(course, course.peak_event, drawn.width)
    size = f"peak {sized(course.peak_bytes, drawn.scale)} {drawn.scale.unit}"
    phase = phase_text(course, course.peak_event)
    text, saying = line(""), (f"{size}, {phase}", f"{size}, {phase.partition(' ')[0]}", size)
    if drawn.over is not None:
        saying = _peaks(drawn, drawn.over)
    for said in saying:
        if len(said) + 2 <= column:
            return Row(at(ending(text, column - 1, said, "dim"), column, "▼", "water.strong"))
        if column + 3 + len(said) <= width:
            return Row(at(at(text, column, "▼", "water.strong"), column + 2, said, "dim"))
    return Row(at(text, column, "▼", "water.strong"))


def _peaks(drawn: _Drawn, over: Course) -> tuple[str, ...]:
    """The two peaks and how far they differ, in a long and a short form."""
    measured, predicted = drawn.course.peak_bytes, over.peak_bytes
    forecast, found = sized(predicted, drawn.scale), sized(measured, drawn.scale)
    off = signed(measured - predicted, drawn.scale)
    return (
        f"peak, {drawn.scale.unit}: predicted {forecast}, measured {found}, {off}",
        f"predicted {forecast}, measured {found}, {off}",
        f"{DOT} {forecast}  measured {found}",
    )


def _canvas(drawn: _Drawn, height: int) -> list[Row]:
    top, of = drawn.top, _kinds(drawn)
    heights = tuple(
        (0,) * len(of) if drawn.alone else _cells(_sizes(of, point.rows), point.total, top, height)
        for point in columns(drawn.course, drawn.width)
    )
    rows = [list(row) for row in stacked(heights, "".join(kind.mark for kind in of), height)]
    for x, size in enumerate(drawn.line):
        if size is not None:
            rows[height - max(1, min(height, round(height * size / top)))][x] = DOT
    roles = {kind.mark: kind.role for kind in of}
    made: list[Row] = []
    for y, cells in enumerate(rows):
        share = 1.0 if not y else 0.5 if y == height // 2 else 0.0
        label = _label(share * top, drawn.scale) if share else ""
        text = ending(line(""), _LEFT - 2, label, "dim")
        text.append(" │" if not label else " ┤", "dim")
        for x, cell in enumerate(cells):
            here = x == drawn.cursor
            if here and cell == " ":
                text.append("│", "strong")
            else:
                text.append(cell, "caret" if here else roles.get(cell))
        made.append(Row(text))
    return made


def _kinds(drawn: _Drawn) -> tuple[Kind, ...]:
    return _BELOW_A_LINE if drawn.over is not None else KINDS


def _sizes(of: tuple[Kind, ...], rows: Mapping[str, int]) -> tuple[int, ...]:
    return kinds(rows) if of is KINDS else tuple(sum(rows.get(name, 0) for name in one.rows) for one in of)


def _label(size: float, scale: Scale) -> str:
    """A figure of the axis, in five columns at most."""
    value = size / 2**30 * scale.factor
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def _cells(sizes: tuple[int, ...], total: int, top: int, height: int) -> tuple[int, ...]:
    """Rows of each kind in one column: rounded where each ends, so that the column ends at its total."""
    made: list[int] = []
    done = level = 0
    for size in sizes:
        level += size
        end = min(height, round(height * level / top))
        made.append(end - done)
        done = end
    if total and not done:  # something is alive: the largest kind shows it
        made[sizes.index(max(sizes))] = 1
    return tuple(made)


def _axis(drawn: _Drawn, width: int) -> list[Row]:
    """The axis with a tick where a phase begins and the cursor, and the names of the phases."""
    cells = ["─"] * drawn.width
    starts = [
        (column_of(drawn.course, one.first - 1, drawn.width), one) for one in drawn.course.timeline.phases
    ]
    for column, _ in starts:
        cells[column] = "┬"
    axis = line(("     0└", "dim"))
    for x, cell in enumerate(cells):
        axis.append("┼" if x == drawn.cursor else cell, "caret" if x == drawn.cursor else "dim")
    names = [""] * len(starts)
    for short in (False, True):
        for place, (column, one) in enumerate(starts):
            end = starts[place + 1][0] if place + 1 < len(starts) else drawn.width
            name = _phase_name(one.name, one.micro, short, len(starts) > 3)
            if not names[place] and len(name) < end - column:
                names[place] = name
    labels = line("")
    for name, (column, _) in zip(names, starts, strict=True):
        if name:
            at(labels, _LEFT + column, name, "dim")
    return [Row(cut(axis, width)), Row(cut(labels, width))]


def _phase_name(name: str, micro: int | None, short: bool, several: bool) -> str:
    shown = {"forward": "fwd", "backward": "bwd"}.get(name, name) if short else name
    return f"{shown} {micro + 1}" if micro is not None and several else shown


def _legend(drawn: _Drawn, event: int, width: int, scale: Scale) -> list[Text]:
    """Each shade with its bytes at the cursor, in one line or two; shorter figures where two have no room."""
    of = _kinds(drawn)
    sizes: list[int | None] = list(_sizes(of, point_at(drawn.course, event).rows))
    named = [("" if drawn.alone else kind.mark, kind.role, kind.label) for kind in of]
    if drawn.over is not None:
        there = event_over(drawn.course, drawn.over, event)
        sizes.append(None if there is None else _level(drawn.over, there))
        named.append((DOT, "", "predicted"))
    lines = _legend_of(named, [sized(size, scale) for size in sizes], width, scale)
    if len(lines) > (3 if scale.exact else 2):
        short = ["-" if size is None else _label(size, drawn.scale) for size in sizes]
        lines = _legend_of(named, short, width, drawn.scale)
    return lines


def _legend_of(named: list[tuple[str, str, str]], figures: list[str], width: int, scale: Scale) -> list[Text]:
    lines = [line(f" {scale.unit}")]
    for (mark, role, label), figure in zip(named, figures, strict=True):
        said = f"{label} {figure}"
        if lines[-1].cell_len + len(said) + 5 > width:
            lines.append(line(" " * (len(scale.unit) + 1)))
        lines[-1].append("  ").append(mark, role or None).append(f" {said}" if mark else said)
    return lines


def _alive(state: ProbeState, width: int, room: int, scale: Scale) -> list[Row]:
    """The largest groups of storages at the instant; those of the last one stay until they are known."""
    moment, event = state.moment, state.at
    if moment is None:
        return [Row(line((" looking up what is alive then", "dim"))), *[BLANK] * (room - 1)]
    known = moment.event == event
    size = 17 if scale.exact else 10
    head = line(
        f" alive then: {plural(moment.count, 'storage')}" if known else " looking up what is alive then"
    )
    ending(head, width - 1, f"number {scale.unit:>{size - 1}}", "dim")
    head.stylize("dim")
    rows = [Row(cut(head, width))]
    for group in moment.groups[: room - 1]:
        storage = group.storage
        right = f"{group.count:,}" + f"{aligned(sized(group.bytes, scale), scale):>{size}}"
        text = line(" ", fit(group.module or title(storage.row), max(8, (width - 24) // 2)))
        column = max(10, (width - 24) // 2) + 2
        named = f"{storage.shape} {storage.dtype}".strip() or storage.operator
        at(text, column, fit(f"{named}", max(6, width - column - len(right) - 2)), "dim")
        ending(text, width - 1, right, "" if known else "dim")
        said = f" {group.count:,} x {storage.bytes:,} B, {title(storage.row)}"
        said += f", made by {storage.operator}" if storage.operator else ""
        rows.append(
            Row(cut(text, width), pick=True, name=str(storage.row), detail=line(fit(said, width - 1)))
        )
    return rows + [BLANK] * (room - len(rows))
