"""The module tree as rows for people: equal blocks that follow each other are one row.

Rows of a level add up to the one above them: what a module holds itself is a row of its own where it has others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tui.project.modules import ModuleRow, Modules

Order = Literal["model", "elements", "bytes", "name"]
OWN = "(own)"


@dataclass(frozen=True, slots=True)
class Branch:
    """A module with what is below it."""

    row: ModuleRow
    children: tuple[Branch, ...] = ()
    times: int = 1
    """How many equal ones follow each other; ``row`` and ``children`` are those of the first."""
    last: str = ""
    """Path of the last of them."""

    @property
    def elements(self) -> int:
        """Of all of them."""
        return self.row.elements * self.times

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return self.row.bytes * self.times


@dataclass(slots=True)
class _Made:
    branch: Branch
    alike: int
    """The same number for equal ones."""


@dataclass(slots=True)
class _Known:
    numbers: dict[tuple[Any, ...], int] = field(default_factory=dict[tuple[Any, ...], int])

    def number(self, key: tuple[Any, ...]) -> int:
        return self.numbers.setdefault(key, len(self.numbers))


def branches(tree: Modules) -> Branch:
    """The whole tree, folded; no recursion, so that any depth will do.

    Raises:
        ValueError: it has no module.
    """
    if not tree.modules:
        raise ValueError("the tree has no module")
    below: dict[str, list[_Made]] = {}
    known = _Known()
    made = _Made(Branch(tree.modules[0]), 0)
    for row in reversed(tree.modules):  # children stand after their parents
        children = below.pop(row.path, [])[::-1]
        key = (replace(row, path=""), *((_last(one.branch.row.path), one.alike) for one in children))
        folded = _with_own(row, _folded(children))
        made = _Made(Branch(row, folded, last=row.path), known.number(key))
        if row.path:
            below.setdefault(row.path.rpartition(".")[0], []).append(made)
    return made.branch


def _folded(children: Sequence[_Made]) -> tuple[Branch, ...]:
    found: list[Branch] = []
    before: int | None = None
    for one in children:
        numbered = _last(one.branch.row.path).isdigit()
        if found and numbered and one.alike == before:
            found[-1] = replace(found[-1], times=found[-1].times + 1, last=one.branch.row.path)
        else:
            found.append(one.branch)
        before = one.alike if numbered else None
    return tuple(found)


def _with_own(row: ModuleRow, children: tuple[Branch, ...]) -> tuple[Branch, ...]:
    if not children or not row.own:
        return children
    trained = row.trainable - sum(one.row.trainable * one.times for one in children)
    own = replace(
        row,
        path=f"{row.path}.{OWN}" if row.path else OWN,
        cls="",
        elements=row.own,
        trainable=trained,
        bytes=row.bytes - sum(one.bytes for one in children),
        tensors=row.tensors - sum(one.row.tensors * one.times for one in children),
        buffers=row.buffers - sum(one.row.buffers * one.times for one in children),
        calls=None,
    )
    return (*children, Branch(own, last=own.path))


def shown(root: Branch, depth: int | None = None, order: Order = "model") -> Iterator[tuple[int, Branch]]:
    """(level, branch) in the order in which they are printed, down to ``depth`` (None: all); the root is level 0."""
    stack = [(0, root)]
    while stack:
        level, one = stack.pop()
        yield level, one
        if depth is None or level < depth:
            stack += [(level + 1, child) for child in reversed(_ordered(one.children, order))]


def is_cut(root: Branch, depth: int | None) -> bool:
    """Whether ``depth`` leaves modules out."""
    return depth is not None and any(level == depth and one.children for level, one in shown(root, depth))


def _ordered(children: Sequence[Branch], order: Order) -> list[Branch]:
    keys: dict[str, Callable[[Branch], Any]] = {
        "elements": lambda one: -one.elements,
        "bytes": lambda one: -one.bytes,
        "name": lambda one: _natural(one.row.path),
    }
    return sorted(children, key=keys[order]) if order in keys else list(children)


def _natural(path: str) -> tuple[int, int, str]:
    last = _last(path)
    return (0, int(last), "") if last.isdigit() else (1, 0, last)


def name_of(one: Branch) -> str:
    """``wte``; of equal blocks ``h.0 ... h.11 (12 x)``."""
    last = _last(one.row.path) or one.row.cls
    if one.times == 1:
        return last
    above = _last(one.row.path.rpartition(".")[0])
    head = f"{above}." if above else ""
    return f"{head}{last} ... {head}{_last(one.last)} ({one.times} x)"


def _last(path: str) -> str:
    return path.rpartition(".")[2]
