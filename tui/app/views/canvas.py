"""The block canvas of a stacked chart, drawn by plotext.

plotext keeps one figure for the whole process: it is used under a lock, is loaded with the first chart, and a
canvas is kept while it is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from threading import Lock

_lock = Lock()


def warm() -> None:
    """Load plotext; takes a while, so it is done in a thread."""
    import plotext  # noqa: F401


@lru_cache(maxsize=4)
def stacked(heights: tuple[tuple[int, ...], ...], marks: str, height: int) -> tuple[str, ...]:
    """Rows from the top: in each column the marks one over the other, so many cells of each.

    Args:
        heights: for each column the cells of each mark, from the bottom; together at most ``height``.
        marks: one glyph a kind.
        height: rows.
    """
    import plotext

    width = len(heights)
    with _lock:
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.limitsize(False, False)  # before plotsize, which is clamped to the terminal otherwise
        plotext.plotsize(width, height)
        plotext.frame(False)
        plotext.xticks([])
        plotext.yticks([])
        plotext.xlim(0, width - 1)
        plotext.ylim(0, height - 1)
        for mark, (x, y) in zip(marks, _cells(heights, len(marks)), strict=True):
            if x:
                plotext.scatter(x, y, marker=mark)
        text = plotext.uncolorize(plotext.build())
        plotext.clear_figure()
    rows = [row.ljust(width)[:width] for row in text.splitlines()[:height]]
    return tuple(rows + [" " * width] * (height - len(rows)))


def _cells(heights: Sequence[Sequence[int]], kinds: int) -> list[tuple[list[int], list[int]]]:
    """For each kind the x and y of its cells."""
    made: list[tuple[list[int], list[int]]] = [([], []) for _ in range(kinds)]
    for x, column in enumerate(heights):
        base = 0
        for kind, count in enumerate(column):
            made[kind][0].extend([x] * count)
            made[kind][1].extend(range(base, base + count))
            base += count
    return made
