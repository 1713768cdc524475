"""A memory snapshot as the app sees it: 1,000 events, a peak of 3 GiB at event 600."""

from __future__ import annotations

from dataclasses import replace

from tui.report.snapshot_view import (
    Figures,
    Fragmentation,
    Live,
    Point,
    Refused,
    Replay,
    SegmentUse,
    Sized,
    SnapshotView,
)

GIB, MIB = 2**30, 2**20


def points(count: int = 100, events: int = 1000) -> tuple[Point, ...]:
    """Up to 3 GiB at event 600, then down again."""
    made = []
    for n in range(count):
        first = n * events // count
        high = 3 * GIB * (first if first <= 600 else 1200 - first) // 600
        made.append(
            Point(first, max(0, high - 64 * MIB), max(high, MIB), max(GIB, min(first, 600) * GIB // 180))
        )
    return tuple(made)


def history(at: str = "peak", settings: tuple[str, ...] = ()) -> SnapshotView:
    """The view for one instant, its sizes a third of the peak's away from it."""
    size = 3 * GIB if at == "peak" else GIB
    live = (
        Live("model.py:57 in forward", "frame", size - 512 * MIB, 12),
        Live("optim.py:80 in [/step]", "frame", 512 * MIB, 148),
    )
    return SnapshotView(
        file="oom.pickle",
        device=0,
        settings="",
        events=1000,
        allocations=560,
        frees=440,
        segments_at_end=2,
        peak=Figures(3 * GIB, 3 * GIB + MIB, 4 * GIB, (600, 600, 590)),
        end=Figures(GIB, GIB, 4 * GIB),
        cached=GIB - MIB,
        largest_free_at_end=700 * MIB,
        free_at_end=GIB,
        at=at,
        at_event=600 if at == "peak" else int(at),
        at_figures=Figures(size, size + MIB, 4 * GIB),
        at_asked=64 * MIB,
        at_frame="model.py:57 in forward",
        timeline_of="allocated",
        points=points(),
        live=live,
        sizes=(
            Sized((size - 512 * MIB) // 12, 12, size - 512 * MIB, "model.py:57"),
            Sized(3_627_506, 148, 512 * MIB, ""),
        ),
        segments=(
            SegmentUse(0x7F0000000000, 3 * GIB, "large", 0, 3 * GIB - 700 * MIB, 600 * MIB, 40, False),
            SegmentUse(0x7F1000000000, GIB, "large", 0, 0, GIB, 1, False),
        ),
        fragmentation=Fragmentation(2, 4 * GIB, 3 * GIB - 700 * MIB, 700 * MIB, GIB, 0, GIB),
        failures=(Refused(990, 3 * GIB // 2, 0, "fragmentation", "blocks of 1.000 GiB at most are free"),),
        capacity=None,
        replays=tuple(
            Replay(
                one, "from source, not yet verified", 3 * GIB, 3 * GIB + MIB, 3 * GIB + 64 * MIB, 1, None, ()
            )
            for one in settings
        ),
        notes=(),
        unknown={},
    )


def without_places() -> SnapshotView:
    """One whose blocks nobody knows the places of."""
    return replace(
        history(),
        segments=None,
        fragmentation=None,
        unknown={"segments": "expandable segments, so blocks were not followed"},
    )
