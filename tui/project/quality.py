"""A comparison's settings beside the quality target as it is now, not as it was when they were compared.

The file keeps what was judged then; readers see this.
"""

from __future__ import annotations

import dataclasses
from math import isfinite

from tui.project.measured import Measured, Precision, Setting
from tui.project.model import QualitySpec

MISSES = "misses the quality target that the reference meets"
"""Why a setting that is otherwise as good is unusable."""
NO_TARGET = "no quality target is entered"
AGAIN = "the quality target was changed: compare again for what it gains"


def judged(measured: Measured, quality: QualitySpec) -> Measured:
    """``measured`` with every setting's ``quality_met``, and what of its verdict follows from that, judged anew."""
    found = {name: _comparison(one, quality) for name, one in measured.precision.items()}
    return dataclasses.replace(measured, precision=found)


def is_met(quality: QualitySpec, value: float | None) -> bool | None:
    """Whether a value of the metric reaches the target; None without a target or a finite value."""
    if quality.target is None or value is None or not isfinite(value):
        return None
    return value <= quality.target if quality.direction == "min" else value >= quality.target


def _comparison(found: Precision, quality: QualitySpec) -> Precision:
    settings = {name: _met(one, quality) for name, one in found.settings.items()}
    reference = settings.get(found.reference)
    if reference is None:
        return dataclasses.replace(found, settings=settings)
    reached = bool(reference.quality_met)
    for name, one in settings.items():
        if name != found.reference and one.outcome == "done":
            settings[name] = _verdict(one, reached and one.quality_met is False)
    return dataclasses.replace(found, settings=settings)


def _met(one: Setting, quality: QualitySpec) -> Setting:
    if one.outcome != "done":
        return one
    unknown = {name: why for name, why in one.unknown.items() if name != "quality_met"}
    if quality.target is None:
        unknown["quality_met"] = NO_TARGET
    met = is_met(quality, one.validation_loss)
    return dataclasses.replace(one, quality_met=met, unknown=unknown)


def _verdict(one: Setting, misses: bool) -> Setting:
    """``one`` with the quality target among the reasons against it exactly where it ``misses`` that."""
    if misses == (MISSES in one.why) or one.verdict not in ("usable", "unusable", "not decided"):
        return one
    against = one.why.split("; ") if one.verdict == "unusable" else []
    if misses:
        return dataclasses.replace(one, verdict="unusable", gain=(), why="; ".join([*against, MISSES]))
    against.remove(MISSES)
    if against:
        return dataclasses.replace(one, why="; ".join(against))
    return dataclasses.replace(one, verdict="not decided", why=AGAIN)
