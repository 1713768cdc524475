"""Readings of a probe, its clocks and its loader as text."""

from __future__ import annotations

from tui import units
from tui.budget import loader
from tui.budget.throughput import DRIFT_LIMIT, drift_ratio
from tui.probe.protocol import PHASES
from tui.project.measured import Probe, Reading
from tui.report.figures import Unit
from tui.report.lines import clean, clip, right, wrap

CLOCK_LIMIT = 0.05
"""Relative change of the SM clock from the first third of the looks to the last that is worth a warning."""
NOT_OF_A_CPU = ("host_rss", "inactive_split", "pinned", "others_after")
"""Readings that a CPU has not, or has under another name."""


def readings_lines(probe: Probe, unit: Unit, indent: int, width: int) -> list[str]:
    """Every reading on a line: name, bytes, phase, seconds since the child started, where it was read."""
    lines: list[str] = []
    for name, one in probe.readings.items():
        if probe.device == "cpu" and name in NOT_OF_A_CPU:
            continue
        first = ("" if lines else "readings").ljust(indent) + name.replace("_", " ").ljust(19)
        if one.bytes is None:
            lines += wrap(f"n/a: {one.unknown or 'not read'}", width, indent + 19, first)
        else:
            said = ": ".join(filter(None, (_place(one), clean(one.source))))
            lines.append(clip(f"{first}{unit.text(one.bytes):>12}  {said}".rstrip(), width))
    return lines


def phases_lines(probe: Probe, unit: Unit, indent: int, width: int) -> list[str]:
    """Every phase's peak and what is left at its end; nothing for a probe that has no ends."""
    known = [name for name in PHASES if name in probe.phases]
    if not any(probe.phases[name].end_requested_bytes is not None for name in known):
        return []
    outer = "heap" if probe.device == "cpu" else "reserved"
    widths = (15, 9, 9, 9, 9, 9, 9)
    named = ("requested", "end", outer, "end", "process", "end")
    head = "phases".ljust(indent) + unit.name.ljust(widths[0]) + right(named, widths[1:])
    lines = [clip(head, width)]
    for name in known:
        peak = probe.phases[name]
        pairs = (
            (peak.requested_bytes, peak.end_requested_bytes),
            (peak.reserved_bytes, peak.end_reserved_bytes),
            (peak.process_bytes, peak.end_process_bytes),
        )
        cells = [unit.cell(size, 8) for pair in pairs for size in pair]
        row = " " * indent + name.ljust(widths[0]) + right(cells, widths[1:])
        lines.append(clip(row, width))
    return lines


def _place(one: Reading) -> str:
    """``backward at 12.3 s``: in which phase and when it was taken."""
    seconds = "" if one.at_s is None else f"at {one.at_s:,.1f} s"
    return " ".join(filter(None, (one.phase, seconds)))


def batches_text(probe: Probe) -> str:
    """What making the batches takes beside the step, and how many workers hide it."""
    if probe.loader_ms_median is None or probe.step_ms_median is None:
        return "n/a: " + probe.unknown.get("loader_ms_median", "not timed")
    alone = loader.loading(probe.loader_ms_median / 1000, probe.step_ms_median / 1000, 0)
    needed = alone.workers_needed
    keep = "1 worker keeps" if needed == 1 else f"{needed} workers keep"
    text = (
        f"{units.milliseconds(probe.loader_ms_median)} ms an iteration to make its batches, not in the time: "
        f"without workers the device waits {units.percent(alone.idle_ratio)} of it; "
        f"{keep} up {loader.ASSUMED}"
    )
    why = loader.bounded(needed, probe.cpus_allowed)[1] if probe.cpus_allowed is not None else ""
    return f"{text}, but {why}" if why else text


def clocks_text(probe: Probe) -> str:
    """Clocks, heat and power while it was timed, or why they are not known."""
    if probe.clocks is None:
        return "n/a: " + probe.unknown.get("clocks", "not looked at")
    if probe.throttled is None:
        return f"{probe.clocks}; throttling n/a: {probe.unknown.get('throttled', 'not looked at')}"
    return f"{probe.clocks}; {'throttled' if probe.throttled else 'not throttled'}"


def time_warnings(probe: Probe) -> list[str]:
    """What makes the times those of this hour and this machine: drift, held-back clocks, a period."""
    found: list[str] = []
    drift = probe.drift_ratio if probe.drift_ratio is not None else drift_ratio(probe.step_ms)
    if drift is not None and abs(drift) > DRIFT_LIMIT:
        share = f"{units.percent(abs(drift))} {'longer' if drift > 0 else 'less'}"
        found.append(f"drift: the last third of the iterations took {share} than the first")
    if probe.throttled:
        found.append(f"throttled: the device held its clocks back while it was timed ({probe.throttle})")
    ratio = probe.clock_ratio
    if ratio is not None and abs(ratio) > CLOCK_LIMIT:
        share = f"{units.percent(abs(ratio))} {'lower' if ratio < 0 else 'higher'}"
        found.append(f"clocks: the SM clock ended {share} than it began")
    if probe.slow_every is not None and probe.slow_part == "loader":
        every = f"periodic: the batches of one iteration in {probe.slow_every} take long to make"
        found.append(f"{every}; the times leave that out")
    elif probe.slow_every is not None:
        every = f"periodic: one iteration in {probe.slow_every} is slow"
        found.append(f"{every}, as with workers that each make a batch; the rate is of whole periods")
    return found
