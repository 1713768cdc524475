"""The pane of what is alive at the peak: a table that folds, of which only the lines on the screen are made."""

from __future__ import annotations

from rich.text import Text

from tui import units
from tui.app.alive import Alive, Item
from tui.app.course import Course, phase_text
from tui.app.lines import at, bar, cut, ending, fit, line
from tui.app.page import Cursor, Page, Row, Section, answer
from tui.app.probe_state import ProbeState
from tui.app.views.figures import Scale, aligned, scale_of, sized, title

KEYS = (("Enter", "fold"), ("v", "view"), (">", "sort"), ("/", "search"), ("b", "bytes"), ("c", "copy"))
_SORTED = {"bytes": "most bytes first", "count": "most tensors first", "name": "by name"}


def page(state: ProbeState, head: Row, exact: bool, width: int, height: int, cursor: Cursor) -> Page:
    """Modules, categories or tensors that hold the bytes of one instant."""
    alive, course = state.alive, state.course
    assert alive is not None
    assert isinstance(course, Course)
    scale = scale_of(exact, alive.bytes)
    room = max(1, height - 9)  # strip, rule, answer, panes, heading, sum; detail, keys
    count = len(alive.shown)
    first = max(0, min(cursor.row - room // 2, count - room))
    plan = _plan(width, scale)
    rows = [head, Row(_heading(alive, plan, width, scale))]
    for item in alive.shown[first : first + room]:
        detail = _detail(item, width) if state.search is None else None
        rows.append(
            Row(_line(alive, item, plan, width, scale), pick=True, detail=detail, name=item.node.label)
        )
    total = ending(line("  ", ("= requested", "strong")), plan[1], f"{alive.count:,}")
    rows.append(Row(ending(total, plan[2], aligned(sized(alive.bytes, scale), scale), "strong")))
    word = "PEAK" if alive.event == course.peak_event else "ALIVE"
    said = (units.size(alive.bytes), "strong"), f" requested, {phase_text(course, alive.event)}"
    shown = answer(width, "●", word, *said, right="traced, untimed")
    window = (first, count)
    if state.search is not None:
        before, under, after = state.search.window(width - 24)
        told = line(" look for: ", (before, "edit"), (under, "caret"), (after, "edit"))
        keys = (("Enter", "find"), ("Esc", "give up"))
        return Page(shown, (Section("", tuple(rows)),), told, keys, typing=True, window=window)
    told = line((f" by {alive.view}, {_SORTED[alive.order]}; a * stands for every layer of its kind", "dim"))
    return Page(shown, (Section("", tuple(rows)),), told, KEYS, window=window)


def _plan(width: int, scale: Scale) -> tuple[int, int, int]:
    """Where the name ends, the number of tensors and the bytes; the share has what is left."""
    share = 11 if width >= 70 else 0
    size = width - 2 - share
    tensors = size - (17 if scale.exact else 11)
    return tensors - 9, tensors, size


def _heading(alive: Alive, plan: tuple[int, int, int], width: int, scale: Scale) -> Text:
    what = "" if plan[0] < 44 else {"module": "mostly", "tensor": "module"}.get(alive.view, "")
    text = at(line("  " + alive.view), _what(plan), what) if what else line("  " + alive.view)
    ending(ending(text, plan[1], "tensors"), plan[2], scale.unit)
    if width >= 70:
        at(text, plan[2] + 2, "share")
    text.stylize("dim")
    return cut(text, width)


def _what(plan: tuple[int, int, int]) -> int:
    """The column at which ``what`` begins."""
    return plan[0] // 2 + 4


def _line(alive: Alive, item: Item, plan: tuple[int, int, int], width: int, scale: Scale) -> Text:
    node = item.node
    mark = ("▼" if item.path in alive.open else "►") if node.inner else " "
    text = line(mark + " " * (1 + 2 * min(item.depth, 8)))
    begin = _what(plan) if plan[0] >= 44 and node.what else plan[0] + 1
    text.append(fit(node.label, max(6, begin - 1 - text.cell_len)), "strong" if node.inner else None)
    if begin < plan[0]:
        at(text, begin, fit(node.what, plan[0] - begin), "dim")
    ending(text, plan[1], f"{node.count:,}", "dim")
    ending(text, plan[2], aligned(sized(node.bytes, scale), scale), "strong" if not item.depth else "")
    if width >= 70 and alive.bytes:
        at(text, plan[2] + 2, bar(node.bytes / alive.bytes, width - plan[2] - 3), "water")
    return cut(text, width)


def _detail(item: Item, width: int) -> Text:
    node = item.node
    if not node.inner:
        return line(" " + fit(node.detail, width - 2))
    parts = [f"{title(name)} {size:,}" for name, size in node.rows.items()]
    text = line((f" {fit(node.detail, width // 3)}: ", "dim"))
    return text.append(fit(f"{', '.join(parts)} B", max(8, width - text.cell_len - 1)))
