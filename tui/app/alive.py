"""What is alive at an instant as a table that folds: by module, by category, or tensor by tensor.  Pure.

Repeated layers are one line: ``h.*.mlp`` is the MLP of every block.  The rows of a level add up to the one above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.budget.timeline import Alike
    from tui.project.timeline import Storage

VIEWS = ("module", "category", "tensor")
ORDERS = ("bytes", "count", "name")
_MOST_TENSORS = 300
"""Lines of tensors that one line unfolds into at most; the smaller ones are one line."""
_OPEN_FIRST = 14
"""Lines that are open at first at most."""
_SHORT = {
    "retained_activations": "activations",
    "step_temporaries": "temporaries",
    "library_workspaces": "workspaces",
}


@dataclass(frozen=True, slots=True)
class Node:
    """One line: a module, a category, or storages that are alike."""

    label: str
    what: str
    bytes: int
    count: int
    rows: dict[str, int]
    """Bytes by ledger row."""
    detail: str
    inner: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """A line that is shown."""

    node: Node
    path: tuple[str, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class Alive:
    """The table: its views, what is unfolded, how it is sorted."""

    event: int
    bytes: int
    count: int
    forests: dict[str, tuple[Node, ...]] = field(repr=False)
    view: str = VIEWS[0]
    order: str = ORDERS[0]
    open: frozenset[tuple[str, ...]] = frozenset()
    shown: tuple[Item, ...] = field(default=(), repr=False, compare=False)


def table(storages: Sequence[Storage], event: int) -> Alive:
    """The table of the storages that are alive at ``event``; takes a while for many."""
    groups = _groups(storages)
    total = sum(one.bytes for one in groups)
    forests = {"module": _by_module(groups), "category": _by_category(groups), "tensor": _located(groups)}
    made = Alive(event, total, len(storages), forests)
    return walked(replace(made, open=_first(forests["module"])))


def _groups(storages: Sequence[Storage]) -> list[Alike]:
    """Storages that are alike, those of repeated layers together; most bytes first."""
    from tui.budget.timeline import Alike

    paths = _merged({one.module for one in storages})
    counts: dict[tuple[object, ...], int] = {}
    firsts: dict[tuple[object, ...], Storage] = {}
    for one in storages:
        key = (one.row, paths[one.module], one.operator, one.shape, one.dtype, one.bytes)
        counts[key] = counts.get(key, 0) + 1
        firsts.setdefault(key, one)
    made = [
        Alike(one, counts[key], counts[key] * one.bytes, paths[one.module]) for key, one in firsts.items()
    ]
    return sorted(made, key=lambda one: (-one.bytes, one.module))


def _merged(modules: set[str]) -> dict[str, str]:
    """Each path with ``*`` for the number of a layer that holds others; ``net.0`` that holds none stays."""
    holds: set[str] = set()
    for module in modules:
        while module := module.rpartition(".")[0]:
            holds.add(module)
    made: dict[str, str] = {}
    for module in modules:
        parts = module.split(".")
        kept = [
            "*" if part.isdecimal() and ".".join(parts[: at + 1]) in holds else part
            for at, part in enumerate(parts)
        ]
        made[module] = ".".join(kept)
    return made


def _by_module(groups: Sequence[Alike]) -> tuple[Node, ...]:
    """Modules in modules; a ``*`` is no level of its own."""
    inside: dict[str, list[str]] = {}
    own: dict[str, list[Alike]] = {}
    for one in groups:
        path = _level(one.module)
        own.setdefault(path, []).append(one)
        while path:
            around = _level(path.rpartition(".")[0])
            siblings = inside.setdefault(around, [])
            if path in siblings:
                break
            siblings.append(path)
            path = around
    modules = tuple(_module(path, "", inside, own) for path in inside.get("", ()))
    return modules + _tensors(own.get("", ()))


def _level(path: str) -> str:
    """The level that ``path`` is of: ``h`` for ``h.*``, whose own storages are those of ``h``."""
    while path == "*" or path.endswith(".*"):
        path = path[:-2]
    return path


def _module(path: str, around: str, inside: dict[str, list[str]], own: dict[str, list[Alike]]) -> Node:
    inner = [_module(one, path, inside, own) for one in inside.get(path, ())]
    groups = own.get(path, [])
    label = path.removeprefix(f"{around}.") if around else path
    if len(inner) == 1 and not groups:  # a module that only holds another one is no line of its own
        return replace(inner[0], label=f"{label}.{inner[0].label}")
    inner += _tensors(groups)
    rows = _added(one.rows for one in inner)
    size, count = sum(one.bytes for one in inner), sum(one.count for one in inner)
    return Node(label, _mostly(rows), size, count, rows, path, tuple(inner))


def _by_category(groups: Sequence[Alike]) -> tuple[Node, ...]:
    from tui.probe.protocol import REQUESTED_ROWS

    made: list[Node] = []
    for name in REQUESTED_ROWS:
        if of := [one for one in groups if one.storage.row == name]:
            size, count = sum(one.bytes for one in of), sum(one.count for one in of)
            made.append(Node(_words(name), "", size, count, {name: size}, _words(name), _located(of)))
    return tuple(made)


def _located(groups: Sequence[Alike]) -> tuple[Node, ...]:
    """A line for each, with the module it is in."""
    return _tensors(groups, of_module=True)


def _tensors(groups: Sequence[Alike], *, of_module: bool = False) -> tuple[Node, ...]:
    """A line for each of the largest, and one for the others together."""
    made = [_tensor(one) for one in groups[:_MOST_TENSORS]]
    if of_module:
        kept = groups[:_MOST_TENSORS]
        made = [replace(node, what=one.module or "no module") for node, one in zip(made, kept, strict=True)]
    if rest := groups[_MOST_TENSORS:]:
        rows = _added({one.storage.row: one.bytes} for one in rest)
        size, count = sum(one.bytes for one in rest), sum(one.count for one in rest)
        made.append(Node("smaller ones", f"{len(rest):,} kinds", size, count, rows, "the others together"))
    return tuple(_apart(made, groups))


def _apart(made: Sequence[Node], groups: Sequence[Alike]) -> Iterable[Node]:
    """With the operator that made it, where two lines would read the same."""
    times = Counter(key_of(one) for one in made)
    for at, node in enumerate(made):
        operator = groups[at].storage.operator if at < len(groups) else ""
        yield replace(node, what=operator) if times[key_of(node)] > 1 and operator else node


def _tensor(one: Alike) -> Node:
    storage = one.storage
    label = f"{storage.shape} {storage.dtype}".strip() or storage.operator or _words(storage.row)
    said = f"{one.module or 'no module'}: {one.count:,} x {storage.bytes:,} B {_words(storage.row)}"
    said += f", made by {storage.operator}" if storage.operator else ""
    return Node(label, _words(storage.row), one.bytes, one.count, {storage.row: one.bytes}, said)


def _words(row: str) -> str:
    return row.replace("_", " ")


def _added(tables: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for table in tables:
        for name, size in table.items():
            total[name] = total.get(name, 0) + size
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def _mostly(rows: dict[str, int]) -> str:
    """The row that most of the bytes are of."""
    return _SHORT.get(name := next(iter(rows), ""), _words(name))


def _first(forest: tuple[Node, ...]) -> frozenset[tuple[str, ...]]:
    """The largest modules that hold modules are open, as far as there is room for them."""
    opened: set[tuple[str, ...]] = set()
    folded = [(one, (key_of(one),)) for one in forest]
    count = len(forest)
    while folded:
        node, path = folded.pop(max(range(len(folded)), key=lambda at: folded[at][0].bytes))
        if any(one.inner for one in node.inner) and count + len(node.inner) <= _OPEN_FIRST:
            opened.add(path)
            count += len(node.inner)
            folded += [(one, (*path, key_of(one))) for one in node.inner]
    return frozenset(opened)


def key_of(node: Node) -> str:
    """What tells a line from the others of its level."""
    return f"{node.label} {node.what}" if not node.inner else node.label


def walked(made: Alive) -> Alive:
    """The table with its lines made anew."""
    shown: list[Item] = []
    left = [Item(one, (key_of(one),), 0) for one in reversed(_sorted(made, made.forests[made.view]))]
    while left:
        item = left.pop()
        shown.append(item)
        if item.path in made.open:
            inner = reversed(_sorted(made, item.node.inner))
            left += [Item(one, (*item.path, key_of(one)), item.depth + 1) for one in inner]
    return replace(made, shown=tuple(shown))


def _sorted(made: Alive, nodes: tuple[Node, ...]) -> list[Node]:
    match made.order:
        case "count":
            return sorted(nodes, key=lambda one: (-one.count, -one.bytes))
        case "name":
            return sorted(nodes, key=lambda one: one.label)
        case _:
            return sorted(nodes, key=lambda one: -one.bytes)


def turned(made: Alive, row: int) -> Alive:
    """Fold the line at ``row``, or unfold it."""
    item = made.shown[row]
    return walked(replace(made, open=made.open ^ {item.path})) if item.node.inner else made


def inward(made: Alive, row: int) -> tuple[Alive, int]:
    """Unfold the line; the cursor goes into one that is unfolded already."""
    item = made.shown[row]
    if not item.node.inner:
        return made, row
    return (made, row + 1) if item.path in made.open else (turned(made, row), row)


def outward(made: Alive, row: int) -> tuple[Alive, int]:
    """Fold the line; the cursor goes to the one around it when it is folded already."""
    item = made.shown[row]
    if item.path in made.open and item.node.inner:
        return turned(made, row), row
    while row > 0 and made.shown[row].depth >= max(1, item.depth):
        row -= 1
    return made, row if item.depth else made.shown.index(item)


def resorted(made: Alive, row: int) -> tuple[Alive, int]:
    """Sort by the next of ``ORDERS``; the cursor stays on its line."""
    return _kept(replace(made, order=_after(ORDERS, made.order)), made, row)


def reviewed(made: Alive) -> Alive:
    """The next of ``VIEWS``."""
    view = _after(VIEWS, made.view)
    opened = made.open | (_first(made.forests[view]) if view == "module" else frozenset())
    return walked(replace(made, view=view, open=opened))


def _after(names: tuple[str, ...], name: str) -> str:
    return names[(names.index(name) + 1) % len(names)]


def _kept(after: Alive, before: Alive, row: int) -> tuple[Alive, int]:
    path = before.shown[row].path if 0 <= row < len(before.shown) else ()
    after = walked(after)
    return after, next((at for at, one in enumerate(after.shown) if one.path == path), min(row, 0))


def found(made: Alive, wanted: str, row: int, by: int = 1) -> tuple[Alive, int] | None:
    """The next line (``by`` = -1: the one before) that has ``wanted`` in it, unfolded to."""
    every = walked(replace(made, open=_everything(made.forests[made.view]))).shown
    wanted = wanted.lower()
    here = made.shown[row].path if 0 <= row < len(made.shown) else ()
    start = next((at for at, one in enumerate(every) if one.path == here), -1 if by > 0 else 0)
    for step in range(1, len(every) + 1):
        item = every[(start + by * step) % len(every)]
        if wanted in f"{item.node.label} {item.node.what} {item.node.detail}".lower():
            opened = made.open | {item.path[:depth] for depth in range(1, len(item.path))}
            after = walked(replace(made, open=opened))
            return after, next(at for at, one in enumerate(after.shown) if one.path == item.path)
    return None


def _everything(nodes: tuple[Node, ...]) -> frozenset[tuple[str, ...]]:
    opened: set[tuple[str, ...]] = set()
    left = [(one, (key_of(one),)) for one in nodes]
    while left:
        node, path = left.pop()
        if node.inner:
            opened.add(path)
            left += [(one, (*path, key_of(one))) for one in node.inner]
    return frozenset(opened)
