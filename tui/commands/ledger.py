"""``peakmark ledger``: where every byte of a measured batch goes, and whether it fits."""

from __future__ import annotations

import shlex
from pathlib import Path

from tui.budget import ledger as ledgers
from tui.budget.choose import ledger_probe
from tui.commands import stale, steps
from tui.commands.output import Output
from tui.commands.unverified import warning
from tui.errors import UsageError
from tui.report import documents_measured, text

NEGATIVE = ("DOES NOT FIT", "FITS ONLY WITHOUT THE RESERVE")


def ledger(project: Path, phase: str | None, output: Output, probe_id: str | None = None) -> int:
    """Print the ledger of ``probe_id``, None: of the one that ``ledger_probe`` chooses; 1 when it does not fit.

    Raises:
        UsageError: no such measurement or phase.
    """
    steps.take_in(project, output)
    found = steps.source(project)
    if probe_id is not None and probe_id not in found.measured.probe:
        raise UsageError(
            f"{project.name} has no measurement {probe_id}", hint=f"see [measured.probe] in {project}"
        )
    chosen = ledger_probe(found.spec, found.measured) if probe_id is None else None
    shown = chosen[0] if chosen else probe_id
    phases = found.measured.probe[shown].phases if shown else {}
    if phase is not None and phase not in phases:
        known = ", ".join(phases) or f"none, first: peakmark probe {project}"
        raise UsageError(f"phase {phase} was not measured", hint=f"measured phases: {known}")
    if shown is not None and (said := warning(project)):
        output.talk(said)

    def lines(width: int) -> list[str]:
        return text.ledger_lines(
            found.spec, found.measured, probe_id, phase, project=shlex.quote(str(project)), width=width
        )

    output.answer(
        stale.said(project, "ledger", shown, found, lines, output),
        lambda: documents_measured.ledger_document(found, probe_id, phase),
    )
    verdict = ledgers.ledger(found.spec, found.measured, probe_id, phase).verdict
    return 1 if verdict.word in NEGATIVE else 0
