"""Readings, phases and times of a probe as JSON."""

from __future__ import annotations

from tui.budget.readings import allocated_bytes, allocated_end
from tui.budget.throughput import TIMES
from tui.probe.protocol import PHASES, REQUESTED_ROWS
from tui.project.measured import Probe
from tui.report.envelope import Document
from tui.report.json_values import known

AROUND = "read around the measuring process, not in it"
NOT_COMPILED = "the model is not compiled"
RECORDED = "the instant of a peak in a record, which is not timed"
NO_END = "only the peak is known in this phase"


def readings(probe: Probe | None) -> list[Document]:
    """Each with its bytes, what they mean, where and when they were read."""
    if probe is None:
        return []
    return [
        {
            "name": name,
            "bytes": known(one.bytes, one.unknown),
            "source": one.source,
            "at": one.phase,
            "at_s": known(one.at_s, one.unknown or (RECORDED if one.phase else AROUND)),
            "meaning": one.meaning,
        }
        for name, one in probe.readings.items()
    ]


def phases(probe: Probe | None) -> list[Document]:
    """Each with its own peak, the rows at that instant, and what is left at its end."""
    peaks, device = (probe.phases, probe.device) if probe else ({}, "cpu")
    return [
        {
            "phase": name,
            "requested_bytes": peaks[name].requested_bytes,
            "allocated_bytes": known(allocated_bytes(device, peaks[name]), "not read in this phase"),
            "reserved_bytes": known(peaks[name].reserved_bytes, "not read in this phase"),
            "process_bytes": known(peaks[name].process_bytes, "not read in this phase"),
            "end_requested_bytes": known(peaks[name].end_requested_bytes, NO_END),
            "end_allocated_bytes": known(allocated_end(device, peaks[name]), NO_END),
            "end_reserved_bytes": known(peaks[name].end_reserved_bytes, NO_END),
            "end_process_bytes": known(peaks[name].end_process_bytes, NO_END),
            "rows": {key: peaks[name].rows.get(key, 0) for key in REQUESTED_ROWS},
        }
        for name in PHASES
        if name in peaks
    ]


def timing(probe: Probe) -> Document:
    """Times and rates of the untraced run, and what the machine did meanwhile."""
    reason = probe.failure or "not timed"
    values = {name: known(getattr(probe, name), probe.unknown.get(name, reason)) for name in TIMES}
    return {
        "run": "untraced",
        "timed_count": probe.iterations,
        "warmup_count": probe.warmup,
        **values,
        "compile_ms": known(probe.compile_ms, probe.unknown.get("compile_ms", NOT_COMPILED)),
        "compile_count": known(probe.compile_count, probe.unknown.get("compile_ms", NOT_COMPILED)),
        "compiled_again_count": probe.compiled_again,
        "slow_part": probe.slow_part,
        "slow_every_count": known(probe.slow_every, "no period of slow iterations was seen"),
        "cpus_allowed_count": known(probe.cpus_allowed, reason),
        "throttled": known(probe.throttled, probe.unknown.get("throttled", reason)),
        "throttle": probe.throttle,
        "clocks": known(probe.clocks, probe.unknown.get("clocks", reason)),
        "clock_ratio": known(probe.clock_ratio, probe.unknown.get("clocks", "too few looks at the clocks")),
    }
