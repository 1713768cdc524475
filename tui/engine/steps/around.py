"""Readings around a measuring process: its share of the device, other processes before and after, the total."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tui.engine.context import Context
from tui.engine.device import Device
from tui.engine.outcome import Outcome
from tui.engine.steps import clocks
from tui.errors import RunError
from tui.project.measured import Reading

MEANING = {
    "process": "what the device charges to the measuring process",
    "others": "held by other processes on the device before the measurement",
    "others_after": "held by other processes on the device after it",
    "host_total": "memory of this machine, or what the control group allows",
    "device_total": "memory of the whole device",
    "driver_reserved": "kept by the driver; nvidia-smi leaves it out of what is used",
}


def device_after(context: Context) -> Device | None:
    """The device now that a measurement is over; one that is lost has no readings, the measurement stays."""
    try:
        return context.device_now()
    except RunError as error:
        seen = context.device
        if seen is None:
            return None
        why: dict[str, str] = dict.fromkeys(
            ("others_used_bytes", "free_bytes", "driver_reserved_bytes"), error.message
        )
        return Device(seen.kind, seen.id, seen.name, seen.total_bytes, index=seen.index, unknown=why)


def own_bytes(free_bytes: int | None, before: Device | None) -> int | None:
    """What is the process's of a device that has ``free_bytes`` left: what it had before, less that.

    A difference of free bytes holds on every driver.  One of used bytes does not: CUDA's total is without what the
    driver keeps, NVML's is with it, and older drivers count it as used.
    """
    if free_bytes is None or before is None or before.free_bytes is None:
        return None
    own = before.free_bytes - free_bytes
    return own if own > 0 else None


def free_bytes(total: int | None, used: int | None) -> int | None:
    """Of the device as CUDA shows it."""
    return None if total is None or used is None else total - used


def host(device: Device | None) -> dict[str, Reading]:
    """Around a process on the CPU."""
    total = device.total_bytes if device is not None else None
    why = "" if total is not None else "the system does not say"
    others = _reason(device, "others_used_bytes")
    return {
        "others": Reading(None, "", MEANING["others"], "", others),
        "others_after": Reading(None, "", MEANING["others_after"], "", others),
        "host_total": Reading(total, "/proc/meminfo and control group", MEANING["host_total"], "", why),
    }


def device(
    found: Mapping[str, Reading],
    last: Outcome,
    before: Device | None,
    after: Device | None,
    share: float,
) -> tuple[dict[str, Reading], bool]:
    """(``found`` and what is around it on a GPU, whether others' use changed while it ran).

    Args:
        found: what the children read.
        last: the child that decides, and that was looked at from outside.
        before: the device just before the children.
        after: the device just after them.
        share: of the device; a smaller change of what others hold does not count.
    """
    around = dict(found)
    total = before.total_bytes if before is not None else None
    others = _size(before, "others_used_bytes")
    later = _size(after, "others_used_bytes")
    around["others"] = _outside("others", before, "others_used_bytes", "NVML, before")
    around["others_after"] = _outside("others_after", after, "others_used_bytes", "NVML, after")
    around["driver_reserved"] = _outside("driver_reserved", before, "driver_reserved_bytes", "NVML v2")
    around["process"] = _process(found, before)
    if (used := _whole(found, total)) is not None:
        around["device_used"] = used
    if total is not None:
        around["device_total"] = Reading(total, "NVML", MEANING["device_total"], "")
    held = around.get("allocator_reserved")
    around["process_nvml"] = clocks.own_process(last.watched, last.pid, held.bytes if held else None)
    least = share * (total or 1)

    def enough(low: int, high: int) -> bool:
        return high - low > least

    moved = others is not None and later is not None and abs(later - others) > least
    return around, moved or clocks.others_moved(last.watched, last.pid, enough)


def _whole(found: Mapping[str, Reading], total: int | None) -> Reading | None:
    """Used of the whole device as NVML counts it, what the driver keeps included; as CUDA does without a total."""
    used, seen = found.get("device_used"), found.get("device_total")
    if used is None or used.bytes is None or seen is None or seen.bytes is None or total is None:
        return used
    source = "NVML total less what mem_get_info calls free"
    return replace(used, bytes=total - (seen.bytes - used.bytes), source=source)


def _process(found: Mapping[str, Reading], before: Device | None) -> Reading:
    """By difference: what was free before the process less what it left."""
    used, total, held = (found.get(name) for name in ("device_used", "device_total", "allocator_reserved"))
    meaning = MEANING["process"]
    if used is None or used.bytes is None:
        return Reading(None, "", meaning, "", (used.unknown if used else "") or "device used was not read")
    own = own_bytes(free_bytes(total.bytes if total else None, used.bytes), before)
    if before is None or before.free_bytes is None:
        return Reading(None, "", meaning, "", _reason(before, "free_bytes"))
    if own is None or own < ((held.bytes if held else None) or 0):
        why = "more became free meanwhile than the process took: others gave memory back"
        return Reading(None, "", meaning, "", why)
    return Reading(own, "free before less free then, whole device", meaning, used.phase, "", used.at_s)


def _outside(name: str, device: Device | None, field: str, source: str) -> Reading:
    size = _size(device, field)
    if size is None:
        return Reading(None, "", MEANING[name], "", _reason(device, field))
    return Reading(size, source, MEANING[name], "")


def _size(device: Device | None, field: str) -> int | None:
    return None if device is None else getattr(device, field)


def _reason(device: Device | None, field: str) -> str:
    return (device.unknown.get(field, "") if device is not None else "") or "not read"
