"""What a step's timeline of storages says: its level, its peak, and what is alive there by module and by kind.

Everything is exact: a sum over storages is the ``requested`` of that instant.  Event -1 is before the iteration.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tui.probe.protocol import REQUESTED_ROWS
from tui.project.timeline import Phase, Storage, Timeline


@dataclass(slots=True)
class Branch:
    """A module in the tree of ``by_module``: bytes and storages of it and of everything below it."""

    path: str
    """"" for the whole; parts are joined by dots."""
    bytes: int = 0
    count: int = 0
    own: int = 0
    """Of the bytes: those of no module below it."""
    rows: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes by ledger row."""
    children: list[Branch] = field(default_factory=lambda: list[Branch]())
    """Most bytes first."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Storages of one size, row, operator, shape and dtype, and of the same place in repeated layers."""

    storage: Storage
    """The first of them."""
    count: int
    bytes: int
    """Of all of them together."""
    module: str
    """Where they are; a number that differs between them is "*": "h.*.mlp"."""


def levels(timeline: Timeline) -> list[int]:
    """Requested bytes before the iteration and after each event: item ``event + 1``."""
    change = [0] * (timeline.events + 1)
    for one in timeline.storages:
        change[one.born + 1] += one.bytes
        if one.died is not None:
            change[one.died + 1] -= one.bytes
    level, found = 0, list[int]()
    for step in change:
        level += step
        found.append(level)
    return found


def phase_peak(timeline: Timeline, phase: Phase, known: Sequence[int] | None = None) -> tuple[int, int]:
    """(event, bytes) of a phase's highest instant, the one that it began with included; the earliest of equals.

    Args:
        known: ``levels(timeline)``, where the caller has them.
    """
    level = levels(timeline) if known is None else known
    at = max(range(phase.first, max(phase.first, phase.last) + 1), key=lambda place: (level[place], -place))
    return at - 1, level[at]


def peak(timeline: Timeline) -> tuple[int, int]:
    """(event, bytes) of the highest instant of all phases; (-1, level before it) of an empty iteration."""
    level = levels(timeline)
    found = [phase_peak(timeline, one, level) for one in timeline.phases]
    return max(found, key=lambda one: (one[1], -one[0]), default=(-1, level[0]))


def peak_in(timeline: Timeline, name: str | None = None) -> tuple[int, int, Phase] | None:
    """(event, bytes, phase) of the highest instant of the phases called ``name``, None: of all; None: no such."""
    level = levels(timeline)
    found = [
        (*phase_peak(timeline, one, level), one)
        for one in timeline.phases
        if name is None or one.name == name
    ]
    return max(found, key=lambda one: (one[1], -one[0]), default=None)


def phase_at(timeline: Timeline, event: int) -> Phase | None:
    """The phase that ``event`` lies in, None between phases."""
    return next((one for one in timeline.phases if one.first <= event < one.last), None)


def shared_phases(one: Timeline, other: Timeline) -> list[tuple[Phase, Phase]]:
    """The phases that both have, by name and micro-batch, in an order that is that of both."""
    found: list[tuple[Phase, Phase]] = []
    begin = 0
    for phase in one.phases:
        left = other.phases[begin:]
        names = [(at.name, at.micro) for at in left]
        if (phase.name, phase.micro) in names:
            place = names.index((phase.name, phase.micro))
            found.append((phase, left[place]))
            begin += place + 1
    return found


def anchors(one: Timeline, other: Timeline) -> list[tuple[int, int]]:
    """Places (event + 1) of ``one`` and the places of ``other`` that are the same instants, ascending in both.

    They are the beginning, the beginnings and ends of ``shared_phases``, and the end; between two of them
    the instants of the one are spread evenly over those of the other.
    """
    made = [(0, 0)]
    for mine, yours in shared_phases(one, other):
        made += [(mine.first, yours.first), (mine.last, yours.last)]
    made.append((one.events, other.events))
    kept = made[:1]
    for mine, yours in made[1:]:
        if mine >= kept[-1][0] and yours >= kept[-1][1] and (mine, yours) != kept[-1]:
            kept.append((mine, yours))
    return kept


def moved(place: int, between: Sequence[tuple[int, int]]) -> int:
    """The place of the second of two timelines at ``place`` of the first; ``between`` is their ``anchors``."""
    at = max(1, min(bisect_right(between, place, key=lambda one: one[0]), len(between) - 1))
    (first, left), (last, right) = between[at - 1], between[at]
    if last == first:
        return right
    return left + round((right - left) * (place - first) / (last - first))


