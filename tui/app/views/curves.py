"""Loss curves of several settings in one chart, drawn by plotext.

plotext keeps one figure for the whole process: it is used here alone, under a lock, and never while an app starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from threading import Lock

MARKS = ("●", "×", "+", "○", "*", "·")
"""One a curve, so that none is told by its colour alone."""

_lock = Lock()


def loss_chart(curves: Mapping[str, Sequence[float]], steps: int, width: int, height: int) -> list[str]:
    """Lines of a chart of ``height`` rows over ``steps`` optimizer steps, and a legend line above it.

    Args:
        curves: losses by setting, evenly taken over the steps, first and last included; what is not finite is
            left out.
        steps: optimizer steps of each run.
        width: columns.
        height: rows of the chart, the legend not counted.
    """
    points = {name: _points(losses, steps) for name, losses in curves.items()}
    points = {name: found for name, found in points.items() if len(found[0]) > 1}
    if not points or width < 30 or height < 5:
        return []
    legend = "   ".join(f"{mark} {name}" for mark, name in zip(MARKS, points, strict=False))
    return [f" {legend}"[:width], *(f" {row}" for row in _drawn(points, width - 2, height))]


def _points(losses: Sequence[float], steps: int) -> tuple[list[float], list[float]]:
    last = max(1, len(losses) - 1)
    kept = [(1 + (steps - 1) * place / last, loss) for place, loss in enumerate(losses) if isfinite(loss)]
    return [at for at, _ in kept], [loss for _, loss in kept]


def _drawn(points: Mapping[str, tuple[list[float], list[float]]], width: int, height: int) -> list[str]:
    import plotext

    with _lock:
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.limitsize(False, False)  # before plotsize, which is clamped to the terminal otherwise
        plotext.plotsize(width, height)
        # The reference last, so that where curves meet its mark is seen.
        for mark, (at, losses) in reversed(list(zip(MARKS, points.values(), strict=False))):
            plotext.scatter(at, losses, marker=mark)
        text = plotext.uncolorize(plotext.build())
        plotext.clear_figure()
    return [row.rstrip() for row in text.splitlines()]
