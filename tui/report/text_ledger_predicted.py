"""What a ledger's text says of the predicted column: cells, causes of differences, ranges, predicted phases."""

from __future__ import annotations

from collections.abc import Callable

from tui.budget.forecast import OUTSIDE
from tui.budget.ledger import Ledger
from tui.budget.rows import Row
from tui.probe.protocol import PHASES
from tui.project.prediction import PredictedPeak
from tui.report.figures import Unit, span
from tui.report.lines import clip, hanging, joined, right

LABEL = 22
MARK = "*"
"""After a difference that needs a cause."""


def predicted_head(found: Ledger, width: int) -> list[str]:
    """Which prediction the column is of, and of which phase where nothing was measured."""
    told = found.prediction
    if told is None:
        return []
    device = "the CPU" if told.semantics == "cpu" else (told.target or "a CUDA GPU, none named")
    parts = [f"predicted {found.prediction_id}, {device}", f"torch {told.torch}"]
    if found.probe is not None:
        return joined(parts, width)
    peak = told.phases.get(found.phase or "")
    where = (found.phase or "no phase") + (f", in operator {peak.operator}" if peak and peak.operator else "")
    return joined([parts[0].replace("predicted", "PREDICTED", 1), where, "nothing measured"], width)


def predicted_cell(row: Row, unit: Unit) -> str:
    """The predicted figure, its range, or - and n/a where there is none."""
    if row.predicted is not None:
        return unit.cell(row.predicted)
    if row.predicted_range is not None:
        return span(row.predicted_range, unit)
    if row.kind == "sum":
        return ""
    return "-" if row.reasons.get("predicted") == OUTSIDE or row.key == "reserve" else "n/a"


def difference_cell(row: Row, unit: Unit) -> str:
    """Measured less predicted; ``within`` a range; a mark where it needs a cause."""
    if row.within:
        return "within"
    if row.within is False and row.measured is not None and row.predicted_range is not None:
        low, high = row.predicted_range
        return unit.signed(row.measured - (low if row.measured < low else high)) + MARK
    if row.difference is None:
        return ""
    return unit.signed(row.difference) + (MARK if row.cause else "")


def cause_text(row: Row) -> str:
    """The cause of a row's difference with its evidence; "": it needs none."""
    return f"{row.cause}: {row.evidence}" if row.evidence else row.cause


def reconciled_lines(found: Ledger, unit: Unit, width: int) -> list[str]:
    """What all differences come to, what of that is unexplained, and the share that no label explains."""
    told = found.reconciled
    if told is None or found.probe is None:
        return []
    if not told.differing:
        sums = f"all {told.compared} rows with both figures are equal to the byte"
    else:
        sums = (
            f"|m - p| adds up to {unit.text(told.absolute_bytes)} in {told.differing} of {told.compared} rows"
        )
        left = told.unexplained_bytes
        sums += f", {unit.text(left)} of it unexplained" if left else ", none of it unexplained"
    share = f"unattributed {told.unattributed_ratio * 100:.1f} % of requested"
    lines = hanging(f"{sums}; {share}", width)
    names = {row.key: _label(row) for row in found.rows}
    for key, cause in told.minor.items():
        lines += hanging(f"{names[key]}: {cause.text}", width)
    return lines


def predicted_notes(found: Ledger, unit: Unit, width: int) -> list[str]:
    """Causes of differences, ranges with where they come from, and what is not predicted."""
    lines: list[str] = []
    for text, rows in _grouped(found, cause_text).items():
        lines += hanging(f"{MARK} {', '.join(rows)}: {text}", width)
    if found.prediction is None:
        return lines
    lines += reconciled_lines(found, unit, width)
    for text, rows in _grouped(found, _reason).items():
        lines += hanging(f"predicted {', '.join(rows)}: {text}", width)
    return lines


def _reason(row: Row) -> str:
    """Why there is no predicted figure, for rows of the process; those of the machine need no reason."""
    reason = row.reasons.get("predicted", "")
    said = row.key == "process" and row.predicted_range is not None  # its parts are
    return "" if reason == OUTSIDE or row.key == "reserve" or said else reason


def _grouped(found: Ledger, of: Callable[[Row], str]) -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for row in found.rows:
        if text := of(row):
            rows.setdefault(text, []).append(_label(row))
    return rows


def _label(row: Row) -> str:
    return row.label.removeprefix("= ")


def predicted_phases(found: Ledger, unit: Unit, width: int) -> list[str]:
    """Every predicted phase's own peak, where nothing was measured."""
    told = found.prediction
    if told is None:
        return []
    names = ["requested"] if told.semantics == "cpu" else ["requested", "allocated", "reserved"]
    widths = [11] * len(names)
    lines = [clip(f"peak of a phase, {unit.name}".ljust(LABEL) + right(names, widths), width)]
    for phase in (one for one in PHASES if one in told.phases):
        mark = "  worst" if phase == told.worst_phase else ""
        cells = [unit.cell(size) for size in _sizes(told.phases[phase])[: len(names)]]
        lines.append(clip(phase.ljust(LABEL) + right(cells, widths) + mark, width))
    return lines


def _sizes(peak: PredictedPeak) -> list[int | None]:
    return [peak.requested_bytes, peak.allocated_bytes, peak.reserved_bytes]
