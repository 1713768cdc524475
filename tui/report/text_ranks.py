"""The worst phase of every rank as text, beside what the declared divisors say of it."""

from __future__ import annotations

from tui.budget.ledger import ledger
from tui.project.measured import Measured, RankPeak
from tui.project.model import Spec
from tui.report.figures import Unit
from tui.report.lines import labelled

NAME, CELL = 21, 10


def rank_lines(
    spec: Spec, measured: Measured, probe_id: str, unit: Unit, label: int, width: int
) -> list[str]:
    """A row of the ledger a line, a rank a column; [] for a probe of one rank.

    Args:
        spec: declares the rows.
        measured: holds the probe.
        probe_id: of the probe.
        unit: of the figures.
        label: columns before the table.
        width: terminal columns; ranks for which there is no room are left out, the fullest one never.
    """
    peaks = measured.probe[probe_id].ranks
    if not peaks:
        return []
    shown = _shown(peaks, max(1, (width - label - NAME - CELL) // CELL))
    placement = spec.placement
    head = f"{len(peaks)} x {placement.strategy}, the worst phase of each ({unit.name})"
    if left := len(peaks) - len(shown):
        head += f", {left} more with --json"
    lines = labelled("ranks", head, label, width)
    lines.append(_line(label, "", "declared", [f"rank {rank}" for rank in shown]))
    phase = next(iter(shown.values())).phase
    for row in ledger(spec, measured, probe_id, phase).rows:
        held = [peak.rows.get(row.key, 0) for peak in shown.values()]
        if any(held):
            declared = "-" if row.declared is None else unit.cell(row.declared)
            lines.append(_line(label, row.label, declared, [unit.cell(size) for size in held]))
    totals = [unit.cell(peak.requested_bytes) for peak in shown.values()]
    lines.append(_line(label, "= requested", "", totals))
    lines.append(_line(label, "at the peak of", "", [peak.phase for peak in shown.values()]))
    return lines


def _shown(peaks: dict[str, RankPeak], most: int) -> dict[str, RankPeak]:
    """As many ranks as there is room for, in order, the fullest one among them."""
    fullest = max(peaks, key=lambda rank: peaks[rank].requested_bytes)
    names = sorted(peaks, key=int)
    chosen = names[:most]
    if fullest not in chosen:
        chosen[-1] = fullest
    return {rank: peaks[rank] for rank in chosen}


def _line(label: int, name: str, declared: str, cells: list[str]) -> str:
    text = "".join(f"{cell:>{CELL}}" for cell in [declared, *cells])
    return f"{'':<{label}}{name:<{NAME}}{text}".rstrip()
