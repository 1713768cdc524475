"""How many samples a second, with how much certainty, from the times of complete iterations.

Times are milliseconds of whole iterations (every micro-batch and the optimizer step); the caller has left out
the first one and the warm-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from random import Random
from statistics import fmean, median, median_low, quantiles

LEAST_FOR_INTERVAL = 5
LEAST_FOR_DRIFT = 6
DRIFT_LIMIT = 0.10
"""Relative change between the medians of the first and the last third that is called drift."""

SLOW = 1.5
"""From how many times the median on an iteration is called slow when a period is looked for."""

_SEED = 20260101
_RESAMPLES = 2000
_DRAWS = 400_000
"""At most this many draws in all, so that a long run is summed up at once."""


TIMES = (
    "first_ms",
    "step_ms_median",
    "step_ms_mean",
    "step_ms_p90",
    "samples_per_s",
    "samples_per_s_low",
    "samples_per_s_high",
    "tokens_per_s",
    "loader_ms_median",
    "drift_ratio",
)
"""Figures of a timed run, by the names that a probe keeps them under."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Times and rates of one measurement; what is None has its reason in ``unknown``."""

    timed: int
    """Iterations."""
    step_ms_median: float
    step_ms_mean: float
    step_ms_p90: float
    samples_per_s: float
    """All samples over all the time, so slow iterations count for what they cost."""
    samples_per_s_low: float | None
    samples_per_s_high: float | None
    """Ends of the 95 % bootstrap interval."""
    tokens_per_s: float | None
    drift_ratio: float | None
    """Median of the last third over median of the first, less 1: 0.12 is 12 % slower at the end."""
    slow_every: int | None = None
    """Every how many iterations one is slow; rates are then of whole periods."""
    unknown: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def drifts(self) -> bool:
        """Whether the machine was another one at the end than at the beginning."""
        return self.drift_ratio is not None and abs(self.drift_ratio) > DRIFT_LIMIT


def summary(
    step_ms: Sequence[float],
    samples_per_iteration: int | Sequence[int],
    tokens: int | Sequence[int] | None = None,
) -> Throughput:
    """Median, mean, 90th percentile and rates of timed iterations.

    Args:
        step_ms: one time an iteration, in the order they were measured.
        samples_per_iteration: samples that one iteration completed, over all micro-batches and ranks; one
            number, or one for each iteration (0 for a step that the scaler skipped).
        tokens: tokens of one iteration, likewise; None when nothing counts them.

    Raises:
        ValueError: no iterations, a time that is not positive and finite, or lists of different lengths.

    >>> found = summary([500.0] * 9, 64)
    >>> found.samples_per_s, found.samples_per_s_low, found.tokens_per_s
    (128.0, 128.0, None)
    """
    if not step_ms:
        raise ValueError("no iteration was timed")
    if any(not isfinite(ms) or ms <= 0 for ms in step_ms):
        raise ValueError("a time of an iteration is not a positive number of ms")
    samples = _each(samples_per_iteration, len(step_ms), "samples")
    labels = None if tokens is None else _each(tokens, len(step_ms), "tokens")
    unknown: dict[str, str] = {}
    low = high = None
    period = slow_every(step_ms)
    whole = len(step_ms) - len(step_ms) % (period or 1)
    if whole // (period or 1) < LEAST_FOR_INTERVAL:
        what = "timed iterations" if period is None else f"whole periods of {period} timed iterations"
        reason = f"{whole // (period or 1)} {what}; an interval needs {LEAST_FOR_INTERVAL}"
        unknown |= {"samples_per_s_low": reason, "samples_per_s_high": reason}
    else:
        low, high = _interval(_sums(step_ms[:whole], period or 1), _sums(samples[:whole], period or 1))
    drift = drift_ratio(step_ms)
    if drift is None:
        unknown["drift_ratio"] = f"{len(step_ms)} timed iterations; drift needs {LEAST_FOR_DRIFT}"
    if labels is None:
        unknown["tokens_per_s"] = "no entry of the batch counts tokens"
    seconds = sum(step_ms[:whole]) / 1000
    return Throughput(
        timed=len(step_ms),
        step_ms_median=median(step_ms),
        step_ms_mean=fmean(step_ms),
        step_ms_p90=_p90(step_ms),
        samples_per_s=sum(samples[:whole]) / seconds,
        samples_per_s_low=low,
        samples_per_s_high=high,
        tokens_per_s=None if labels is None else sum(labels[:whole]) / seconds,
        drift_ratio=drift,
        slow_every=period,
        unknown=unknown,
    )


def drift_ratio(step_ms: Sequence[float]) -> float | None:
    """How much slower the last third is than the first, by medians; None below six iterations.

    >>> drift_ratio([100.0, 100.0, 100.0, 100.0, 120.0, 120.0])
    0.2
    """
    if len(step_ms) < LEAST_FOR_DRIFT:
        return None
    third = len(step_ms) // 3
    return round(median(step_ms[-third:]) / median(step_ms[:third]) - 1, 6)


def slow_every(times: Sequence[float]) -> int | None:
    """The period of slow ones: one in so many, always at the same place; None without two whole such periods.

    Workers that each make one batch at a time deliver so: as many at once, then a wait.

    >>> slow_every([0.1, 0.1, 0.1, 4.0, 0.1, 0.1, 0.1, 4.0])
    4
    """
    usual = median_low(times) if times else 0.0
    slow = [place for place, time in enumerate(times) if time > SLOW * usual]
    if len(slow) < 2 or usual <= 0:
        return None
    period = slow[1] - slow[0]
    expected = list(range(slow[0], len(times), period))
    return period if slow == expected and slow[0] < period and len(times) >= 2 * period > 2 else None


def is_faster(one: float, other: float, drift: float | None) -> bool:
    """Whether rate ``one`` is above ``other`` by more than the machine itself changed meanwhile.

    Args:
        one: samples a second.
        other: of what it is compared with.
        drift: relative change over the measurements; None: not known, which decides nothing.

    >>> is_faster(1.0, 0.95, 1237 / 1425 - 1), is_faster(1.0, 0.95, 0.01)
    (False, True)
    """
    return 1 - other / one > abs(drift or 0.0)


def _sums(values: Sequence[float], count: int) -> list[float]:
    """Sums of ``count`` neighbours each."""
    return [sum(values[place : place + count]) for place in range(0, len(values), count)]


def _each(value: int | Sequence[int], count: int, what: str) -> list[int]:
    if isinstance(value, int):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"{len(value)} counts of {what} for {count} iterations")
    return list(value)


def _p90(values: Sequence[float]) -> float:
    return quantiles(values, n=10, method="inclusive")[-1] if len(values) > 1 else values[0]


def _interval(step_ms: Sequence[float], samples: Sequence[float]) -> tuple[float, float]:
    """The middle 95 % of rates of runs drawn again, with replacement, from the iterations of this one."""
    count = len(step_ms)
    draw = Random(_SEED)
    rates: list[float] = []
    for _ in range(max(200, min(_RESAMPLES, _DRAWS // count))):
        picked = draw.choices(range(count), k=count)
        rates.append(1000 * sum(samples[i] for i in picked) / sum(step_ms[i] for i in picked))
    cuts = quantiles(rates, n=40, method="inclusive")
    return cuts[0], cuts[-1]
