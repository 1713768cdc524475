"""The ledger as text: where every byte is, and under which name another tool shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.budget.declared import counter_note
from tui.budget.ledger import NOT_DECLARED, Ledger, Timelines, ledger
from tui.budget.readings import allocated_bytes
from tui.budget.rows import Row
from tui.probe.protocol import PHASES
from tui.project.measured import Measured, PhasePeak
from tui.project.model import Spec
from tui.report import sentences
from tui.report.figures import BYTES, Unit, unit_for
from tui.report.lines import clip, closing, hanging, joined, right, wrap
from tui.report.text_ledger_host import host_lines
from tui.report.text_ledger_parts import parts_below, parts_compact
from tui.report.text_ledger_predicted import (
    difference_cell,
    predicted_cell,
    predicted_head,
    predicted_notes,
    predicted_phases,
)

LABEL = 22
MAX_REASONS = 6
LEAST_TEXT = 12
"""Columns below which the table has no words at its right."""


def ledger_lines(
    spec: Spec,
    measured: Measured,
    probe_id: str | None = None,
    phase: str | None = None,
    *,
    project: str,
    width: int = 80,
    predicted: Mapping[str, int] | None = None,
    timelines: Timelines | None = None,
    exact: bool = False,
    verbose: bool = False,
) -> list[str]:
    """The ledger of one probe in one phase, at most ``width`` columns wide.

    Args:
        spec: declares rows, budget and reserve.
        measured: holds the probe.
        probe_id: None: the latest one with phases.
        phase: None: the worst one.
        project: the file's name, for the next command.
        width: terminal columns, at least 60.
        predicted: bytes by row key, instead of those of the project's prediction.
        timelines: what the temporaries are for, and evidence for the causes of differences.
        exact: every figure as an exact number of bytes.
        verbose: what the temporaries are for under their rows, instead of in one line.

    Raises:
        KeyError: the probe or the phase does not exist.
    """
    found = ledger(spec, measured, probe_id, phase, predicted=predicted, timelines=timelines)
    beside = predicted is not None or found.prediction is not None
    requested = found.row("requested")
    unit = unit_for(requested.predicted if requested.measured is None else requested.measured)
    unit = BYTES if exact else unit
    lines = [*_head(spec, found, width), *_table(found, unit, width, beside, verbose)]
    if not verbose:
        lines += parts_compact(found, unit, width)
    lines += host_lines(found, unit, width)
    lines += _notes(spec, measured, found, unit, width, beside)
    lines += _phases(found, unit, width) if found.phases else predicted_phases(found, unit, width)
    lines += [one for text in sentences.budget(found.verdict, unit) for one in wrap(text, width)]
    if found.verdict.unknown_rows:
        lines += hanging(f"unknown for want of: {'; '.join(found.verdict.unknown_rows)}", width)
    following = f" Next: peakmark probe {project}" if found.probe_id is None else ""
    return [*lines, *closing(sentences.verdict(found.verdict, unit) + following, width)]


def _head(spec: Spec, found: Ledger, width: int) -> list[str]:
    at = found.situation
    asked = sentences.batch(at.micro, at.accumulate, spec.placement.ranks, at.length)
    lines = joined([sentences.title(spec), asked, at.precision], width)
    if found.probe_id is None and found.prediction is not None:
        return [*lines, *predicted_head(found, width)]
    if found.probe_id is None:
        return [*lines, "not measured: declared rows alone"]
    where = found.phase or "no phase"
    if found.phase is not None and found.phase in found.phases:
        peak = found.phases[found.phase]
        if peak.micro_batch is not None:
            where += f", micro-batch {peak.micro_batch + 1} of {at.accumulate}"
        where += f", in operator {peak.operator}" if peak.operator else ""
    lines += joined([f"measured {found.probe_id}", sentences.device(found.environment), where], width)
    return lines if found.prediction is None else [*lines, *predicted_head(found, width)]


def _table(found: Ledger, unit: Unit, width: int, predicted: bool, verbose: bool) -> list[str]:
    columns = _columns(unit, width, predicted)
    room = width - LABEL - sum(columns.values()) >= LEAST_TEXT
    head = right(list(columns), list(columns.values()))
    lines = [clip(unit.name.ljust(LABEL) + head + ("  formula / other name" if room else ""), width)]
    for row in found.rows:
        if _is_folded(row):
            continue
        cells = {
            "declared": _declared(row, unit),
            "predicted": predicted_cell(row, unit),
            "measured": "-" if predicted and found.probe_id is None else unit.cell(row.measured, 8),
            "m - p": difference_cell(row, unit),
            "m - d": _difference(row.over_declared, unit),
        }
        text = (row.declared_as or row.other_name) if room else ""
        figures = right([cells[name] for name in columns], list(columns.values()))
        lines.append(clip(f"{row.label.ljust(LABEL)}{figures}  {text}".rstrip(), width))
        if verbose:
            lines += parts_below(found, row.key, unit, columns, width if room else 0)
    return lines


def _columns(unit: Unit, width: int, predicted: bool) -> dict[str, int]:
    """Widths by what is in each column; exact bytes in a narrow terminal leave out what the others tell."""
    if unit is not BYTES:
        wide = {"declared": 8, "predicted": 10, "measured": 9, "m - p": 9}
        return wide if predicted else {"declared": 10, "measured": 10, "m - d": 10}
    wide = {"declared": 14, "predicted": 14, "measured": 15, "m - p": 14}
    wide = wide if predicted else {"declared": 16, "measured": 16, "m - d": 16}
    if LABEL + sum(wide.values()) <= width:
        return wide
    return {"predicted" if predicted else "declared": 19, "measured": 19}


def _is_folded(row: Row) -> bool:
    """Rows at exactly zero are counted below the table, except the one that says nothing is missing."""
    columns = (row.declared, row.predicted, row.measured)
    empty = all(value in (0, None) for value in columns) and 0 in (row.measured, row.predicted)
    return empty and row.kind == "row" and row.key not in ("unattributed", "reserve")


def _declared(row: Row, unit: Unit) -> str:
    if row.declared is not None:
        return unit.cell(row.declared)
    if row.reasons.get("declared") == NOT_DECLARED:
        return "" if row.kind == "sum" else "-"
    return "n/a"


def _difference(size: int | None, unit: Unit) -> str:
    return "" if size is None else unit.signed(size)


def _vocabulary(found: Ledger, predicted: bool) -> str:
    """The words of the table that nothing else explains."""
    text = "m - p: measured less predicted" if predicted else "m - d: measured less declared"
    if found.situation.device == "cpu":
        text += "; outside the heap: code, stacks and mapped files, less heap pages never touched"
    return text


def _notes(
    spec: Spec, measured: Measured, found: Ledger, unit: Unit, width: int, predicted: bool
) -> list[str]:
    lines: list[str] = []
    folded = [row.label for row in found.rows if _is_folded(row)]
    if folded:
        lines += hanging(f"exactly 0: {', '.join(folded)}", width)
    if found.phases:
        lines += hanging(_vocabulary(found, predicted), width)
    lines += predicted_notes(found, unit, width)
    for label, reason in _reasons(found):
        lines += hanging(f"n/a {label}: {reason}", width)
    unnamed = found.probe.unknown.get("unattributed") if found.probe else None
    if unnamed and found.row("unattributed").measured:
        lines += hanging(f"unattributed: {unnamed}", width)
    note = counter_note(spec, measured.inventory, found.situation.device)
    if note:
        lines += wrap(f"not in the ledger: {note}", width)
    gradients = found.row("gradients").over_declared
    if gradients is not None and gradients < 0 and (found.phase or "").endswith("backward"):
        short = f"gradients {unit.signed(gradients)}: at this instant the backward has not made all of them"
        lines += hanging(short, width)
    most = found.verdict.process_bytes
    if most is not None and found.probe_id is not None and most != found.row("process").measured:
        lines += hanging(f"the verdict takes process at its most in any phase: {unit.text(most)}", width)
    checked = [check.sum.replace("_", "-") for check in found.checks if check.agrees]
    if checked:
        lines += hanging(f"sums on bytes: {', '.join(checked)} agree", width)
    for check in found.checks:
        if check.agrees is False:
            lines += hanging(f"sum {check.sum.replace('_', '-')} does not agree: {check.text}", width)
    return lines


def _reasons(found: Ledger) -> list[tuple[str, str]]:
    """Each reason once, with the rows that it is for."""
    rows: dict[str, list[str]] = {}
    columns = ("declared",) if found.probe_id is None and found.prediction else ("measured", "declared")
    for row in found.rows:
        for column in columns:
            reason = row.reasons.get(column, NOT_DECLARED)
            if reason != NOT_DECLARED:
                rows.setdefault(reason, []).append(row.label.removeprefix("= "))
    return [(_named(labels), reason) for reason, labels in rows.items()]


def _named(labels: Sequence[str]) -> str:
    return ", ".join(labels) if len(labels) <= MAX_REASONS else f"{len(labels)} rows"


def _phases(found: Ledger, unit: Unit, width: int) -> list[str]:
    if not found.phases:
        return []
    third = "heap" if found.situation.device == "cpu" else "reserved"
    head = f"peak of a phase, {unit.name}".ljust(LABEL) + right(
        ["requested", "allocated", third, "process"], [11, 11, 11, 11]
    )
    lines = [clip(head, width)]
    for phase in (one for one in PHASES if one in found.phases):
        mark = "  worst" if phase == found.verdict.worst_phase else ""
        cells = [unit.cell(size) for size in _sizes(found.situation.device, found.phases[phase])]
        lines.append(clip(phase.ljust(LABEL) + right(cells, [11] * 4) + mark, width))
    if any(None in _sizes(found.situation.device, peak) for peak in found.phases.values()):
        lines += hanging("n/a in a phase: read in another phase only, or not at all", width)
    return lines


def _sizes(device: str, peak: PhasePeak) -> list[int | None]:
    return [peak.requested_bytes, allocated_bytes(device, peak), peak.reserved_bytes, peak.process_bytes]
