"""The report's readings: what each figure around the ledger means, and what every phase leaves behind."""

from __future__ import annotations

from tui.budget.choose import ledger_probe
from tui.budget.readings import allocated_bytes, allocated_end
from tui.probe.protocol import PHASES
from tui.project.measured import Operating, PhasePeak, Probe, Reading
from tui.report.envelope import Source
from tui.report.figures import Unit
from tui.report.markdown_text import escaped, table
from tui.report.text_probe import probe_unit


def readings(source: Source, found: Operating | None) -> list[str]:
    """Every reading of the probe with its meaning, then the phases' peaks and ends; nothing without a probe."""
    chosen = ledger_probe(source.spec, source.measured)
    probe_id = found.probe if found else (chosen[0] if chosen else None)
    if probe_id is None or not source.measured.probe[probe_id].readings:
        return []
    probe = source.measured.probe[probe_id]
    unit = probe_unit(probe)
    rows = [_reading(name, one, unit) for name, one in probe.readings.items()]
    lines = [
        f"## Readings ({unit.name}, {probe_id})",
        "",
        *table(["reading", "size", "read", "meaning", "source, or why not"], rows, numbers=False),
    ]
    ends = _ends(probe, unit)
    head = ["phase: peak, then what is left at its end", "requested", "allocated", "reserved", "process"]
    return [*lines, "", *table(head, ends)] if ends else lines


def _reading(name: str, one: Reading, unit: Unit) -> list[str]:
    label, meaning = name.replace("_", " "), escaped(one.meaning)
    if one.bytes is None:
        return [label, "n/a", "", meaning, escaped(one.unknown or "not read")]
    when = "" if one.at_s is None else f"at {one.at_s:,.1f} s"
    place = " ".join(filter(None, (one.phase, when))) or "around it"
    return [label, unit.cell(one.bytes), place, meaning, escaped(one.source)]


def _ends(probe: Probe, unit: Unit) -> list[list[str]]:
    """A row a phase whose end is known."""
    known = [
        (name, probe.phases[name])
        for name in PHASES
        if name in probe.phases and probe.phases[name].end_requested_bytes is not None
    ]
    return [[name, *_cells(probe.device, peak, unit)] for name, peak in known]


def _cells(device: str, peak: PhasePeak, unit: Unit) -> list[str]:
    pairs = (
        (peak.requested_bytes, peak.end_requested_bytes),
        (allocated_bytes(device, peak), allocated_end(device, peak)),
        (peak.reserved_bytes, peak.end_reserved_bytes),
        (peak.process_bytes, peak.end_process_bytes),
    )
    return [f"{unit.cell(top)}, {unit.cell(end)}" for top, end in pairs]
