"""The module tree of a count as it is browsed: folds, order and search, as a value.  Pure.

However large the model, a move costs nothing and a fold one walk over what is open; equal blocks in a row are one
line.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tui.project.modules import ModuleRow, Modules, ParameterRow

ORDERS = ("order", "elements", "bytes", "name")
"""By what the rows of a level are sorted; "order" is the framework's own."""
_AT_FIRST = 200
"""Rows that are open at the beginning at most."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line: a module, or several equal ones in a row."""

    first: int
    """Index of the module, or of the first of them."""
    members: tuple[int, ...] = ()
    """Of several equal ones: all of them."""
    depth: int = 0

    @property
    def count(self) -> int:
        """How many modules it stands for."""
        return len(self.members) or 1


@dataclass(frozen=True, slots=True)
class Forest:
    """The modules with who holds whom."""

    rows: tuple[ModuleRow, ...]
    parents: tuple[int, ...]
    """Index of the module around each; -1 for none."""
    items: dict[int, tuple[Item, ...]]
    """What is directly in each module that holds any, in the framework's order; -1: the outermost."""
    own: dict[str, tuple[ParameterRow, ...]]
    """Parameters by the path of the module that holds them."""


@dataclass(frozen=True, slots=True)
class Tree:
    """What is open of a forest, and how it is sorted."""

    forest: Forest
    open: frozenset[str]
    order: str = ORDERS[0]
    shown: tuple[Item, ...] = field(default=(), repr=False, compare=False)
    """The lines from the top."""

    def key(self, item: Item) -> str:
        """What the item is remembered by."""
        path = self.forest.rows[item.first].path
        return f"{path} x {item.count}" if item.members else path

    def row(self, item: Item) -> ModuleRow:
        """The module, or the first of several equal ones."""
        return self.forest.rows[item.first]

    def inner(self, item: Item) -> tuple[Item, ...]:
        """What lies in the item, in the framework's order."""
        if item.members:
            return tuple(Item(one) for one in item.members)
        return self.forest.items.get(item.first, ())

    def label(self, item: Item, *, short: bool = False) -> str:
        """Its name in the module around it; ``h.0 to h.11`` of several, ``h.0 to 11`` when it must be short."""
        path = self.row(item).path
        around = self.forest.parents[item.first]
        outer = self.forest.rows[around].path if around >= 0 else ""
        name = path.removeprefix(f"{outer}.") if outer else path
        if not item.members:
            return name or "model"
        last = self.forest.rows[item.members[-1]].path.rpartition(".")[2]
        inner = outer.rpartition(".")[2] + "." if outer else ""
        return f"{inner}{name} to {'' if short else inner}{last}"


def grown(modules: Modules) -> Tree:
    """The tree of a count, its upper levels open."""
    rows = modules.modules
    index = {row.path: at for at, row in enumerate(rows)}
    parents: list[int] = []
    inside: dict[int, list[int]] = {}
    for at, row in enumerate(rows):
        around, path = -1, row.path
        while path and around < 0:
            path = path.rpartition(".")[0]
            around = index.get(path, -1)
        around = around if around != at else -1
        parents.append(around)
        inside.setdefault(around, []).append(at)
    items = {around: _grouped(rows, members) for around, members in inside.items()}
    own: dict[str, list[ParameterRow]] = {}
    for one in modules.parameters:
        own.setdefault(one.name.rpartition(".")[0], []).append(one)
    forest = Forest(rows, tuple(parents), items, {path: tuple(found) for path, found in own.items()})
    return _first(Tree(forest, frozenset()))


def _grouped(rows: tuple[ModuleRow, ...], members: list[int]) -> tuple[Item, ...]:
    """Numbered siblings in a row that are alike become one item."""
    made: list[Item] = []
    run: list[int] = []

    def close() -> None:
        made.append(Item(run[0], tuple(run) if len(run) > 1 else ()))

    for at in members:
        if run and _alike(rows[run[-1]], rows[at]):
            run.append(at)
            continue
        if run:
            close()
        run = [at]
    if run:
        close()
    return tuple(made)


def _alike(one: ModuleRow, other: ModuleRow) -> bool:
    if not (one.path.rpartition(".")[2].isdecimal() and other.path.rpartition(".")[2].isdecimal()):
        return False
    return (
        one.cls,
        one.elements,
        one.own,
        one.trainable,
        one.bytes,
        one.tensors,
        one.buffers,
        one.calls,
    ) == (
        other.cls,
        other.elements,
        other.own,
        other.trainable,
        other.bytes,
        other.tensors,
        other.buffers,
        other.calls,
    )


