"""The report's memory: the ledger by phase, and the batches that were tried as a chart."""

from __future__ import annotations

from tui import units
from tui.budget.choose import ledger_probe
from tui.budget.ledger import Ledger, ledger, probe_verdict
from tui.budget.readings import allocated_bytes
from tui.budget.reconcile import off_by
from tui.budget.rows import Row
from tui.probe.protocol import PHASES
from tui.project.measured import Operating, Probe
from tui.report import sentences
from tui.report.envelope import Source
from tui.report.figures import GIBIBYTES, Unit
from tui.report.lines import clean
from tui.report.markdown_text import escaped, fenced, table
from tui.report.operating import is_current
from tui.report.stale import changed, is_stale
from tui.report.text_ledger_predicted import cause_text, predicted_cell
from tui.report.text_probe import probe_unit

CHART = 56
"""Cells of the longest bar."""
PLAIN_KEYS = ("reserve", "free", "device_total", "host_total", "device_used", "driver_reserved", "others")
"""Rows of the whole device: the same in every phase, so they stand below the table."""


def by_phase(source: Source, found: Operating | None) -> list[str]:
    """Every phase's rows at its own peak, declared bytes first, the worst phase in bold."""
    probe_id = found.probe if found else _chosen(source)
    if probe_id is None:
        return ["## Ledger by phase", "", f"Not measured yet. Next: `peakmark probe {source.project}`"]
    probe = source.measured.probe[probe_id]
    unit = probe_unit(probe)
    if not probe.phases:
        said = sentences.verdict(probe_verdict(source.spec, probe), unit)
        return [f"## Ledger by phase ({probe_id})", "", f"No phase was measured to its end. {escaped(said)}"]
    phases = [phase for phase in PHASES if phase in probe.phases]
    views = {phase: ledger(source.spec, source.measured, probe_id, phase) for phase in phases}
    worst = next(iter(views.values())).verdict.worst_phase
    views = dict(sorted(views.items(), key=lambda item: item[0] != worst))
    what = f"{unit.name} at each phase's own peak, {probe_id}; columns are never added together"
    told = views[worst or phases[0]].prediction is not None
    head = ["row", "declared", *([f"predicted {worst or phases[0]}"] if told else [])]
    head += [f"**{phase}**" if phase == worst else phase for phase in views]
    rows = [_cells(row, views, unit) for row in views[worst or phases[0]].rows if _shown(row, views)]
    return [
        f"## Ledger by phase ({what})",
        "",
        *_stale(source, probe_id),
        *table(head, rows),
        "",
        *_around(source, views[worst or phases[0]]),
    ]


def _stale(source: Source, probe_id: str) -> list[str]:
    if not is_stale(source, probe_id):
        return []
    digits = changed(source.measured.probe[probe_id].spec, source.fingerprint)
    return [
        f"**Stale**: the spec has changed since {probe_id} was measured ({digits}); "
        f"`peakmark probe {source.project}` measures it again.",
        "",
    ]


def _chosen(source: Source) -> str | None:
    chosen = ledger_probe(source.spec, source.measured)
    return chosen[0] if chosen else None


def _shown(row: Row, views: dict[str, Ledger]) -> bool:
    if row.key in PLAIN_KEYS:
        return False
    return (
        row.kind == "sum"
        or row.key == "unattributed"
        or any(view.row(row.key).measured for view in views.values())
    )


def _cells(row: Row, views: dict[str, Ledger], unit: Unit) -> list[str]:
    label = f"**{row.label}**" if row.kind == "sum" else row.label
    declared = unit.cell(row.declared) if row.declared is not None else ("" if row.kind == "sum" else "-")
    told = [predicted_cell(row, unit)] if next(iter(views.values())).prediction is not None else []
    return [label, declared, *told, *(unit.cell(view.row(row.key).measured) for view in views.values())]


