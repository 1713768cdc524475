"""``peakmark ledger``: where every byte of a measured or predicted batch goes, and whether it fits."""

from __future__ import annotations

import shlex
from pathlib import Path

from tui.budget import ledger as ledgers
from tui.budget.choose import ledger_probe
from tui.budget.prediction import of_spec
from tui.commands import stale, steps
from tui.commands.output import Output
from tui.commands.unverified import warning
from tui.errors import RunError, UsageError
from tui.project import timeline
from tui.project.measured import Probe
from tui.project.prediction import Prediction
from tui.project.timeline import Timeline
from tui.report import documents_measured, text, text_probe
from tui.report.documents_alive import alive_table
from tui.report.envelope import Document
from tui.report.json_values import Missing
from tui.report.lines import wrap
from tui.report.text_alive import alive_lines

NEGATIVE = ("DOES NOT FIT", "FITS ONLY WITHOUT THE RESERVE")


def ledger(
    project: Path,
    phase: str | None,
    output: Output,
    probe_id: str | None = None,
    alive: int | None = None,
    readings: bool = False,
) -> int:
    """Print the ledger of ``probe_id``, None: of the one that ``ledger_probe`` chooses; 1 when it does not fit.

    ``alive``: rows of what is alive at the peak, None: none of it (JSON has it always); ``readings``: every one too.

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
    told = of_spec(found.spec, found.measured) if shown is None else None
    phases = found.measured.probe[shown].phases if shown else (told[1].phases if told else {})
    if phase is not None and phase not in phases:
        known = ", ".join(phases) or f"none, first: peakmark probe {project}"
        what = "predicted" if told else "measured"
        raise UsageError(f"phase {phase} was not {what}", hint=f"{what} phases: {known}")
    if shown is not None and (said := warning(project)):
        output.talk(said)

    wanted = output.json or alive is not None
    source = found.measured.probe.get(shown or "") or (told[1] if told else None)
    held, why = _timeline(source) if wanted else (None, "")

    def lines(width: int) -> list[str]:
        made = text.ledger_lines(
            found.spec, found.measured, probe_id, phase, project=shlex.quote(str(project)), width=width
        )
        if readings and shown:
            made = [*made, "", *text_probe.every_reading(found.measured.probe[shown], width)]
        if alive is None:
            return made
        if held is None:
            return [*made, "", *wrap(f"alive n/a: {why}", width)]
        return [*made, "", *alive_lines(held, phase, alive, width)]

    def document() -> Document:
        live = Missing(why) if held is None else alive_table(held, phase)
        return documents_measured.ledger_document(found, probe_id, phase, alive=live if wanted else None)

    output.answer(
        stale.said(*_shown(project, shown, told), found, lines, output),
        document,
    )
    verdict = ledgers.ledger(found.spec, found.measured, probe_id, phase).verdict
    return 1 if verdict.word in NEGATIVE else 0


def _shown(
    project: Path, probe_id: str | None, told: tuple[str, Prediction] | None
) -> tuple[Path, str, str | None]:
    """Project, kind and id of what the ledger is of."""
    return (project, "prediction", told[0]) if told else (project, "ledger", probe_id)


def _timeline(source: Probe | Prediction | None) -> tuple[Timeline | None, str]:
    """The timeline of a probe or a prediction, or why there is none."""
    if source is None:
        return None, "nothing was measured"
    if not source.timeline:
        return None, source.unknown.get("timeline") or "it was measured by a version that kept no timeline"
    try:
        return timeline.read(timeline.path_of(source.timeline)), ""
    except RunError as error:
        return None, error.sentence()
