"""From a probe's peaks and readings to the measured column of a ledger.

A gap between two readings is a row of its own; a gap that would be negative is unknown, not zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tui.probe.protocol import REQUESTED_ROWS
from tui.project.measured import PhasePeak, Probe, Reading


@dataclass(frozen=True, slots=True)
class Seen:
    """Measured bytes by row key, where each was read, and why the others are unknown."""

    bytes: dict[str, int]
    origins: dict[str, str]
    missing: str = ""
    """The one reason for every row, when nothing was measured."""
    reasons: dict[str, str] = field(default_factory=dict[str, str])

    def reason(self, key: str) -> str:
        """Why row ``key`` was not measured."""
        return self.missing or self.reasons.get(key, "not read")


def seen_at(probe: Probe, phase: str | None, worst: str | None, reserve: int) -> Seen:
    """The measured column of ``probe`` in ``phase``.

    Args:
        probe: a measurement; one without phases gives its readings alone.
        phase: whose peak is shown.
        worst: the phase that readings without a phase of their own belong to.
        reserve: bytes kept free on purpose; carried over, so that free is what is left.
    """
    if phase is None or phase not in probe.phases:
        return Seen({}, {}, probe.failure or "no phase was measured to its end")
    found = _Column(probe, phase, worst)
    found.requested(probe.phases[phase])
    if probe.device == "cpu":
        found.cpu(probe.phases[phase])
    else:
        found.cuda(probe.phases[phase])
    found.free("host_total" if probe.device == "cpu" else "device_total", reserve)
    return Seen(found.bytes, found.origins, "", found.reasons)


def allocated_bytes(device: str, peak: PhasePeak) -> int | None:
    """Tensor-allocated bytes of a phase; on the CPU, whose allocator does not round, those requested."""
    if peak.allocated_bytes is None and device == "cpu":
        return peak.requested_bytes
    return peak.allocated_bytes


def allocated_end(device: str, peak: PhasePeak) -> int | None:
    """The same at the phase's end."""
    return peak.end_requested_bytes if device == "cpu" else peak.end_allocated_bytes


class _Column:
    """Gathers the measured column of one phase from the inside out."""

    def __init__(self, probe: Probe, phase: str, worst: str | None) -> None:
        self.probe, self.phase, self.worst = probe, phase, worst
        self.bytes: dict[str, int] = {}
        self.origins: dict[str, str] = {}
        self.reasons: dict[str, str] = {}

    def requested(self, peak: PhasePeak) -> None:
        source = self._source("requested", "allocator record")
        for key in REQUESTED_ROWS:
            self._put(key, peak.rows.get(key, 0), source)
        self._put("requested", peak.requested_bytes, source)

    def cuda(self, peak: PhasePeak) -> None:
        self._reading("tensor_allocated", peak.allocated_bytes, "memory_stats")
        self._gap("rounding", "tensor_allocated", "requested")
        self._reading("allocator_reserved", peak.reserved_bytes, "memory_stats")
        self._gap("cached", "allocator_reserved", "tensor_allocated")
        self._reading("process", peak.process_bytes, "device")
        self._gap("context", "process", "allocator_reserved")
        for key in ("others", "driver_reserved", "device_used", "device_total"):
            self._reading(key, None, "device")

    def cpu(self, peak: PhasePeak) -> None:
        self._put("tensor_allocated", peak.requested_bytes, "requested: the CPU allocator does not round")
        self._reading("heap_reserved", peak.reserved_bytes, "mallinfo2")
        self._gap("heap_kept", "heap_reserved", "tensor_allocated")
        self._reading("process", peak.process_bytes, "kernel")
        self._gap("outside_heap", "process", "heap_reserved", negative=True)
        for key in ("others", "host_total"):
            self._reading(key, None, "kernel")

    def free(self, total: str, reserve: int) -> None:
        """What is left of the device, the reserve apart."""
        self._put("reserve", reserve, "entered")
        used = self.bytes.get("device_used")
        if total == "host_total":
            parts = [self.bytes.get("process"), self.bytes.get("others")]
            used = None if None in parts else sum(size for size in parts if size is not None)
        if used is None or total not in self.bytes:
            self.reasons["free"] = "what is used, or the total, is n/a"
            return
        left = self.bytes[total] - used - reserve
        if left < 0:
            self.reasons["free"] = f"the reserve is {-left:,} B more than is left"
        else:
            self._put("free", left, "difference")

    def _put(self, key: str, size: int, source: str) -> None:
        self.bytes[key] = size
        self.origins[key] = source

    def _source(self, key: str, default: str) -> str:
        reading = self.probe.readings.get(key)
        return (reading.source if reading else "") or default

    def _reading(self, key: str, own: int | None, default: str) -> None:
        """The phase's own figure, else the probe's reading when it belongs to this phase."""
        reading = self.probe.readings.get(key)
        if own is not None:
            self._put(key, own, self._source(key, default))
        elif reading is None:
            self.reasons[key] = self.probe.unknown.get(f"{key}_bytes", "not read")
        elif not self._belongs(key, reading):
            self.reasons[key] = f"read in {reading.phase or self.worst} only"
        elif reading.bytes is None:
            self.reasons[key] = reading.unknown or "not read"
        else:
            self._put(key, reading.bytes, reading.source or default)

    def _belongs(self, key: str, reading: Reading) -> bool:
        whole_run = key in ("others", "driver_reserved", "device_total", "host_total")
        return whole_run or self.phase in (reading.phase or self.worst, self.worst)

    def _gap(self, key: str, outer: str, inner: str, negative: bool = False) -> None:
        missing = next((name for name in (outer, inner) if name not in self.bytes), None)
        if missing is not None:
            self.reasons[key] = f"{missing.replace('_', ' ')} is n/a"
            return
        size = self.bytes[outer] - self.bytes[inner]
        if size < 0 and not negative:
            names = outer.replace("_", " "), inner.replace("_", " ")
            self.reasons[key] = f"{names[0]} was read {-size:,} B below {names[1]}"
        else:
            self._put(key, size, "difference")
