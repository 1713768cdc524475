"""How long a training takes, as a range, and what a pipeline of stages that do not overlap can do.

Times are seconds.  What was entered by hand says so; an overhead that nobody entered is None and is listed as
left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Literal


@dataclass(frozen=True, slots=True)
class Overhead:
    """Something that happens a number of times beside the iterations."""

    name: str
    times: int
    seconds: float | None
    """Of one; None: not known, and left out of the sum."""
    origin: Literal["measured", "entered"] = "entered"

    @property
    def total_s(self) -> float | None:
        """Of all of them; None when one is not known, unless there is none."""
        if self.times == 0:
            return 0.0
        return None if self.seconds is None else self.times * self.seconds


@dataclass(frozen=True, slots=True)
class TrainingTime:
    """A range of seconds, and what it is made of."""

    steps: int
    compute_low_s: float
    compute_high_s: float
    overheads: tuple[Overhead, ...]

    @property
    def overhead_s(self) -> float:
        """Seconds of all overheads that are known."""
        return sum(one.total_s or 0.0 for one in self.overheads)

    @property
    def low_s(self) -> float:
        """At the upper end of the rate."""
        return self.compute_low_s + self.overhead_s

    @property
    def high_s(self) -> float:
        """At the lower end of the rate."""
        return self.compute_high_s + self.overhead_s

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of overheads that are not in the range."""
        return tuple(one.name for one in self.overheads if one.total_s is None)


def steps_for(total: int, per_step: int) -> int:
    """Optimizer steps that consume ``total`` samples or tokens, rounded up.

    Raises:
        ValueError: one of them is not positive.

    >>> steps_for(2_500_000_000, 32 * 1024)
    76294
    """
    if total <= 0 or per_step <= 0:
        raise ValueError(f"{total} over {per_step} a step: both must be positive")
    return -(-total // per_step)


def training_time(
    steps: int,
    samples_per_step: int,
    samples_per_s_low: float,
    samples_per_s_high: float,
    overheads: Sequence[Overhead] = (),
) -> TrainingTime:
    """The time of ``steps`` complete iterations at the two ends of a measured rate.

    Args:
        steps: optimizer steps.
        samples_per_step: samples (or tokens) of one, over all micro-batches and ranks.
        samples_per_s_low: lower end of the rate of the same things.
        samples_per_s_high: upper end.
        overheads: validation, saving, restarts, queueing.

    Raises:
        ValueError: a rate that is not positive and finite, or ends in the wrong order.

    >>> found = training_time(100, 32, 64.0, 80.0, [Overhead("validation", 2, 5.0)])
    >>> found.low_s, found.high_s
    (50.0, 60.0)
    """
    ends = (samples_per_s_low, samples_per_s_high)
    if any(not isfinite(end) or end <= 0 for end in ends) or ends[0] > ends[1]:
        raise ValueError(f"the rate must be a positive range, got {ends[0]} to {ends[1]}")
    samples = steps * samples_per_step
    return TrainingTime(steps, samples / ends[1], samples / ends[0], tuple(overheads))


def left_s(elapsed_s: float, done: int, left: int) -> float | None:
    """Seconds that ``left`` iterations need at the pace of the ``done`` ones; None before the first is done.

    ``done`` counts from where the clock started, which after a resume is not iteration 0.

    >>> left_s(50.0, 7600 - 7500, 10_000 - 7600)
    1200.0
    """
    return elapsed_s / done * left if done > 0 else None


@dataclass(frozen=True, slots=True)
class Stages:
    """Stages of a pipeline that wait for each other: their times add up."""

    batch: int
    seconds: dict[str, float]

    @property
    def total_s(self) -> float:
        """Of one batch through all stages."""
        return sum(self.seconds.values())

    @property
    def samples_per_s(self) -> float:
        """Samples that leave the last stage a second."""
        return self.batch / self.total_s

    @property
    def bottleneck(self) -> str:
        """The longest stage, the first of equals."""
        return max(self.seconds, key=lambda name: self.seconds[name])

    def share(self, name: str) -> float:
        """What part of the time stage ``name`` takes, 1 for all of it."""
        return self.seconds[name] / self.total_s

    def scaled(self, name: str, factor: float) -> Stages:
        """The same pipeline with the time of one stage multiplied by ``factor``."""
        return stages(self.batch, {**self.seconds, name: self.seconds[name] * factor})


def stages(batch: int, seconds: Mapping[str, float]) -> Stages:
    """A pipeline of stages that do not overlap.

    Raises:
        ValueError: a batch or a time that is not positive, or no stage at all.

    >>> found = stages(32, {"read": 0.073, "compute": 0.118})
    >>> round(found.total_s, 3), round(found.samples_per_s, 1), found.bottleneck
    (0.191, 167.5, 'compute')
    >>> round(found.scaled("compute", 0.5).samples_per_s, 1)
    242.4
    """
    if batch < 1:
        raise ValueError(f"a batch has at least 1 sample, got {batch}")
    for name, value in seconds.items():
        if not isfinite(value) or value < 0:
            raise ValueError(f"{name} must take 0 or more seconds, got {value}")
    if not any(seconds.values()):
        raise ValueError("no stage takes any time")
    return Stages(batch, dict(seconds))


def whole_seconds(low_s: float, high_s: float) -> tuple[int, int]:
    """A range in whole seconds, rounded outwards.

    >>> whole_seconds(50.2, 59.1)
    (50, 60)
    """
    return int(low_s), ceil(high_s)
