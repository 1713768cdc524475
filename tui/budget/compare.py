"""Whether a precision setting may be used and what it gains, from plain numbers.

Inside the noise nothing is a difference.  Losses are what the metric is, errors are relative, sizes bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal

LEAST_SEEDS = 3
LOSS_SHARE = 0.01
"""A distance within this share of the reference's loss is no reason against a setting."""
SPEED_SAME = (0.98, 1.02)
"""Ratios of throughput that are no difference."""
MEMORY_SHARE = 0.98
"""At most this share of the reference's requested bytes is a gain."""

Word = Literal["reference", "usable", "unusable", "not decided"]


@dataclass(frozen=True, slots=True)
class Figures:
    """What one setting gave; None where it was not measured."""

    validation_loss: float | None = None
    gradient_error: float | None = None
    """First step: norm of the difference over norm of the reference."""
    nonfinite: int = 0
    requested_bytes: int | None = None
    samples_per_s: float | None = None
    samples_per_s_low: float | None = None
    samples_per_s_high: float | None = None
    quality_met: bool | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one setting and what it gains over the reference."""

    verdict: Word
    gain: tuple[str, ...] = ()
    """Of "memory" and "speed"."""
    cost: tuple[str, ...] = ()
    """Of "memory" and "speed": where it is worse than the reference."""
    why: str = ""


def noise_floor(values: Sequence[float]) -> tuple[float | None, str]:
    """The largest difference between reference runs with different seeds, or why there is none.

    >>> noise_floor([2.0, 2.25, 1.5])
    (0.75, '')
    >>> noise_floor([2.0, 2.25])
    (None, '2 reference runs; a noise floor needs 3')
    """
    if len(values) < LEAST_SEEDS:
        return None, f"{len(values)} reference runs; a noise floor needs {LEAST_SEEDS}"
    if not all(isfinite(value) for value in values):
        return None, "a reference run ended in a loss that is not finite"
    return max(values) - min(values), ""


def judge(
    setting: Figures,
    reference: Figures,
    noise: float | None,
    gradient_limit: float = 0.05,
    direction: str = "min",
) -> Judgement:
    """The verdict on ``setting`` beside ``reference``.

    Args:
        setting: its figures.
        reference: those of the reference setting, same weights, batches and order.
        noise: the noise floor of the validation loss, None when it is not known.
        gradient_limit: largest relative error of the first gradients.
        direction: min | max: which way the metric gets better.

    >>> judge(Figures(2.0, samples_per_s_low=200, samples_per_s_high=210),
    ...       Figures(2.0, samples_per_s_low=100, samples_per_s_high=101), 0.1).gain
    ('speed',)
    """
    against = _reasons_against(setting, reference, gradient_limit)
    far, undecided, better = _distance(setting, reference, noise, direction)
    against += [far] if far else []
    gained = _gain(setting, reference)
    if against:
        return replace(gained, verdict="unusable", gain=(), why="; ".join(against))
    if undecided:
        return replace(gained, verdict="not decided", why=undecided)
    return replace(gained, why="; ".join(filter(None, (better, gained.why))))


def speed_ratio(setting: Figures, reference: Figures) -> tuple[float, float] | None:
    """The 95 % range of throughput over the reference's (low over high, high over low), or None."""
    ends = (setting.samples_per_s_low, setting.samples_per_s_high)
    base = (reference.samples_per_s_low, reference.samples_per_s_high)
    if ends[0] is None or ends[1] is None or not base[0] or not base[1]:
        return None
    return ends[0] / base[1], ends[1] / base[0]


def _reasons_against(setting: Figures, reference: Figures, limit: float) -> list[str]:
    found: list[str] = []
    if setting.nonfinite:
        found.append(f"{setting.nonfinite} losses or gradients were not finite")
    elif setting.validation_loss is not None and not isfinite(setting.validation_loss):
        found.append("the validation loss is not finite")
    error = setting.gradient_error
    if error is not None and not error <= limit:
        found.append(f"first gradients are off by {error:.1e}, the limit is {limit:.1e}")
    if reference.quality_met and setting.quality_met is False:
        found.append("misses the quality target that the reference meets")
    return found


def _distance(
    setting: Figures, reference: Figures, noise: float | None, direction: str
) -> tuple[str, str, str]:
    """Why the loss speaks against the setting, why that is not decided, and a remark: at most one is said."""
    loss, base = setting.validation_loss, reference.validation_loss
    if loss is None or base is None:
        return "", "the validation loss was not measured", ""
    if not isfinite(loss) or not isfinite(base):
        return "", "", ""
    distance = loss - base if direction == "min" else base - loss
    if abs(distance) <= LOSS_SHARE * abs(base):
        return "", "", ""
    away = f"{abs(distance):.3g} from the reference, more than 1 %"
    if noise is None:
        return "", f"{away}, and the noise floor is n/a", ""
    if abs(distance) <= noise:
        return "", "", ""
    if distance < 0:
        return "", "", f"better than the reference by {-distance:.3g}, beyond the noise floor {noise:.3g}"
    return f"{away} and the noise floor {noise:.3g}", "", ""


def _gain(setting: Figures, reference: Figures) -> Judgement:
    gain: list[str] = []
    cost: list[str] = []
    why: list[str] = []
    size, base = setting.requested_bytes, reference.requested_bytes
    if size is not None and base:
        if size <= MEMORY_SHARE * base:
            gain.append("memory")
        elif size * MEMORY_SHARE >= base:
            cost.append("memory")
            why.append(f"requests {100 * (size / base - 1):.1f} % more")
    ratio = speed_ratio(setting, reference)
    if ratio is None:
        why.append("speed is n/a")
    elif ratio[0] > SPEED_SAME[1]:
        gain.append("speed")
    elif ratio[1] < SPEED_SAME[0]:
        cost.append("speed")
        why.append(f"slower: {ratio[0]:.2f} to {ratio[1]:.2f} x the reference")
    return Judgement("usable", tuple(gain), tuple(cost), "; ".join(why))
