"""Search on paper: the largest micro-batch that a GPU would hold, from three traces and no GPU.

All sizes are bytes.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from .affine import Largest, Lines, MakeAllocator, Traced, largest, without
from .point import Point
from .simulate import largest_reserved

TraceAt = Callable[[int], Point]
"""Traces a micro-batch."""
ATTEMPTS = 4
"""Traces that look for the answer, beyond the two that the lines go through."""


class Search:
    """One search; ``run`` gives the ``predicted_largest`` table.

    Args:
        micro: of ``first``, the point that was asked for.
        first: traced.
        trace: traces others.
        limit: bytes that may be reserved.
        allocator: makes an empty one.
        upper: no more samples than this.
    """

    def __init__(
        self,
        micro: int,
        first: Point,
        trace: TraceAt,
        limit: int,
        allocator: MakeAllocator,
        upper: Optional[int] = None,
    ) -> None:
        self._micro = micro
        self._trace = trace
        self._limit = limit
        self._allocator = allocator
        self._upper = upper
        self._simulated = 0
        self._reserved: Dict[int, int] = {}
        """Of every traced batch, scratch included."""
        self._plain: Dict[int, Traced] = {}
        """Every traced batch without scratch."""
        self._reference = micro
        """A batch that the lines go through."""
        self._take(micro, first)

    def run(self) -> Dict[str, Any]:
        """Propose by the lines, trace the proposal, and correct the lines by what it shows."""
        lines = self._lines()
        if lines is None:
            return self._unknown(
                "no two of the micro-batches %s run the same operators" % sorted(self._plain)
            )
        offset, exact, found = 0, True, None
        for _ in range(ATTEMPTS):
            found = largest(lines, self._limit - offset, self._allocator, self._upper, self._micro)
            self._simulated += found.simulated
            if found.micro is None or found.micro in self._reserved:
                break
            assert found.reserved is not None
            real = self._at(found.micro)
            exact = exact and real == found.reserved
            offset = real - found.reserved
        return self._answer(found, offset, exact)

    def _lines(self) -> Optional[Lines]:
        """Lines through two batches that are alike; one sample often runs other operators than several."""
        asked = self._micro
        for other in (asked // 2, 2 * asked, 4 * asked, 3 * asked):
            if other < 1 or other in self._plain or (self._upper is not None and other > self._upper):
                continue
            self._at(other)
            for micro, one in self._plain.items():
                found = Lines.between(one, self._plain[other]) if micro != other else None
                if found is not None:
                    self._reference = other
                    return found
        return None

    def _at(self, micro: int) -> int:
        if micro not in self._reserved:
            self._take(micro, self._trace(micro))
        return self._reserved[micro]

    def _take(self, micro: int, point: Point) -> None:
        self._reserved[micro] = largest_reserved(point.simulate(self._allocator(None)).levels)
        requested = max(point.labelled.record.levels(), default=0)
        events, intervals = without(point.events, point.intervals, point.scratch)
        self._plain[micro] = Traced(micro, events, intervals, requested)

    def _answer(self, found: Optional[Largest], offset: int, exact: bool) -> Dict[str, Any]:
        fits = [micro for micro, size in self._reserved.items() if size <= self._limit]
        best = max(fits, default=None)
        after = None
        if found is not None and found.micro == best and found.next_reserved is not None:
            after = {"micro": found.next_micro, "reserved_bytes": found.next_reserved + offset}
        elif over := [micro for micro in self._reserved if best is None or micro > best]:
            after = {"micro": min(over), "reserved_bytes": self._reserved[min(over)]}
        return {
            "micro": best,
            "reserved_bytes": None if best is None else self._reserved[best],
            "limit_bytes": self._limit,
            "next": after,
            "line": self._line(),
            "traced": sorted(self._reserved),
            "simulated": self._simulated,
            "exact": exact,
            "unknown": {},
        }

    def _unknown(self, why: str) -> Dict[str, Any]:
        found = self._answer(None, 0, False)
        return {**found, "micro": None, "reserved_bytes": None, "next": None, "unknown": {"micro": why}}

    def _line(self) -> Optional[Dict[str, Optional[int]]]:
        """Requested bytes as fixed + per sample x micro, of the batches that are alike.

        Through two points there is a line always: how far they lie from one needs three.
        """
        base = self._plain[self._reference]
        alike = [one for one in self._plain.values() if one is base or Lines.between(base, one) is not None]
        points = sorted(alike, key=lambda one: one.micro)
        if len(points) < 2:
            return None
        low, high = points[0], points[-1]
        slope = (high.requested - low.requested) / (high.micro - low.micro)
        fixed = low.requested - slope * low.micro
        residual = max(abs(one.requested - (fixed + slope * one.micro)) for one in points)
        return {
            "fixed_bytes": round(fixed),
            "per_sample_bytes": round(slope),
            "residual_max_bytes": round(residual) if len(points) > 2 else None,
        }
