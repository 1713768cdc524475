"""A line through measured batches: requested bytes over micro-batch.

A planning aid.  Requested bytes follow the line for fixed shapes; what the allocator holds for them does not,
so a batch that was not run is not proven to fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor


@dataclass(frozen=True, slots=True)
class Line:
    """``requested = fixed + per_sample x micro``, in bytes."""

    fixed_bytes: int
    per_sample_bytes: int
    residual_max_bytes: int
    """The largest distance of a measured point from this line; 0 says that it is exactly linear."""
    points: dict[int, int]
    """Measured: micro-batch to requested bytes."""

    def at(self, micro: int) -> int:
        """Requested bytes on the line at ``micro`` samples."""
        return self.fixed_bytes + self.per_sample_bytes * micro


FOLLOWS_SHARE = 0.02
"""Largest residual, as a share of the largest point, with which points are said to follow their line."""


def residual_share(line: Line) -> float:
    """The largest residual as a fraction of the largest measured point."""
    return line.residual_max_bytes / max(1, *line.points.values())


def follows(line: Line) -> bool:
    """Whether the measured points lie on the line, as requested bytes of fixed shapes do.

    >>> follows(fit({1: 130, 2: 160, 4: 220})), follows(fit({1: 130, 2: 260, 4: 220}))
    (True, False)
    """
    return residual_share(line) <= FOLLOWS_SHARE


def fit(points: Mapping[int, int]) -> Line:
    """The least-squares line through ``points``, micro-batch to requested bytes.

    The arithmetic is exact; slope and intercept are then rounded to whole bytes.

    Raises:
        ValueError: fewer than two batch sizes.

    >>> fit({1: 130, 2: 160, 4: 220})
    Line(fixed_bytes=100, per_sample_bytes=30, residual_max_bytes=0, points={1: 130, 2: 160, 4: 220})
    """
    if len(points) < 2:
        raise ValueError(f"a line needs two batch sizes, got {len(points)}")
    count = len(points)
    mean_x = Fraction(sum(points), count)
    mean_y = Fraction(sum(points.values()), count)
    across = sum((x - mean_x) * (y - mean_y) for x, y in points.items())
    slope = Fraction(across) / sum((x - mean_x) ** 2 for x in points)
    per_sample = round(slope)
    fixed = round(mean_y - per_sample * mean_x)
    residual = max(abs(y - fixed - per_sample * x) for x, y in points.items())
    return Line(fixed, per_sample, ceil(residual), dict(sorted(points.items())))


def largest(line: Line, limit_bytes: int) -> int:
    """The largest micro-batch whose requested bytes on the line are within ``limit_bytes``; 0 when none is.

    Raises:
        ValueError: the line does not grow, so it sets no limit.

    >>> largest(fit({1: 130, 2: 160}), 200)
    3
    """
    if line.per_sample_bytes <= 0:
        raise ValueError(
            f"{line.per_sample_bytes} B a sample: the measured batches do not grow, so no limit follows"
        )
    return max(0, floor(Fraction(limit_bytes - line.fixed_bytes, line.per_sample_bytes)))
