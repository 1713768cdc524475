"""Which other arguments would make a formula agree with a module tree: tried one by one, then a few together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations, pairwise
from typing import Any

from tui.budget import difference_causes, params
from tui.budget.arguments import Argument, shown
from tui.budget.params import Formula
from tui.project.modules import Modules

MOST_NUMBERS = 64
"""Lengths of the tree's tensors that are tried as an argument."""
MOST_TOGETHER = 3

Change = tuple[str, Any]


def single(formula: Formula, tree: Modules, args: Mapping[str, Any]) -> str | None:
    """The one argument, as ``tied = false``, with which the formula's total is the tree's; None: there is none."""
    wanted = sum(one.elements for one in tree.parameters)
    numbers = list(dict.fromkeys(length for one in tree.parameters for length in one.shape))[:MOST_NUMBERS]
    tried = [*_words(formula, args), *_seen(formula, tree), *_numbers(formula, numbers)]
    for name, value in tried:
        if _total(formula.family, args, ((name, value),)) == wanted:
            return _said((name, value))
    return None


def several(formula: Formula, tree: Modules, args: Mapping[str, Any]) -> list[tuple[int, str]]:
    """(elements, change) of the fewest arguments with which the totals agree, each on top of those before it."""
    wanted = sum(one.elements for one in tree.parameters)
    tried = [*_words(formula, args), *_seen(formula, tree)]
    for count in range(2, MOST_TOGETHER + 1):
        for some in combinations(tried, count):
            if len({name for name, _ in some}) < count or _total(formula.family, args, some) != wanted:
                continue
            totals = [formula.total]
            totals += [_total(formula.family, args, some[:end]) or 0 for end in range(1, count + 1)]
            changed = [after - before for before, after in pairwise(totals)]
            if all(changed) and all(totals):
                return [(size, f"what {_said(one)} changes") for size, one in zip(changed, some, strict=True)]
    return []


def _total(family: str, args: Mapping[str, Any], changes: tuple[Change, ...]) -> int | None:
    try:
        return params.formula(family, {**args, **dict(changes)}).total
    except ValueError:
        return None


def _said(change: Change) -> str:
    name, value = change
    return f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {shown(value)}"


def _declared(formula: Formula) -> tuple[Argument, ...]:
    return params.ARGUMENTS.get(formula.family, ())


def _words(formula: Formula, args: Mapping[str, Any]) -> Iterator[Change]:
    """Every other value of the arguments that have few."""
    for one in _declared(formula):
        now = args.get(one.name, one.default)
        if one.kind == "flag":
            yield from ((one.name, value) for value in (True, False) if value is not now)
        elif one.kind == "choice":
            yield from ((one.name, value) for value in one.choices if value != now)


def _seen(formula: Formula, tree: Modules) -> Iterator[Change]:
    """Arguments that the tree shows."""
    has = {one.name for one in _declared(formula)}
    table = difference_causes.token_table(tree)
    if "layers" in has and (count := len(difference_causes.blocks(tree))):
        yield "layers", count
    if "vocab" in has and table is not None:
        yield "vocab", table.shape[0]
    yield from ((name, length) for name, length in _lengths(tree) if name in has)
    if "segments" in has:
        yield from (("segments", count) for count in (0, 1, 2))


def _lengths(tree: Modules) -> Iterator[Change]:
    """What the lengths of single tensors are likely to be: of vectors, of a first convolution, of a last matrix."""
    vectors = Counter(one.shape[0] for one in tree.parameters if len(one.shape) == 1)
    if vectors:
        yield "width", vectors.most_common(1)[0][0]
    kernels = [one.shape for one in tree.parameters if len(one.shape) == 4]
    if kernels and kernels[0][2] == kernels[0][3]:
        yield "patch", kernels[0][3]
        yield "in_channels", kernels[0][1]
    matrices = [one.shape for one in tree.parameters if len(one.shape) == 2]
    if matrices:
        yield "classes", matrices[-1][0]


def _numbers(formula: Formula, numbers: list[int]) -> Iterator[Change]:
    for one in _declared(formula):
        if one.kind == "whole":
            yield from ((one.name, number) for number in numbers)
    small = (
        name
        for name in ("kv_heads", "layers", "experts")
        if any(one.name == name for one in _declared(formula))
    )
    for name in small:
        yield from ((name, number) for number in range(129))
