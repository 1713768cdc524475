"""``peakmark ledger``: where every byte of a measured or predicted batch goes, and whether it fits."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from tui.budget import ledger as ledgers
from tui.budget import prediction as predictions
from tui.budget.choose import ledger_probe
from tui.budget.ledger import Ledger, Timelines
from tui.budget.prediction import of_spec
from tui.commands import stale, steps
from tui.commands.ledger_arguments import Shown
from tui.commands.output import Output
from tui.commands.unverified import warning
from tui.errors import RunError, UsageError
from tui.project import atomic, timeline
from tui.project.measured import PhasePeak, Probe
from tui.project.model import Spec
from tui.project.prediction import Prediction
from tui.project.timeline import Timeline
from tui.report import documents_measured, ledger_csv, markdown_memory_ledger, text, text_probe
from tui.report.documents_alive import alive_table
from tui.report.envelope import Document, Source
from tui.report.json_values import Missing
from tui.report.lines import wrap
from tui.report.text_alive import alive_lines

NEGATIVE = ("DOES NOT FIT", "FITS ONLY WITHOUT THE RESERVE")


def ledger(project: Path, asked: Shown, output: Output) -> int:
    """Print what was ``asked`` of the ledger, and write its files; 1 when it does not fit.

    Raises:
        UsageError: no such measurement or phase, or two things for stdout.
        SaveError: a file could not be written.
    """
    _refuse_two(asked, output)
    steps.take_in(project, output)
    found = steps.source(project)
    shown = _probe(project, found, asked.probe_id)
    told = of_spec(found.spec, found.measured) if shown is None else None
    _check_phase(project, asked.phase, found.measured.probe[shown].phases if shown else None, told)
    if shown is not None and (said := warning(project)):
        output.talk(said)
    probe = found.measured.probe.get(shown or "")
    held, why = _timeline(probe or (told[1] if told else None))
    kept = _timelines(found, probe, told, held)
    made = ledgers.ledger(found.spec, found.measured, asked.probe_id, asked.phase, timelines=kept)

    def lines(width: int) -> list[str]:
        text_lines = text.ledger_lines(
            found.spec,
            found.measured,
            asked.probe_id,
            asked.phase,
            project=shlex.quote(str(project)),
            width=width,
            timelines=kept,
            exact=asked.exact,
            verbose=asked.verbose,
        )
        if asked.readings and probe:
            text_lines += ["", *text_probe.every_reading(probe, width)]
        if asked.alive is None:
            return text_lines
        if held is None:
            return [*text_lines, "", *wrap(f"alive n/a: {why}", width)]
        return [*text_lines, "", *alive_lines(held, asked.phase, asked.alive, width)]

    def document() -> Document:
        live = Missing(why) if held is None else alive_table(held, asked.phase)
        wanted = output.json or asked.alive is not None
        return documents_measured.ledger_document(
            found, asked.probe_id, asked.phase, alive=live if wanted else None, timelines=kept
        )

    if not _written(asked, found.spec, made, output):
        output.answer(stale.said(*_shown(project, shown, told), found, lines, output), document)
    return 1 if made.verdict.word in NEGATIVE else 0


def _refuse_two(asked: Shown, output: Output) -> None:
    wanted = [f"--{name} -" for name in ("csv", "markdown") if str(getattr(asked, name)) == "-"]
    wanted += [f"--{name}" for name in ("json", "plain") if wanted and getattr(output, name)]
    if len(wanted) > 1:
        raise UsageError(f"{' and '.join(wanted)} all ask for stdout", hint="name a file for one of them")


def _probe(project: Path, found: Source, probe_id: str | None) -> str | None:
    """The id of the measurement that is shown, None: nothing was measured."""
    if probe_id is None:
        chosen = ledger_probe(found.spec, found.measured)
        return chosen[0] if chosen else None
    if probe_id not in found.measured.probe:
        raise UsageError(
            f"{project.name} has no measurement {probe_id}", hint=f"see [measured.probe] in {project}"
        )
    return probe_id


def _check_phase(
    project: Path,
    phase: str | None,
    measured: Mapping[str, PhasePeak] | None,
    told: tuple[str, Prediction] | None,
) -> None:
    phases = list(measured if measured is not None else (told[1].phases if told else ()))
    if phase is not None and phase not in phases:
        known = ", ".join(phases) or f"none, first: peakmark probe {project}"
        what = "predicted" if told else "measured"
        raise UsageError(f"phase {phase} was not {what}", hint=f"{what} phases: {known}")


def _timelines(
    found: Source, probe: Probe | None, told: tuple[str, Prediction] | None, held: Timeline | None
) -> Timelines:
    """Both timelines of what the ledger shows, where they are kept."""
    if probe is None:
        return Timelines(predicted=held if told else None)
    beside = predictions.beside(found.measured, probe)
    return Timelines(measured=held, predicted=_timeline(beside[1])[0] if beside else None)


def _written(asked: Shown, spec: Spec, made: Ledger, output: Output) -> bool:
    """Write the files that were asked for; whether one of them went to stdout."""
    told = False
    pages: tuple[tuple[Path | None, Callable[[], str]], ...] = (
        (asked.csv, lambda: ledger_csv.text(made)),
        (asked.markdown, lambda: markdown_memory_ledger.page(spec, made)),
    )
    for path, page in pages:
        if path is None:
            continue
        if str(path) == "-":
            output.lines(page().splitlines())
            told = True
        else:
            atomic.write(path, page().encode())
            output.talk(f"wrote {path}")
    return told


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
