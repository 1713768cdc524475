"""Phases and readings of a probe from what its two children saw and what the device showed around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.budget.verdict import worst_phase
from tui.engine.device import Device
from tui.engine.outcome import Outcome
from tui.probe.protocol import REQUESTED_ROWS, ReadingTaken
from tui.project.measured import PhasePeak, Reading

LATE = "read after every operator; scratch inside one was freed before it"
"""Why the heap is not known where operators allocate much inside themselves."""

MEANING = {
    "requested": "bytes as the program asked the allocator for them",
    "process": "what the device charges to the measuring process",
    "others": "held by other processes on the device",
    "host_total": "memory of this machine, or what the control group allows",
    "device_total": "memory of the whole device",
    "driver_reserved": "kept by the driver; nvidia-smi leaves it out of what is used",
}


def phases_of(traced: Outcome, timed: Outcome | None, kind: str) -> tuple[dict[str, PhasePeak], str | None]:
    """Every phase's peak: requested bytes and rows from the record, the rest as the timed child read it."""
    table = traced.results.get("traced", {})
    read = _by_phase(timed.readings if timed is not None else ())
    outer = "heap_reserved" if kind == "cpu" else "allocator_reserved"
    phases: dict[str, PhasePeak] = {}
    for name, phase in table.get("phases", {}).items():
        seen = read.get(name, {})
        if kind == "cpu" and _is_late(seen.get(outer), phase["requested_bytes"]):
            seen = {name: size for name, size in seen.items() if name != outer}
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
        )
    return phases, worst_phase(phases)


def _first(*sizes: int | None) -> int | None:
    """The first that is known: the record's own replay comes before the reading of another process."""
    return next((size for size in sizes if size is not None), None)


def _by_phase(readings: Sequence[ReadingTaken]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for one in readings:
        if one.bytes is not None:
            found.setdefault(one.phase, {})[one.name] = one.bytes
    return found


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
        source = str(outcomes[0].results["traced"].get("source", ""))
        found["requested"] = Reading(phases[worst].requested_bytes, source, MEANING["requested"], worst)
    for outcome in outcomes:
        for one in outcome.readings:
            _keep_largest(found, one)
    if kind == "cpu":
        return {**found, **_host(before), **_heap(found)}, False
    return _around(found, before, after, contended_share)


def _keep_largest(found: dict[str, Reading], one: ReadingTaken) -> None:
    have = found.get(one.name)
    if have is None or (one.bytes or 0) > (have.bytes or 0):
        found[one.name] = Reading(one.bytes, one.source, one.meaning, one.phase, one.unknown)


def _heap(found: Mapping[str, Reading]) -> dict[str, Reading]:
    """The heap's reading withdrawn where it is below what was requested: it was taken too late to count."""
    heap, requested = found.get("heap_reserved"), found.get("requested")
    if heap is None or heap.bytes is None or requested is None or not _is_late(heap.bytes, requested.bytes):
        return {}
    return {"heap_reserved": Reading(None, heap.source, heap.meaning, heap.phase, LATE)}


def _is_late(heap: int | None, requested: int | None) -> bool:
    return heap is not None and requested is not None and heap < requested


def _host(device: Device | None) -> dict[str, Reading]:
    total = device.total_bytes if device is not None else None
    why = "" if total is not None else "the system does not say"
    others = (device.unknown.get("others_used_bytes") if device is not None else "") or "not read"
    return {
        "others": Reading(None, "", MEANING["others"], "", others),
        "host_total": Reading(total, "/proc/meminfo and control group", MEANING["host_total"], "", why),
    }


def _around(
    found: dict[str, Reading], before: Device | None, after: Device | None, share: float
) -> tuple[dict[str, Reading], bool]:
    """Process by difference, others before and after, as the driver shows the whole device."""
    others = before.others_used_bytes if before is not None else None
    driver = before.driver_reserved_bytes if before is not None else None
    total = before.total_bytes if before is not None else None
    later = after.others_used_bytes if after is not None else None
    used = found.get("device_used")
    why = (
        ""
        if others is not None
        else (before.unknown.get("others_used_bytes", "not read") if before else "not read")
    )
    found["others"] = Reading(others, "NVML, before", MEANING["others"], "", why)
    found["driver_reserved"] = Reading(
        driver, "NVML v2", MEANING["driver_reserved"], "", "" if driver is not None else "no NVML v2 here"
    )
    if total is not None:
        found["device_total"] = Reading(total, "NVML", MEANING["device_total"], "")
    if used is not None and used.bytes is not None and others is not None:
        own = used.bytes - others - (driver or 0)
        found["process"] = Reading(own, "device used less others and driver", MEANING["process"], used.phase)
    elif "process" not in found:
        found["process"] = Reading(None, "", MEANING["process"], "", why or "device used was not read")
    moved = others is not None and later is not None and abs(later - others) > share * (total or 1)
    return found, moved
