"""Pairing two nearly equal sequences in one pass.

Two iterations of one program allocate the same blocks in the same order, except for a few that one of them adds.
A full diff would be quadratic on tens of thousands of repeating entries; looking a little ahead is enough.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

AHEAD = 48
"""How many entries the longer sequence may have more at one place."""


def pair(mine: Sequence[Any], theirs: Sequence[Any]) -> List[Tuple[int, int]]:
    """(index in ``mine``, index in ``theirs``) of entries that correspond, in order.

    >>> pair("abcd", "abxcd")
    [(0, 0), (1, 1), (2, 3), (3, 4)]
    >>> pair("abyd", "abcd")
    [(0, 0), (1, 1), (3, 3)]
    """
    pairs = []
    i = j = 0
    while i < len(mine) and j < len(theirs):
        if mine[i] == theirs[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
            continue
        step = _step(mine, theirs, i, j)
        if step is None:
            i, j = i + 1, j + 1
        else:
            i, j = i + step[0], j + step[1]
    return pairs


def pair_loosely(
    mine: Sequence[Any], theirs: Sequence[Any], my_kinds: Sequence[Any], their_kinds: Sequence[Any]
) -> List[Tuple[int, int]]:
    """``pair``, and between two of its pairs those entries whose kinds correspond, such as another size of the same.

    Sequences that have the same kinds throughout correspond one to one, whatever else of them is alike; and where
    kinds alone pair more, as where most sizes are others, they decide.

    >>> pair_loosely("aBcD", "abcd", "abcd", "abcd")
    [(0, 0), (1, 1), (2, 2), (3, 3)]
    """
    by_kind = pair(my_kinds, their_kinds)
    if len(by_kind) == len(mine) == len(theirs):
        return by_kind
    found = []
    i = j = 0
    for left, right in [*pair(mine, theirs), (len(mine), len(theirs))]:
        if i < left and j < right:
            found += [(i + one, j + other) for one, other in pair(my_kinds[i:left], their_kinds[j:right])]
        if left < len(mine):
            found.append((left, right))
        i, j = left + 1, right + 1
    return max(found, by_kind, key=len)


def _step(mine: Sequence[Any], theirs: Sequence[Any], i: int, j: int) -> Optional[Tuple[int, int]]:
    """The smallest number of entries to pass over on either side until two and their successors agree."""
    for total in range(1, AHEAD + 1):
        for left in range(total + 1):
            a, b = i + left, j + total - left
            if a < len(mine) and b < len(theirs) and mine[a : a + 3] == theirs[b : b + 3]:
                return left, total - left
    return None
