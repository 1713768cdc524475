"""Several probes as a table, the line through them, and which is the fastest."""

from __future__ import annotations

from collections.abc import Sequence

from tui import units
from tui.budget.comparable import void
from tui.budget.ledger import probe_verdict
from tui.budget.readings import allocated_bytes
from tui.budget.throughput import is_faster
from tui.project.measured import Measured, Probe
from tui.project.model import Spec
from tui.report import advice, sentences
from tui.report.figures import Unit
from tui.report.line_text import requested_line
from tui.report.lines import clip, closing, joined, right, wrap
from tui.report.text_probe import UNMEASURED, probe_unit

SAME_SPEED = 0.98
"""A rate of at least this share of the best is no slower."""


def sweep_lines(spec: Spec, measured: Measured, ids: Sequence[str], project: str, width: int) -> list[str]:
    """Several probes as one table, a part for each length, with the line through each part."""
    probes = sorted(
        (measured.probe[one] for one in ids), key=lambda one: (one.length or 0, one.micro_batch, one.at)
    )
    unit = max((probe_unit(one) for one in probes), key=lambda one: one.bytes)
    place = sentences.device(measured.environment.get(probes[0].environment))
    lines = joined([sentences.title(spec), place, f"{unit.name}, a fresh process each"], width)
    device = probes[0].device
    outer = "heap" if device == "cpu" else "reserved"
    names = ("micro", "global", "allocated", outer, "process", "spare", "ms/iter", "samples/s")
    widths = (5, 8, 11, 10, 10, 10, 10, 12)
    lines.append(clip(right(names, widths), width))
    lengths = list(dict.fromkeys(one.length for one in probes))
    for length in lengths:
        if len(lengths) > 1:
            lines.append(f"length {length:,}")
        for probe in probes:
            if probe.length == length:
                lines += _candidate(spec, probe, unit, widths, width)
    if why := void(probes):
        lines += wrap(f"COMPARISON VOID: {why}.", width)
    reserve = "spare is after the reserve. " if spec.budget.reserve else ""
    lines += wrap(f"{reserve}A batch between two that fit is not proven to fit.", width)
    if len({one.accumulate for one in probes}) == 1 and len({one.micro_batch for one in probes}) > 1:
        lines += wrap(
            f"accumulate stays {probes[0].accumulate}, so the global batch grows with micro.", width
        )
    for length in lengths:
        text = requested_line(spec, [one for one in probes if one.length == length], unit)
        if text:
            lines += wrap((f"length {length:,}: " if len(lengths) > 1 else "") + text, width)
    return [*lines, *closing(_summary(spec, measured, probes, project), width)]


def _candidate(spec: Spec, probe: Probe, unit: Unit, widths: Sequence[int], width: int) -> list[str]:
    total = probe.micro_batch * probe.accumulate * spec.placement.ranks
    lead = [str(probe.micro_batch), str(total)]
    if probe.outcome in UNMEASURED:
        words = probe.outcome.replace("-", " ")
        told = probe.failure.removeprefix(f"{words}: ")
        return wrap(f"{words}: {told}" if told else words, width, 15, right(lead, widths[:2]) + "  ")
    peak = probe.phases.get(probe.worst_phase or "")
    verdict = probe_verdict(spec, probe)
    cells = [
        *lead,
        unit.cell(allocated_bytes(probe.device, peak) if peak else None),
        unit.cell(peak.reserved_bytes if peak else None),
        unit.cell(verdict.process_bytes),
        "n/a" if verdict.spare_bytes is None else _spare(verdict.spare_bytes, unit),
        units.milliseconds(probe.step_ms_median),
        units.rate(probe.samples_per_s),
    ]
    return [clip(right(cells, widths), width)]


def _spare(size: int, unit: Unit) -> str:
    return unit.signed(size) if size < 0 else unit.cell(size)


def _summary(spec: Spec, measured: Measured, probes: Sequence[Probe], project: str) -> str:
    fitting = [one for one in probes if probe_verdict(spec, one).word == "FITS"]
    if len({one.length for one in probes}) > 1:
        return _summary_of_lengths(probes, fitting)
    if not fitting:
        words = {probe_verdict(spec, one).word for one in probes}
        if words == {"UNKNOWN"}:
            return "UNKNOWN: no batch was measured to its end."
        return f"DOES NOT FIT: none of {len(probes)}.{_after_none(spec, measured, probes, project)}"
    every = f"all {len(probes)}" if len(fitting) == len(probes) else f"{len(fitting)} of {len(probes)}"
    timed = [one for one in fitting if one.samples_per_s is not None]
    if not timed:
        return f"FITS, {every}. Speed n/a: not timed."
    best = max(timed, key=lambda one: one.samples_per_s or 0.0)
    return f"FITS, {every}. Fastest {best.micro_batch}{_no_slower(best, timed)}."


def _no_slower(best: Probe, timed: Sequence[Probe]) -> str:
    """Those whose rate is the best one's as far as can be told: within 2 %, or within what the machine drifted."""
    drift = max((abs(one.drift_ratio) for one in timed if one.drift_ratio is not None), default=0.0)
    limit = max(1 - SAME_SPEED, drift)
    top = best.samples_per_s or 0.0
    close = [
        str(one.micro_batch)
        for one in timed
        if one is not best and top > 0 and not is_faster(top, one.samples_per_s or 0.0, limit)
    ]
    if not close:
        return ""
    names = " and ".join(close)
    if drift <= 1 - SAME_SPEED:
        return f"; {names} within 2 % of it"
    return f"; {names} within {units.percent(drift)} of it, by which times drifted: not decided"


def _summary_of_lengths(probes: Sequence[Probe], fitting: Sequence[Probe]) -> str:
    """The largest that was tried and fits at each length; rates of different lengths are not compared."""
    parts: list[str] = []
    for length in dict.fromkeys(one.length for one in probes):
        micros = [one.micro_batch for one in fitting if one.length == length]
        parts.append(f"length {length:,}: " + (f"{max(micros):,}" if micros else "none"))
    head = "FITS" if fitting else "DOES NOT FIT"
    return f"{head}, {len(fitting)} of {len(probes)}. Largest that fits of those tried: {'; '.join(parts)}."


def _after_none(spec: Spec, measured: Measured, probes: Sequence[Probe], project: str) -> str:
    """What to do when no batch of a sweep fits; a batch that was tried is never proposed."""
    unit = max((probe_unit(one) for one in probes), key=lambda one: one.bytes)
    if said := advice.at_any_batch(spec, measured, probes[0], unit):
        return f" {said}"
    micro = advice.smaller(measured, probes)
    if micro is None:
        return " Every smaller micro-batch was tried, or there is none."
    return f" Next: peakmark probe {project} --batch {micro}"