def _around(source: Source, found: Ledger) -> list[str]:
    """Under which names other tools show the same run, and how the budget comes out."""
    unit = GIBIBYTES if found.probe is None else probe_unit(found.probe)
    lines = ["Plan with **process**: it is what the verdict compares."]
    names = [
        (row.other_name, row.measured)
        for row in found.rows
        if row.key in ("allocator_reserved", "heap_reserved", "process", "device_used")
        or (row.key == "tensor_allocated" and found.situation.device != "cpu")
    ]
    same = ", ".join(f"`{name}` {unit.text(size)}" for name, size in names if size is not None)
    if same:
        lines.append(f"Other names for the same run: {same}.")
    lines += [f"{text[0].upper()}{text[1:]}." for text in sentences.budget(found.verdict, unit)]
    sums = [check for check in found.checks if check.agrees is False]
    lines += [f"**A sum does not agree**: {escaped(check.text)}." for check in sums]
    agreed = ", ".join(check.sum.replace("_", "-") for check in found.checks if check.agrees)
    lines += [f"Sums that agree on bytes: {agreed}."] if agreed else []
    return [" ".join(lines), *_causes(found, unit)]


def _causes(found: Ledger, unit: Unit) -> list[str]:
    """What predicted and measured differ by in the phase that the predicted column is of, and why."""
    told = found.reconciled
    if told is None or found.probe is None:
        return []
    share = f"{told.unattributed_ratio * 100:.1f} % of requested is unattributed"
    if not told.differing:
        said = f"Predicted and measured are equal to the byte in all {told.compared} rows with both; {share}."
    else:
        left = unit.text(told.unexplained_bytes) if told.unexplained_bytes else "none"
        said = (
            f"Predicted and measured differ by {unit.text(told.absolute_bytes)} in {told.differing} of "
            f"{told.compared} rows, the signs left out; {left} of it is unexplained; {share}."
        )
    rows = [
        f"- {escaped(row.label.removeprefix('= '))} {unit.signed(off_by(row))}: {escaped(cause_text(row))}"
        for row in found.rows
        if row.cause
    ]
    return ["", said, *(["", *rows] if rows else [])]


def candidates(source: Source) -> list[str]:
    """The batches of this spec that were run, as bars of one scale; nothing for fewer than two."""
    probes = [
        probe
        for _, probe in sorted(source.measured.probe.items())
        if is_current(probe.spec, source.fingerprint)
        and probe.outcome not in ("failed", "cancelled", "not-tested")
    ]
    last = {(one.micro_batch, one.accumulate, one.length, one.precision): one for one in probes}
    ordered = sorted(last.values(), key=lambda one: (one.micro_batch, one.accumulate, one.precision))
    if len(ordered) < 2:
        return []
    unit = max((probe_unit(one) for one in ordered), key=lambda one: one.bytes)
    tops = [probe_verdict(source.spec, one).process_bytes or 0 for one in ordered]
    limit = _limit(source, ordered)
    scale = max(*tops, limit or 0, 1) / CHART
    each = f"one character is {unit.text(round(scale))}"
    bars = "`█` allocated, `▒` kept by the allocator or heap, `c` the rest of the process"
    mark = f"; `|` is {unit.text(limit)}, the budget less the reserve" if limit is not None else ""
    lines = ["micro x acc".ljust(13) + " " * (CHART + 3) + "process   samples/s"]
    lines += [_bar(source, one, scale, limit, unit) for one in ordered]
    return [f"## Candidates ({each}: {bars}{mark})", "", *fenced("\n".join(lines))]


def _limit(source: Source, probes: list[Probe]) -> int | None:
    budgets = {probe_verdict(source.spec, one).budget_bytes for one in probes}
    if len(budgets) != 1 or None in budgets:
        return None
    return max(0, max(one for one in budgets if one is not None) - source.spec.budget.reserve)


def _bar(source: Source, probe: Probe, scale: float, limit: int | None, unit: Unit) -> str:
    label = f"{probe.micro_batch:>5} x {probe.accumulate:<4}"
    if probe.outcome == "out-of-memory":
        return f"{label} out of memory: {clean(probe.failure.removeprefix('out of memory: '))}".rstrip(": ")
    peak = probe.phases.get(probe.worst_phase or "")
    process = probe_verdict(source.spec, probe).process_bytes
    ends = [
        (allocated_bytes(probe.device, peak) or 0 if peak else 0, "█"),
        (peak.reserved_bytes or 0 if peak else 0, "▒"),
        (process or 0, "c"),
    ]
    bar = ""
    for size, glyph in ends:
        bar += glyph * max(0, round(size / scale) - len(bar))
    bar = bar.ljust(CHART + 1)
    if limit is not None:
        at = round(limit / scale)
        bar = bar[:at] + "|" + bar[at + 1 :] if bar[at : at + 1] in ("", " ") else bar
    return f"{label.ljust(13)}{bar} {unit.cell(process):>9} {units.rate(probe.samples_per_s):>11}"
