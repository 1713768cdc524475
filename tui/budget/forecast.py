"""The predicted column of a ledger, and from when on a measured row needs a cause for being otherwise.

Sizes are bytes.  A column entry that is a range has no single figure: it is named, never its middle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tui import units
from tui.budget.prediction import ON_CPU, process_range
from tui.probe.protocol import REQUESTED_ROWS
from tui.project.prediction import PredictedPeak, Prediction

LEAST_BYTES = 2**20
LEAST_SHARE = 0.01
"""A difference of more than the larger of the two needs a cause."""
SEGMENTS_BYTES = 3 * 64 * 2**20
"""Up to three segments of 20 to 64 MiB that earlier work left in the cache."""
UNEXPLAINED = "UNEXPLAINED"
NOT_PREDICTED = "not predicted"
OUTSIDE = "not part of a prediction: it is of this machine"
_AROUND = ("others", "driver_reserved", "device_used", "device_total", "host_total", "free")


@dataclass(frozen=True, slots=True)
class Forecast:
    """The predicted column: figures, ranges, and why the others are unknown."""

    bytes: dict[str, int] = field(default_factory=dict[str, int])
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    id: str = ""
    prediction: Prediction | None = None

    def reason(self, key: str) -> str:
        """Why row ``key`` has no predicted figure."""
        return self.reasons.get(key, NOT_PREDICTED)


def of_bytes(sizes: Mapping[str, int] | None) -> Forecast:
    """A column from plain figures; a requested row that is absent is exactly 0."""
    if sizes is None:
        return Forecast()
    return Forecast({**dict.fromkeys(REQUESTED_ROWS, 0), **sizes})


def forecast(id: str, found: Prediction, phase: str | None) -> Forecast:
    """The predicted column of ``found`` in ``phase``; without that phase, reasons alone."""
    column = Forecast(id=id, prediction=found)
    peak = found.phases.get(phase or "")
    if peak is None:
        why = f"phase {phase} was not predicted" if phase else "no phase was predicted"
        return Forecast(reasons=dict.fromkeys(_all_keys(), why), id=id, prediction=found)
    column.bytes.update({key: peak.rows.get(key, 0) for key in REQUESTED_ROWS})
    column.bytes["requested"] = peak.requested_bytes
    column.reasons.update(dict.fromkeys(_AROUND, OUTSIDE))
    if found.semantics == "cpu":
        column.bytes["tensor_allocated"] = peak.requested_bytes
        column.reasons.update(
            dict.fromkeys(("heap_kept", "heap_reserved", "outside_heap", "process"), ON_CPU)
        )
    else:
        _allocator(column, peak)
        _process(column, found, phase or "")
    return column


def _all_keys() -> tuple[str, ...]:
    outer = (
        "requested",
        "rounding",
        "tensor_allocated",
        "cached",
        "allocator_reserved",
        "context",
        "process",
    )
    return (*REQUESTED_ROWS, *outer, "heap_kept", "heap_reserved", "outside_heap", *_AROUND)


def _allocator(column: Forecast, peak: PredictedPeak) -> None:
    steps = (
        ("rounding", "tensor_allocated", peak.allocated_bytes, peak.requested_bytes),
        ("cached", "allocator_reserved", peak.reserved_bytes, peak.allocated_bytes),
    )
    for gap, total, outer, inner in steps:
        if outer is None:
            column.reasons[total] = column.reasons[gap] = "the allocator was not simulated"
            continue
        column.bytes[total] = outer
        if inner is not None:
            column.bytes[gap] = outer - inner


def _process(column: Forecast, found: Prediction, phase: str) -> None:
    low, high = found.context_low_bytes, found.context_high_bytes
    around = process_range(found, phase)
    if low is None or high is None or around is None:
        why = found.unknown.get("context_low_bytes", "no range of the context is known")
        column.reasons["context"] = column.reasons["process"] = why
    elif low == high:
        column.bytes.update(context=low, process=around[0])
    else:
        column.ranges.update(context=(low, high), process=around)
        said = f"{units.span(low, high)} GiB, a range: {found.context_from}; one measurement calibrates it"
        column.reasons["context"] = said
        column.reasons["process"] = f"{units.span(*around)} GiB: allocator-reserved and the context, a range"


def needs_cause(difference: int | None, predicted: int | None) -> bool:
    """Whether a difference is more than max(1 MiB, 1 %) of what was predicted.

    >>> needs_cause(2**20, 0), needs_cause(2**20 + 1, 2**26), needs_cause(2**21, 2**30)
    (False, True, False)
    """
    if difference is None or predicted is None:
        return False
    return abs(difference) > max(LEAST_BYTES, round(LEAST_SHARE * predicted))
