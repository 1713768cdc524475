"""Whether iterations leave something behind, and where they began.

Live requested bytes at the same point of two iterations that are alike must be equal.  A loss that is summed up
with its graph, a list of outputs, a cache without a bound make them grow by the same amount each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional

from . import timeline

if TYPE_CHECKING:
    from .labels import Interval, Labelled

SHOWN = 4
"""Kinds of tensors that are named."""
FIRST, TRACKED, STEADY = 0, 1, 2


def found(labelled: Labelled) -> Dict[str, Any]:
    """The entries of the ``traced`` table.

    Returns:
        start_bytes: requested bytes alive before the first iteration.
        growth_bytes: what the last iteration left over at its end, if the one before it did so too; else 0.
        growth_of: the largest of what the one before left and is still there, {what: bytes}.
    """
    begun = [_level(labelled, "start", index) for index in (FIRST, TRACKED, STEADY)]
    ended = [_level(labelled, "idle", index) for index in (TRACKED, STEADY)]
    told: Dict[str, Any] = {"start_bytes": begun[0], "growth_bytes": None, "growth_of": {}}
    if None in begun or None in ended:
        return told
    # What an iteration makes once, such as a cache at its second use, is no growth: both must have left something.
    growth = min(begun[2] - begun[1], ended[1] - ended[0])  # type: ignore[operator]
    told["growth_bytes"] = ended[1] - ended[0] if growth > 0 else 0  # type: ignore[operator]
    if growth > 0:
        told["growth_of"] = _left(labelled)
    return told


def _at(labelled: Labelled, phase: str, iteration: int) -> Optional[Interval]:
    return next((one for one in labelled.intervals if (one.phase, one.iteration) == (phase, iteration)), None)


def _level(labelled: Labelled, phase: str, iteration: int) -> Optional[int]:
    """Live requested bytes as ``phase`` of ``iteration`` begins; None: it was not reached."""
    interval = _at(labelled, phase, iteration)
    if interval is None:
        return None
    return sum(change for _, _, change in labelled.record.events[: interval.first])


def _left(labelled: Labelled) -> Dict[str, int]:
    begun, ended = _at(labelled, "start", TRACKED), _at(labelled, "idle", STEADY)
    following = _at(labelled, "start", STEADY)
    assert begun is not None
    assert ended is not None
    assert following is not None
    sizes: Dict[str, int] = {}
    for index in labelled.record.alive_after(ended.first - 1):
        if begun.first <= labelled.record.allocations[index].born < following.first:
            module, operator, _, _ = timeline.words(labelled, index)
            what = operator or (labelled.rows[index] or "unattributed").replace("_", " ")
            what += " in %s" % module if module else ""
            sizes[what] = sizes.get(what, 0) + labelled.record.allocations[index].nbytes
    ordered = sorted(sizes.items(), key=lambda one: (-one[1], one[0]))
    return dict(ordered[:SHOWN])