def _first(tree: Tree) -> Tree:
    """The outermost two levels are open, and whatever holds nothing but one item."""
    opened: set[str] = set()
    level, count = list(tree.forest.items.get(-1, ())), 0
    for depth in range(64):
        after: list[Item] = []
        for item in level:
            inner = tree.inner(item)
            if (
                inner
                and not item.members
                and (depth < 2 or len(inner) == 1)
                and count + len(inner) < _AT_FIRST
            ):
                opened.add(tree.key(item))
                after += inner
                count += len(inner)
        level = after
    return walked(replace(tree, open=frozenset(opened)))


def walked(tree: Tree) -> Tree:
    """The tree with its lines made anew."""
    shown: list[Item] = []
    left = [(item, 0) for item in reversed(_sorted(tree, tree.forest.items.get(-1, ())))]
    while left:
        item, depth = left.pop()
        shown.append(Item(item.first, item.members, depth))
        if tree.key(item) in tree.open:
            left += [(one, depth + 1) for one in reversed(_sorted(tree, tree.inner(item)))]
    return replace(tree, shown=tuple(shown))


def _sorted(tree: Tree, items: tuple[Item, ...]) -> list[Item]:
    match tree.order:
        case "elements":
            return sorted(items, key=lambda one: -one.count * tree.row(one).elements)
        case "bytes":
            return sorted(items, key=lambda one: -one.count * tree.row(one).bytes)
        case "name":
            return sorted(items, key=lambda one: _natural(tree.row(one).path))
        case _:
            return list(items)


def _natural(path: str) -> tuple[tuple[int, int, str], ...]:
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in path.split("."))


def turned(tree: Tree, row: int) -> Tree:
    """Fold the line at ``row``, or unfold it."""
    item = tree.shown[row]
    if not tree.inner(item):
        return tree
    return walked(replace(tree, open=tree.open ^ {tree.key(item)}))


def inward(tree: Tree, row: int) -> tuple[Tree, int]:
    """Unfold the line; the cursor goes into one that is unfolded already."""
    item = tree.shown[row]
    if not tree.inner(item):
        return tree, row
    if tree.key(item) in tree.open:
        return tree, row + 1
    return turned(tree, row), row


def outward(tree: Tree, row: int) -> tuple[Tree, int]:
    """Fold the line; the cursor goes to the one around it when it is folded already."""
    item = tree.shown[row]
    if tree.key(item) in tree.open:
        return turned(tree, row), row
    while row > 0 and tree.shown[row].depth >= item.depth:
        row -= 1
    return tree, row


def resorted(tree: Tree, row: int) -> tuple[Tree, int]:
    """Sort by the next of ``ORDERS``; the cursor stays on its line."""
    item = tree.shown[row] if 0 <= row < len(tree.shown) else None
    order = ORDERS[(ORDERS.index(tree.order) + 1) % len(ORDERS)]
    tree = walked(replace(tree, order=order))
    return tree, row if item is None else tree.shown.index(item)


def found(tree: Tree, wanted: str, row: int, by: int = 1) -> tuple[Tree, int] | None:
    """The next module (``by`` = -1: the one before) whose path or class has ``wanted`` in it, unfolded to."""
    rows, wanted = tree.forest.rows, wanted.lower()
    here = tree.shown[row].first if 0 <= row < len(tree.shown) else -1 if by > 0 else 0
    for step in range(1, len(rows) + 1):
        at = (here + by * step) % len(rows)
        if wanted in rows[at].path.lower() or wanted in rows[at].cls.lower():
            return _to(tree, at)
    return None


def _to(tree: Tree, at: int) -> tuple[Tree, int]:
    opened, inner = set(tree.open), at
    while True:
        around = tree.forest.parents[inner]
        opened |= {tree.key(one) for one in tree.forest.items[around] if one.members and inner in one.members}
        if around < 0:
            break
        opened.add(tree.forest.rows[around].path)
        inner = around
    tree = walked(replace(tree, open=frozenset(opened)))
    row = next(n for n, one in enumerate(tree.shown) if one.first == at and not one.members)
    return tree, row
