"""The pane of what is alive at the peak: a table that folds, of which only the lines on the screen are made."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from tui import units
from tui.app.alive import Alive, Item
from tui.app.course import Course, phase_text
from tui.app.forecast import Forecast
from tui.app.lines import at, bar, cut, ending, fit, line
from tui.app.page import Cursor, Page, Row, Section, answer
from tui.app.probe_state import ProbeState
from tui.app.views.figures import Scale, aligned, scale_of, signed, sized, title

KEYS = (
    ("Enter", "fold"),
    ("v", "view"),
    ("p", "prediction"),
    ("/", "search"),
    (">", "sort"),
    ("b", "bytes"),
    ("c", "copy"),
)
_SORTED = {"bytes": "most bytes first", "count": "most tensors first", "name": "by name"}


@dataclass(frozen=True, slots=True)
class _Plan:
    """The columns before which the parts of a line end; None: it has no room or nothing to say."""

    name: int
    tensors: int | None
    predicted: int | None
    size: int
    difference: int | None
    share: bool

    @property
    def what(self) -> int:
        """The column at which ``what`` begins, when names end late enough."""
        return self.name // 2 + 4

    @property
    def last(self) -> int:
        """The column after the figures."""
        return self.difference or self.size


def page(state: ProbeState, head: Row, exact: bool, width: int, height: int, cursor: Cursor) -> Page:
    """Modules, categories or tensors that hold the bytes of one instant, predicted beside measured."""
    alive, course = state.alive, state.course
    assert alive is not None
    assert isinstance(course, Course)
    scale = scale_of(exact, alive.bytes)
    room = max(1, height - 9)  # strip, rule, answer, panes, heading, sum; detail, keys
    count = len(alive.shown)
    first = max(0, min(cursor.row - room // 2, count - room))
    forecast = state.forecast if state.over is not None else None
    plan = _plan(width, scale, forecast)
    rows = [head, Row(_heading(alive, plan, width, scale))]
    for item in alive.shown[first : first + room]:
        detail = _detail(item, width) if state.search is None else None
        text = _line(alive, item, plan, width, scale, forecast)
        rows.append(Row(text, pick=True, detail=detail, name=item.node.label))
    rows.append(Row(_total(alive, plan, scale, forecast)))
    shown = _answer(state, course, alive, width)
    window = (first, count)
    if state.search is not None:
        before, under, after = state.search.window(width - 24)
        told = line(" look for: ", (before, "edit"), (under, "caret"), (after, "edit"))
        keys = (("Enter", "find"), ("Esc", "give up"))
        return Page(shown, (Section("", tuple(rows)),), told, keys, typing=True, window=window)
    told = line((f" by {alive.view}, {_SORTED[alive.order]}; a * stands for every layer of its kind", "dim"))
    return Page(shown, (Section("", tuple(rows)),), told, KEYS, window=window)


def _answer(state: ProbeState, course: Course, alive: Alive, width: int) -> Text:
    peak = alive.event == course.peak_event
    said = (units.size(alive.bytes), "strong"), f" requested, {phase_text(course, alive.event)}"
    if state.alone:
        word = "PREDICTED PEAK" if peak else "PREDICTED"
        return answer(width, "○", word, *said, right="nothing measured")
    return answer(width, "●", "PEAK" if peak else "ALIVE", *said, right="traced, untimed")


def _total(alive: Alive, plan: _Plan, scale: Scale, forecast: Forecast | None) -> Text:
    text = line("  ", ("= requested", "strong"))
    if plan.tensors is not None:
        ending(text, plan.tensors, f"{alive.count:,}")
    _figures(text, alive.bytes, forecast.bytes if forecast else None, plan, scale, "strong")
    return text


def _plan(width: int, scale: Scale, forecast: Forecast | None) -> _Plan:
    """As many columns as there is room for; the share has what is left."""
    wide = 17 if scale.exact else 11
    if forecast is None:
        share = width >= 70
        size = width - 2 - (11 if share else 0)
        return _Plan(size - wide - 9, size - wide, None, size, None, share)
    share = width >= 90 + (60 if scale.exact else 0)
    last = width - 2 - (11 if share else 0)
    difference = last if width >= (100 if scale.exact else 72) else None
    size = last - (wide if difference else 0)
    predicted = size - wide
    tensors = predicted - wide if width >= (90 if scale.exact else 60) else None
    return _Plan((tensors or predicted - wide + 9) - 9, tensors, predicted, size, difference, share)


def _figures(text: Text, size: int, forecast: int | None, plan: _Plan, scale: Scale, role: str) -> None:
    """Predicted, measured and difference, as far as there are columns for them."""
    if plan.predicted is not None:
        said = "-" if forecast is None else sized(forecast, scale)
        ending(text, plan.predicted, aligned(said, scale))
    ending(text, plan.size, aligned(sized(size, scale), scale), role)
    if plan.difference is not None:
        said = "-" if forecast is None else signed(size - forecast, scale)
        ending(text, plan.difference, aligned(said, scale))


def _heading(alive: Alive, plan: _Plan, width: int, scale: Scale) -> Text:
    what = "" if plan.name < 44 else {"module": "mostly", "tensor": "module"}.get(alive.view, "")
    first = alive.view if plan.predicted is None else f"{alive.view}, {scale.unit}"
    text = at(line("  " + first), plan.what, what) if what else line("  " + first)
    if plan.tensors is not None:
        ending(text, plan.tensors, "tensors")
    if plan.predicted is None:
        ending(text, plan.size, scale.unit)
    else:
        ending(ending(text, plan.predicted, "predicted"), plan.size, "measured")
    if plan.difference is not None:
        ending(text, plan.difference, "difference")
    if plan.share:
        at(text, plan.last + 2, "share")
    text.stylize("dim")
    return cut(text, width)


def _line(alive: Alive, item: Item, plan: _Plan, width: int, scale: Scale, forecast: Forecast | None) -> Text:
    node = item.node
    mark = ("▼" if item.path in alive.open else "►") if node.inner else " "
    text = line(mark + " " * (1 + 2 * min(item.depth, 8)))
    begin = plan.what if plan.name >= 44 and node.what else plan.name + 1
    text.append(fit(node.label, max(6, begin - 1 - text.cell_len)), "strong" if node.inner else None)
    if begin < plan.name:
        at(text, begin, fit(node.what, plan.name - begin), "dim")
    if plan.tensors is not None:
        ending(text, plan.tensors, f"{node.count:,}", "dim")
    predicted = forecast.size(alive.view, item.path) if forecast is not None else None
    _figures(text, node.bytes, predicted, plan, scale, "strong" if not item.depth else "")
    if plan.share and alive.bytes:
        at(text, plan.last + 2, bar(node.bytes / alive.bytes, width - plan.last - 3), "water")
    return cut(text, width)


def _detail(item: Item, width: int) -> Text:
    node = item.node
    if not node.inner:
        return line(" " + fit(node.detail, width - 2))
    parts = [f"{title(name)} {size:,}" for name, size in node.rows.items()]
    text = line((f" {fit(node.detail, width // 3)}: ", "dim"))
    return text.append(fit(f"{', '.join(parts)} B", max(8, width - text.cell_len - 1)))
