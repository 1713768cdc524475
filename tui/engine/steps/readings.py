"""Phases and readings of a probe from what its two children saw and what the device showed around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.budget.verdict import worst_phase
from tui.engine.device import Device
from tui.engine.outcome import Outcome
from tui.engine.steps import around
from tui.probe.protocol import REQUESTED_ROWS, ReadingTaken
from tui.project.measured import PhasePeak, Reading

LATE = "read after every operator; scratch inside one was freed before it"
"""Why the heap is not known where operators allocate much inside themselves."""

REQUESTED = "bytes as the program asked the allocator for them"


def phases_of(
    traced: Outcome, timed: Outcome | None, kind: str, before: Device | None = None
) -> tuple[dict[str, PhasePeak], str | None]:
    """Every phase's peak and end: requested bytes and rows from the record, the rest as the timed child read it.

    Args:
        traced: the child whose allocations were recorded.
        timed: the one without tracing.
        kind: cpu or cuda.
        before: the device before both; what others held then is not the process's.
    """
    table = traced.results.get("traced", {})
    peaks, ends = _by_phase(timed.readings if timed is not None else ())
    outer = "heap_reserved" if kind == "cpu" else "allocator_reserved"
    phases: dict[str, PhasePeak] = {}
    for name, phase in table.get("phases", {}).items():
        seen, end = peaks.get(name, {}), ends.get(name, {})
        if kind == "cpu" and _is_late(seen.get(outer), phase["requested_bytes"]):
            seen, end = _without(seen, outer), _without(end, outer)
        rows = {row: phase["rows"][row] for row in REQUESTED_ROWS if phase["rows"].get(row)}
        phases[name] = PhasePeak(
            requested_bytes=phase["requested_bytes"],
            allocated_bytes=_first(phase.get("allocated_bytes"), seen.get("tensor_allocated")),
            reserved_bytes=_first(phase.get("reserved_bytes"), seen.get(outer)),
            process_bytes=seen.get("process"),
            rows=rows,
            operator=phase["operator"],
            module=phase["module"],
            micro_batch=phase["micro_batch"],
            end_requested_bytes=phase.get("end_bytes"),
            end_allocated_bytes=end.get("tensor_allocated"),
            end_reserved_bytes=end.get(outer),
            end_process_bytes=_first(end.get("process"), _own(seen, end, before)),
        )
    return phases, worst_phase(phases)


def _own(seen: Mapping[str, int], end: Mapping[str, int], before: Device | None) -> int | None:
    """The process's share of the GPU at a phase's end."""
    return around.own_bytes(around.free_bytes(seen.get("device_total"), end.get("device_used")), before)


def _without(sizes: Mapping[str, int], name: str) -> dict[str, int]:
    return {key: size for key, size in sizes.items() if key != name}


def _first(*sizes: int | None) -> int | None:
    """The first that is known: the record's own replay comes before the reading of another process."""
    return next((size for size in sizes if size is not None), None)


Sizes = dict[str, dict[str, int]]
"""Bytes by phase and reading."""


def _by_phase(readings: Sequence[ReadingTaken]) -> tuple[Sizes, Sizes]:
    """(peaks, ends)."""
    peaks: Sizes = {}
    ends: Sizes = {}
    for one in readings:
        if one.bytes is not None:
            peaks.setdefault(one.phase, {})[one.name] = one.bytes
        if one.end is not None:
            ends.setdefault(one.phase, {})[one.name] = one.end
    return peaks, ends


def readings_of(
    outcomes: Sequence[Outcome],
    phases: Mapping[str, PhasePeak],
    worst: str | None,
    kind: str,
    before: Device | None,
    after: Device | None,
    contended_share: float,
) -> tuple[dict[str, Reading], bool]:
    """(readings around the ledger, whether others' use changed while it ran)."""
    found: dict[str, Reading] = {}
    if worst is not None:
        source = str(outcomes[0].results.get("traced", {}).get("source", ""))
        found["requested"] = Reading(phases[worst].requested_bytes, source, REQUESTED, worst)
    for outcome in outcomes:
        for one in outcome.readings:
            _keep_largest(found, one)
    if kind == "cpu":
        return {**found, **around.host(before), **_heap(found)}, False
    return around.device(found, _looked_at(outcomes), before, after, contended_share)


def _looked_at(outcomes: Sequence[Outcome]) -> Outcome:
    """The child that was watched from outside; of none the last."""
    return next((one for one in reversed(outcomes) if one.watched.looks), outcomes[-1])


def _keep_largest(found: dict[str, Reading], one: ReadingTaken) -> None:
    have = found.get(one.name)
    if have is None or (one.bytes or 0) > (have.bytes or 0):
        found[one.name] = Reading(one.bytes, one.source, one.meaning, one.phase, one.unknown, one.at_s)


def _heap(found: Mapping[str, Reading]) -> dict[str, Reading]:
    """The heap's reading withdrawn where it is below what was requested: it was taken too late to count."""
    heap, requested = found.get("heap_reserved"), found.get("requested")
    if heap is None or heap.bytes is None or requested is None or not _is_late(heap.bytes, requested.bytes):
        return {}
    return {"heap_reserved": Reading(None, heap.source, heap.meaning, heap.phase, LATE, heap.at_s)}


def _is_late(heap: int | None, requested: int | None) -> bool:
    return heap is not None and requested is not None and heap < requested
