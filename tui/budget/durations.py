"""How long a measurement will take, from those of the same workload that were made.  Pure; seconds."""

from __future__ import annotations

from collections.abc import Iterable
from math import log2

from tui.project.measured import Probe

TRACED_ITERATIONS = 4
"""Iterations of a traced child, its validation batch included."""


def expected_s(known: Iterable[Probe], micro: int, iterations: int, warmup: int, tasks: int) -> float | None:
    """Seconds that one batch will take in ``tasks`` children; None when nothing of the kind was measured.

    From the measurement of the nearest micro-batch (as a ratio): what its children took beside iterating counts as
    it was, and an iteration counts in proportion to the samples.  A plan for people, nothing is decided by it but
    whether ``--within`` leaves time.

    Args:
        known: probes of the same spec, environment, length and accumulation.
        micro: samples a micro-batch.
        iterations: timed ones.
        warmup: iterations before them, the first one apart.
        tasks: children that are started, 1 or 2.
    """
    usable = [one for one in known if one.seconds is not None and one.tasks]
    if not usable:
        return None
    near = min(
        usable,
        key=lambda one: (one.step_ms_median is None, abs(log2(one.micro_batch / micro)), -one.at.timestamp()),
    )
    step = (near.step_ms_median or 0.0) / 1000
    start = max(
        0.0, (near.seconds or 0.0) - step * _iterations(near.iterations, near.warmup, len(near.tasks))
    )
    each = step * micro / near.micro_batch
    return start / len(near.tasks) * tasks + each * _iterations(iterations, warmup, tasks)


def _iterations(timed: int, warmup: int, tasks: int) -> int:
    return timed + warmup + 1 + (TRACED_ITERATIONS if tasks > 1 else 0)