def series(timeline: Timeline, points: int) -> list[tuple[int, dict[str, int]]]:
    """The level by ledger row at some events, in order: the highest instant of each of ``points`` stretches.

    The first and the last event and the peak of every phase are always among them, so that nothing that is
    thinned out is higher than its neighbours: at most ``points`` + 2 + one for each phase.
    """
    level = levels(timeline)
    last = len(level) - 1
    chosen = {0, last} | {phase_peak(timeline, one, level)[0] + 1 for one in timeline.phases}
    count = max(1, min(points, len(level)))
    edges = [len(level) * one // count for one in range(count + 1)]
    chosen |= {max(range(left, right), key=level.__getitem__) for left, right in pairwise(edges)}
    return _rows_at(timeline, sorted(chosen))


def _rows_at(timeline: Timeline, places: Sequence[int]) -> list[tuple[int, dict[str, int]]]:
    """Rows at each of the ascending ``places`` (event + 1)."""
    changes = [Counter[str]() for _ in range(len(places) + 1)]
    for one in timeline.storages:
        changes[bisect_left(places, one.born + 1)][one.row] += one.bytes
        if one.died is not None:
            changes[bisect_left(places, one.died + 1)][one.row] -= one.bytes
    level: dict[str, int] = dict.fromkeys(REQUESTED_ROWS, 0)
    found: list[tuple[int, dict[str, int]]] = []
    for place, change in zip(places, changes, strict=False):
        for row, size in change.items():
            level[row] += size
        found.append((place - 1, {row: size for row, size in level.items() if size}))
    return found


def alive(timeline: Timeline, event: int) -> list[Storage]:
    """The storages that are alive after ``event``, by birth."""
    return [one for one in timeline.storages if one.lives(event)]


def by_row(storages: Iterable[Storage]) -> dict[str, int]:
    """Bytes by ledger row, in the order of the ledger; a row without any is left out."""
    sizes = Counter[str]()
    for one in storages:
        sizes[one.row] += one.bytes
    return {row: sizes[row] for row in REQUESTED_ROWS if sizes[row]}


def by_module(storages: Iterable[Storage]) -> Branch:
    """The tree of modules that hold them; the root holds all, also what belongs to no module."""
    root = Branch("")
    known = {"": root}
    for one in storages:
        path = one.module
        _branch(known, path).own += one.bytes
        while True:
            branch = known[path]
            branch.bytes += one.bytes
            branch.count += 1
            branch.rows[one.row] = branch.rows.get(one.row, 0) + one.bytes
            if not path:
                break
            path = path.rpartition(".")[0]
    for branch in known.values():
        branch.children.sort(key=lambda child: (-child.bytes, child.path))
    return root


def _branch(known: dict[str, Branch], path: str) -> Branch:
    if path not in known:
        known[path] = Branch(path)
        _branch(known, path.rpartition(".")[0]).children.append(known[path])
    return known[path]


def top(storages: Iterable[Storage], n: int) -> list[Alike]:
    """The ``n`` largest groups of equal storages, most bytes first."""
    groups: dict[tuple[object, ...], list[Storage]] = {}
    for one in storages:
        key = (one.row, _pattern(one.module), one.operator, one.shape, one.dtype, one.bytes)
        groups.setdefault(key, []).append(one)
    made = [
        Alike(same[0], len(same), sum(one.bytes for one in same), _common([one.module for one in same]))
        for same in groups.values()
    ]
    return sorted(made, key=lambda one: (-one.bytes, one.storage.born, one.module))[: max(0, n)]


def by_pattern(storages: Iterable[Storage]) -> list[Alike]:
    """What modules hold of their own, those of one place in repeated layers together, most bytes first.

    ``count`` is how many modules, ``storage`` the first of the largest of theirs.
    """
    groups: dict[tuple[str, ...], list[Storage]] = {}
    for one in storages:
        groups.setdefault(_pattern(one.module), []).append(one)
    made = [
        Alike(
            max(same, key=lambda one: one.bytes),
            len({one.module for one in same}),
            sum(one.bytes for one in same),
            _common([one.module for one in same]),
        )
        for same in groups.values()
    ]
    return sorted(made, key=lambda one: (-one.bytes, one.module))


def _pattern(module: str) -> tuple[str, ...]:
    return tuple("*" if part.isdigit() else part for part in module.split("."))


def _common(modules: Sequence[str]) -> str:
    """One path for modules of one pattern: parts that differ are "*"."""
    parts = zip(*(one.split(".") for one in modules), strict=True)
    return ".".join(same[0] if len(set(same)) == 1 else "*" for same in parts)
