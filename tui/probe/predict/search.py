"""Search on paper: the largest micro-batch that a GPU would hold, from three traces and no GPU.

All sizes are bytes.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from .affine import Largest, Lines, MakeAllocator, Traced, largest
from .point import Point
from .simulate import largest_reserved, simulate

TraceAt = Callable[[int], Point]
"""Traces a micro-batch."""


def as_traced(micro: int, point: Point) -> Traced:
    """What a line needs of ``point``."""
    return Traced(micro, point.events, point.intervals, max(point.labelled.record.levels(), default=0))


def search(
    micro: int,
    first: Point,
    trace: TraceAt,
    limit: int,
    allocator: MakeAllocator,
    upper: Optional[int] = None,
) -> Dict[str, Any]:
    """The ``predicted_largest`` table.

    Args:
        micro: of ``first``, the point that was asked for.
        first: traced.
        trace: traces others.
        limit: bytes that may be reserved.
        allocator: makes an empty one.
        upper: no more samples than this.
    """
    done: Dict[int, Traced] = {micro: as_traced(micro, first)}

    def at(number: int) -> Traced:
        if number not in done:
            done[number] = as_traced(number, trace(number))
        return done[number]

    other = micro // 2 if micro > 1 else 2
    lines = Lines.between(done[micro], at(other))
    if lines is None:
        return _unknown("micro-batches %d and %d do not run the same operators" % (micro, other), done)
    found = largest(lines, limit, allocator, upper, micro)
    exact = True
    if found.micro is not None and found.micro not in done:
        found, exact = _confirmed(found, at, done[micro], limit, allocator, upper)
    return {
        "micro": found.micro,
        "reserved_bytes": found.reserved,
        "limit_bytes": limit,
        "next": {"micro": found.next_micro, "reserved_bytes": found.next_reserved},
        "line": _line(list(done.values())),
        "traced": sorted(done),
        "simulated": found.simulated,
        "exact": exact,
        "unknown": {},
    }


def _confirmed(
    found: Largest,
    at: Callable[[int], Traced],
    near: Traced,
    limit: int,
    allocator: MakeAllocator,
    upper: Optional[int],
) -> Any:
    """(the answer from a trace at the answer itself, whether the lines had said the same to the byte)."""
    assert found.micro is not None
    real = at(found.micro)
    reserved = largest_reserved(simulate(real.events, real.intervals, allocator(None)).levels)
    if reserved == found.reserved:
        return found, True
    lines = Lines.between(near, real)
    if lines is None:
        return found._replace(reserved=reserved, micro=found.micro if reserved <= limit else None), False
    again = largest(lines, limit, allocator, upper, found.micro)
    return again._replace(simulated=again.simulated + found.simulated), False


def _line(points: List[Traced]) -> Optional[Dict[str, int]]:
    """Requested bytes as fixed + per sample x micro, by the smallest and the largest point."""
    points = sorted(points, key=lambda one: one.micro)
    low, high = points[0], points[-1]
    if low.micro == high.micro:
        return None
    slope = (high.requested - low.requested) / (high.micro - low.micro)
    fixed = low.requested - slope * low.micro
    residual = max(abs(one.requested - (fixed + slope * one.micro)) for one in points)
    return {
        "fixed_bytes": round(fixed),
        "per_sample_bytes": round(slope),
        "residual_max_bytes": round(residual),
    }


def _unknown(why: str, done: Dict[int, Traced]) -> Dict[str, Any]:
    return {
        "micro": None,
        "reserved_bytes": None,
        "limit_bytes": None,
        "next": None,
        "line": None,
        "traced": sorted(done),
        "simulated": 0,
        "exact": False,
        "unknown": {"micro": why},
    }
