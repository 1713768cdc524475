"""What explains a difference between a formula and an inventory, in exact numbers of elements.

Pure: the module tree, the formula and its arguments in, sentences out.  A cause that can be seen by itself (a tied
head, a block more, adapters) is taken first; then single arguments that would make the formula agree; then tensors of
one name whose elements are exactly the rest.  What is not explained is said to be so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tui.budget import difference_arguments, difference_causes
from tui.budget.difference_causes import Cause
from tui.budget.params import Formula
from tui.project.modules import Modules

MOST_EVIDENT = 8
"""Causes that are tried in every combination: 255 of them."""
MOST_SETS = 400
"""Sets of tensors that are tried in pairs."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Causes that add up to the difference, or to as much of it as was found."""

    difference: int
    """Inventory minus formula."""
    causes: tuple[Cause, ...] = ()

    @property
    def explained(self) -> int:
        """Elements that the causes come to."""
        return sum(one.count for one in self.causes)

    @property
    def sentence(self) -> str:
        """Each cause with its count; how far they go first, when they do not go all the way."""
        said = "; ".join(f"{one.count:+,}: {one.text}" for one in self.causes)
        if self.explained == self.difference:
            return said
        head = f"explained {abs(self.explained):,} of {abs(self.difference):,}"
        return f"{head}: {said}" if said else f"{head}: no argument and no tensors of one name come to it"


def explain(
    formula: Formula,
    tree: Modules,
    groups: Mapping[str, int] | None = None,
    args: Mapping[str, Any] | None = None,
) -> Explanation:
    """Why ``tree`` has another number of elements than ``formula``.

    Args:
        formula: what was expected.
        tree: of the counted model.
        groups: the inventory's elements by part, compared with the formula's parts where both have names in common.
        args: that the formula was made from, None: not known, so no other ones are tried.

    Returns:
        No causes when there is no difference.
    """
    counted = sum(one.elements for one in tree.parameters)
    wanted = counted - formula.total
    if not wanted:
        return Explanation(0)
    evident = difference_causes.evident(formula, tree)[:MOST_EVIDENT]
    exactly = _subset(evident, wanted)
    if exactly is not None:
        return Explanation(wanted, exactly)
    sets = difference_causes.sets(formula, tree, wanted)
    found = (
        _by_one_argument(formula, tree, args, sets, wanted)
        or _with_one_set(evident, sets, wanted)
        or _two_sets(sets, wanted)
        or _by_arguments(formula, tree, args, wanted)
        or _by_part(formula, groups or {}, wanted)
    )
    return Explanation(wanted, found or _farthest(evident, wanted))


def _by_one_argument(
    formula: Formula,
    tree: Modules,
    args: Mapping[str, Any] | None,
    sets: Sequence[Cause],
    wanted: int,
) -> tuple[Cause, ...]:
    """The one argument that makes the formula agree, with the tensors that it is about where they can be told."""
    if args is None:
        return ()
    change = difference_arguments.single(formula, tree, args)
    if change is None:
        return ()
    same = next((one for one in sets if one.count == wanted), None)
    text = f"{same.text}: set {change}" if same else f"exactly what {change} changes"
    return (Cause(wanted, text),)


def _by_arguments(
    formula: Formula, tree: Modules, args: Mapping[str, Any] | None, wanted: int
) -> tuple[Cause, ...]:
    if args is None:
        return ()
    changes = difference_arguments.several(formula, tree, args)
    if not changes:
        return ()
    # Each by what it adds to those before it, so that the counts add up.
    return tuple(Cause(count, f"{change}") for count, change in changes)


def _subset(causes: Sequence[Cause], wanted: int) -> tuple[Cause, ...] | None:
    """The smallest set of causes that come to ``wanted`` exactly and name no tensor twice."""
    for count in range(1, len(causes) + 1):
        for some in combinations(causes, count):
            if sum(one.count for one in some) == wanted and _apart(some):
                return some
    return None


def _with_one_set(evident: Sequence[Cause], sets: Sequence[Cause], wanted: int) -> tuple[Cause, ...] | None:
    """As many evident causes as needed and one set of tensors that is exactly the rest."""
    by_count: dict[int, Cause] = {}
    for one in sets:
        by_count.setdefault(one.count, one)
    for count in range(len(evident) + 1):
        for some in combinations(evident, count):
            rest = by_count.get(wanted - sum(one.count for one in some))
            if rest is not None and _apart((*some, rest)):
                return (*some, rest)
    return None


def _two_sets(sets: Sequence[Cause], wanted: int) -> tuple[Cause, ...] | None:
    """Two sets of tensors without one in common that are exactly the difference."""
    by_count: dict[int, list[Cause]] = {}
    for one in sets[:MOST_SETS]:
        by_count.setdefault(one.count, []).append(one)
    for one in sets[:MOST_SETS]:
        for other in by_count.get(wanted - one.count, ()):
            if other is not one and _apart((one, other)):
                return one, other
    return None


def _by_part(formula: Formula, groups: Mapping[str, int], wanted: int) -> tuple[Cause, ...]:
    """Parts of both sides by name, where that is all there is to say and says all of it."""
    if not set(formula.parts) & set(groups):
        return ()
    causes: list[Cause] = []
    for name in dict.fromkeys([*formula.parts, *groups]):
        asked, has = formula.parts.get(name, 0), groups.get(name, 0)
        if asked != has:
            causes.append(Cause(has - asked, f"{name}: formula {asked:,}, inventory {has:,}"))
    return tuple(causes) if sum(one.count for one in causes) == wanted else ()


def _farthest(evident: Sequence[Cause], wanted: int) -> tuple[Cause, ...]:
    """The evident causes that leave the least, in the direction of the difference and not beyond it."""
    best: tuple[Cause, ...] = ()
    for count in range(1, len(evident) + 1):
        for some in combinations(evident, count):
            came_to = sum(one.count for one in some)
            within = 0 < came_to <= wanted or wanted <= came_to < 0
            if within and _apart(some) and abs(came_to) > abs(sum(one.count for one in best)):
                best = some
    return best


def _apart(causes: Iterable[Cause]) -> bool:
    """Whether no tensor is in two of them."""
    seen: set[str] = set()
    for one in causes:
        if seen & one.names:
            return False
        seen |= one.names
    return True
