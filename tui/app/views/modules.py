"""The module tree of the last count: only the lines that are on the screen are made."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from tui.app.lines import at, bar, ending, fit, line, wrap
from tui.app.page import Cursor, Page, Row, Scene, Section, answer
from tui.app.tree import Item, Tree
from tui.app.views.figures import Scale, aligned, plural, scale_of, sized

_AROUND = 6
"""Lines of the screen that are not the tree's: strip, rule, answer, heading, detail, keys."""
_GO = ("calls", "trained", "share", "class")
"""Columns that go when there is no room, the first ones first."""
_LEAST_NAME = 20
_ORDERED = {
    "order": "in the order of the model",
    "elements": "most elements first",
    "bytes": "most bytes first",
    "name": "by name",
}


def page(scene: Scene, width: int, height: int, cursor: Cursor) -> Page:
    """Path, class, elements, share, bytes, how much is trained and calls of each module."""
    tree = scene.tree
    if not isinstance(tree, Tree):
        return _absent(str(tree or "reading the module tree"), width, bool(tree))
    room = max(1, height - _AROUND)
    count = len(tree.shown)
    first = max(0, min(cursor.row - room // 2, count - room))
    scale = scale_of(scene.exact, max((row.bytes for row in tree.forest.rows[:1]), default=0))
    plan = _plan(width, scale)
    total = sum(tree.row(one).elements * one.count for one in tree.forest.items.get(-1, ()))
    search = scene.form.search if scene.form is not None else None
    rows = [
        Row(
            _line(tree, one, plan, width, scale, total),
            pick=True,
            detail=_detail(tree, one, width) if search is None else None,
        )
        for one in tree.shown[first : first + room]
    ]
    modules = len(tree.forest.rows)
    said = (
        (f"{total:,}", "strong"),
        f" elements in {plural(modules, 'module')}, {_ORDERED[tree.order]}",
    )
    old = scene.form is not None and scene.form.old
    shown = answer(width, "~" if old else "●", "STALE" if old else "MODULES", *said, good=not old)
    keys = (
        ("Enter", "fold"),
        ("o", "sort"),
        ("/", "search"),
        ("t", "form"),
        ("b", "bytes"),
        ("n", "next found"),
        ("c", "copy"),
    )
    if search is not None:
        before, under, after = search.window(width - 24)
        told = line(" look for: ", (before, "edit"), (under, "caret"), (after, "edit"))
        keys = (("Enter", "find"), ("Esc", "give up"))
        body = Section("", (Row(_heading(plan, width, scale)), *rows))
        return Page(shown, (body,), told, keys, typing=True, window=(first, count))
    told = line((" of the last count; equal blocks in a row are one line", "dim"))
    body = Section("", (Row(_heading(plan, width, scale)), *rows))
    return Page(shown, (body,), told, keys, window=(first, count))


def _absent(said: str, width: int, known: bool) -> Page:
    word = ("○", "EMPTY") if known else ("»", "READING")
    short = said if len(said) < width - 12 else "no module tree"
    more = wrap(said, width - 2) if short != said else []
    return Page(
        answer(width, *word, short),
        (Section("", tuple(Row(line(f" {one}")) for one in more)),),
        line((" counting the parameters keeps the module tree of the model", "dim")),
        (("r", "run inventory"), ("t", "form")),
    )


def _plan(width: int, scale: Scale) -> dict[str, tuple[int, int]]:
    """(begin, end) of each column that has room; the name has what is left."""
    sizes = {"class": 15, "elements": 15, "share": 8, "bytes": 17 if scale.exact else 9}
    sizes |= {"trained": 9, "calls": 7}
    for name in _GO:
        if width - sum(sizes.values()) - 2 < _LEAST_NAME:
            sizes.pop(name)
    name = width - sum(sizes.values()) - 2
    if name > 34 and "class" in sizes:
        more = min(14, name - 34)
        sizes["class"] += more
        name -= more
    plan, begin = {"name": (0, name + 1)}, name + 1
    for key, size in sizes.items():
        plan[key] = (begin + 1, begin + size)
        begin += size
    return plan


def _heading(plan: dict[str, tuple[int, int]], width: int, scale: Scale) -> Text:
    text = at(line(""), 2, "module", "dim")
    for key, (begin, end) in plan.items():
        if key in ("class", "share"):
            at(text, begin, key, "dim")
        elif key != "name":
            ending(text, end, scale.unit if key == "bytes" else key, "dim")
    return text


def _line(
    tree: Tree, item: Item, plan: dict[str, tuple[int, int]], width: int, scale: Scale, total: int
) -> Text:
    row, many = tree.row(item), item.count
    mark = ("▼" if tree.key(item) in tree.open else "►") if tree.inner(item) else " "
    text = line(mark + " " * (1 + min(item.depth, 10)))
    name_end = plan["name"][1]
    room = max(6, name_end - text.cell_len)
    label = tree.label(item)
    if item.members and cell_len(label) > room:
        label = tree.label(item, short=True)
    text.append(fit(label, room), "strong" if many > 1 else None)
    elements = row.elements * many
    if "class" in plan:
        begin, end = plan["class"]
        at(text, begin, fit(f"{many} x {row.cls}" if item.members else row.cls, end - begin), "dim")
    ending(text, plan["elements"][1], f"{elements:,}")
    if "share" in plan:
        begin, end = plan["share"]
        at(text, begin, bar(elements / total if total else 0, end - begin), "water")
    ending(text, plan["bytes"][1], _bytes(row.bytes * many, scale))
    if "trained" in plan:
        ending(text, plan["trained"][1], _trained(row.trainable, row.elements), "dim")
    if "calls" in plan:
        ending(text, plan["calls"][1], "-" if row.calls is None else f"{row.calls:,}", "dim")
    return text


def _bytes(size: int, scale: Scale) -> str:
    shown = sized(size, scale)
    return shown if scale.exact or "." in shown else aligned(shown, scale)


def _trained(trainable: int, elements: int) -> str:
    if not elements:
        return "-"
    if trainable in (0, elements):
        return "all" if trainable else "frozen"
    return f"{100 * trainable / elements:.1f} %"


def _detail(tree: Tree, item: Item, width: int) -> Text:
    row = tree.row(item)
    if item.members:
        last = tree.forest.rows[item.members[-1]].path
        return line(
            (f" {row.path} to {last}: ", "dim"), f"{item.count} x {row.elements:,} elements of {row.cls}"
        )
    own = tree.forest.own.get(row.path, ())
    said = [
        f"{one.name.rpartition('.')[2]} {' x '.join(map(str, one.shape)) or 'scalar'} {one.dtype}"
        + (f", also {one.also[0]}" if one.also else "")
        + ("" if one.received is not False or not one.trainable else ", received no gradient")
        for one in own
    ]
    if row.buffers:
        said.append(f"buffers of {row.buffers:,} elements")
    if row.calls is not None:
        times = {0: "not called itself", 1: "called once a forward"}
        said.append(times.get(row.calls, f"called {row.calls:,} times a forward"))
    told = "; ".join(said) if said else f"{plural(row.tensors, 'tensor')} below it, none of its own"
    text = line((f" {row.path or 'model'}: ", "dim"))
    return text.append(fit(told, max(8, width - text.cell_len - 1)))
