"""The second, smaller ledger below the first: what the process keeps in main memory."""

from __future__ import annotations

from tui.budget.ledger import Ledger
from tui.report.figures import BYTES, Unit
from tui.report.lines import clip, hanging, right

LABEL = 34
COUNTERS = "step_counters"
"""A few bytes that a note below the ledger says: no reason for a table of their own."""


def host_lines(found: Ledger, unit: Unit, width: int) -> list[str]:
    """Declared and measured rows of the host, then why others are not known; nothing when there are no rows."""
    if all(row.key == COUNTERS for row in found.host):
        return []
    widths = (15, 15) if unit is BYTES else (10, 10)
    head = right(("declared", "measured"), widths)
    lines = [clip(f"host, {unit.name}".ljust(LABEL) + head + "  formula", width)]
    reasons: dict[str, list[str]] = {}
    for row in found.host:
        seen = "-" if found.probe is None else unit.cell(row.measured)
        cells = right([unit.cell(row.declared), seen], widths)
        text = f"{clip(row.label, LABEL - 1).ljust(LABEL)}{cells}  {row.declared_as}"
        lines.append(clip(text.rstrip(), width))
        for column in ("declared", "measured") if found.probe is not None else ("declared",):
            if reason := row.reasons.get(column):
                reasons.setdefault(reason, []).append(row.label.removeprefix("= "))
    for reason, labels in reasons.items():
        lines += hanging(f"n/a {'; '.join(dict.fromkeys(labels))}: {reason}", width)
    return lines
