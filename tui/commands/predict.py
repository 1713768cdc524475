"""``peakmark predict``: what an iteration will take, for a GPU that need not be here."""

from __future__ import annotations

import shlex
from pathlib import Path

from tui.budget.gpus import table
from tui.commands import stale, steps
from tui.commands.output import Output
from tui.engine.context import Options
from tui.errors import RunError, UsageError
from tui.probe.allocator_settings import SettingsError, parse
from tui.project import timeline
from tui.project.measured import Measured
from tui.project.timeline import Timeline
from tui.report.documents_predict import gpus_document, predict_document
from tui.report.text_gpus import gpus_lines
from tui.report.text_predict import predict_lines

WORST = "worst"


def gpus(listed: bool, output: Output) -> int:
    """List the table of GPUs.

    Raises:
        UsageError: neither a project nor --gpus was given.
    """
    if not listed:
        raise UsageError(
            "predict needs a project", hint="peakmark predict PROJECT, or peakmark predict --gpus"
        )
    output.answer(lambda width: gpus_lines(table(), width), lambda: gpus_document(table()))
    return 0


def predict(project: Path, options: Options, output: Output, phase: str | None = None) -> int:
    """Predict and print; 1 unless it fits.

    Raises:
        UsageError: settings of the allocator that torch would refuse; or a phase that was not predicted, and what was
            predicted is saved all the same.
    """
    _check_settings(options.alloc_conf)
    before = steps.probes(project)
    code, ended = steps.do(project, ("predict",), options, output)
    if (error := ended.failed(code)) is not None:
        raise error
    show(project, output, steps.ids_of(project, ended.steps[-1], before), phase)
    return code


def _check_settings(text: str | None) -> None:
    """Refuse settings of the allocator before anything is started."""
    try:
        parse(text or "")
    except SettingsError as error:
        raise UsageError(f"--alloc-conf: {error}") from error


def show(project: Path, output: Output, ids: tuple[str, ...] = (), phase: str | None = None) -> None:
    """Print predictions that are saved; none named: the latest."""
    found = steps.source(project)
    latest = max(found.measured.prediction, default=None)
    chosen = ids or ((latest,) if latest else ())
    if chosen and phase is not None:
        one = found.measured.prediction[chosen[0]]
        phase = one.worst_phase if phase == WORST else phase
        if phase not in one.phases:
            raise UsageError(
                f"phase {phase} was not predicted", hint=f"predicted phases: {', '.join(one.phases)}"
            )

    def lines(width: int) -> list[str]:
        name, held = shlex.quote(str(project)), _timeline(found.measured, chosen)
        return predict_lines(
            found.spec, found.measured, chosen, project=name, width=width, phase=phase, held=held
        )

    shown = chosen[-1] if chosen else None
    output.answer(
        stale.said(project, "prediction", shown, found, lines, output),
        lambda: predict_document(found, chosen),
    )


def _timeline(measured: Measured, ids: tuple[str, ...]) -> Timeline | None:
    """The timeline of the one prediction that is shown; None: there is none of it any more."""
    name = measured.prediction[ids[0]].timeline if len(ids) == 1 else ""
    if not name:
        return None
    try:
        return timeline.read(timeline.path_of(name))
    except RunError:
        return None
