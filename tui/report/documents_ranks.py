"""The worst phase of every rank of a probe, for the JSON documents."""

from __future__ import annotations

from tui.probe.protocol import REQUESTED_ROWS
from tui.project.measured import Probe
from tui.report.envelope import Document
from tui.report.json_values import Missing


def ranks_document(probe: Probe) -> list[Document] | Missing:
    """Phase, requested bytes and rows of each rank, in their order; missing for a probe of one rank."""
    if not probe.ranks:
        return Missing("one rank was measured")
    return [
        {
            "rank": int(rank),
            "phase": peak.phase,
            "requested_bytes": peak.requested_bytes,
            "rows": {row: peak.rows.get(row, 0) for row in REQUESTED_ROWS},
        }
        for rank, peak in sorted(probe.ranks.items(), key=lambda item: int(item[0]))
    ]
