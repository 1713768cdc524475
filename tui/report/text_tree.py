"""The module tree as text, in the terminal's width."""

from __future__ import annotations

from tui import units
from tui.project.modules import Modules
from tui.report.lines import clean, clip, columns, wrap
from tui.report.tree import Branch, Order, branches, is_cut, name_of, shown

DEPTH = 3
"""Levels below the model that are printed unless asked otherwise."""
INDENT = 2


def tree_lines(
    tree: Modules, *, depth: int | None = DEPTH, order: Order = "model", width: int = 80
) -> list[str]:
    """One module a row: name and class, elements, bytes, calls in one forward; those that hold nothing are left out.

    A row of equal blocks has ``12 x 7,087,872``, and those below it are of one of them.
    """
    root = branches(tree)
    shared = _shared(tree)
    rows = [(level, one) for level, one in shown(root, depth, order) if _holds(one, shared)]
    figures = [_figures(one) for _, one in rows]
    heads = ("elements", "bytes", "calls")
    widths = [
        max(len(head), *(len(cells[place]) for cells in figures)) + 2 for place, head in enumerate(heads)
    ]
    room = max(12, width - sum(widths))
    lines = [_line("module", heads, room, widths)]
    lines += [
        _line(_name(level, one, shared), cells, room, widths)
        for (level, one), cells in zip(rows, figures, strict=True)
    ]
    if any(one.times > 1 for _, one in rows):
        lines += wrap("below a row of equal blocks: of one of them", width)
    if is_cut(root, depth):
        lines += wrap(f"deeper modules are left out: --depth {(depth or 0) + 1}", width)
    return lines


def _shared(tree: Modules) -> dict[str, str]:
    """{path of a module that holds another one's parameter: path of that one}."""
    owners: dict[str, str] = {}
    for one in tree.parameters:
        for name in one.also:
            owners.setdefault(name.rpartition(".")[0], one.name.rpartition(".")[0])
    return owners


def _holds(one: Branch, shared: dict[str, str]) -> bool:
    row = one.row
    if row.elements or row.buffers or not row.path:
        return True
    return any(path == row.path or path.startswith(f"{row.path}.") for path in shared)


def _name(level: int, one: Branch, shared: dict[str, str]) -> str:
    cls = f" {one.row.cls}" if one.row.path and one.row.cls else ""
    notes = " frozen" if one.row.elements and not one.row.trainable else ""
    if not one.row.elements and one.row.path in shared:
        notes = f" = {shared[one.row.path]}"
    return f"{' ' * INDENT * level}{clean(name_of(one))}{clean(cls)}{clean(notes)}"


def _figures(one: Branch) -> tuple[str, str, str]:
    times = f"{one.times} x " if one.times > 1 else ""
    size = f"{times}{one.row.elements:,}"
    stored = f"{times}{units.size(one.row.bytes)}" if one.row.elements else "0"
    return size, stored, "-" if one.row.calls is None else f"{one.row.calls:,}"


def _line(name: str, cells: tuple[str, str, str], room: int, widths: list[int]) -> str:
    left = clip(name, room)
    left += " " * (room - columns(left))
    return left + "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
