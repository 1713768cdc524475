"""Commands that run steps of a project in this process and print what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tui.commands.output import Output
from tui.commands.progress import ProgressLines
from tui.engine.context import Options
from tui.errors import PeakmarkError
from tui.probe.protocol import RunEnded, StepEnded
from tui.project.fingerprint import spec_hash
from tui.project.load import load
from tui.report.envelope import Source

ALL_STEPS = ("params", "verify", "probe", "precision", "restore", "report")
SHOWN_BY_RUN = ("params", "verify", "probe", "precision", "restore")


class Ended:
    """What a run said at its end, gathered from its events."""

    def __init__(self, show: Callable[[Any], None]) -> None:
        self.steps: list[StepEnded] = []
        self.text = ""
        self._show = show

    def __call__(self, event: Any) -> None:
        if isinstance(event, StepEnded):
            self.steps.append(event)
        elif isinstance(event, RunEnded):
            self.text = event.text
        self._show(event)


def do(
    project: Path, steps: Sequence[str], options: Options, output: Output, run_id: str = ""
) -> tuple[int, Ended]:
    """Run ``steps``; the exit code and what was said.

    Raises:
        PeakmarkError: nothing was begun.
    """
    from tui.engine import runner

    ended = Ended(ProgressLines(output))
    code = asyncio.run(runner.run(project, steps, options, ended, run_id=run_id))
    return code, ended


def one(project: Path, step: str, options: Options, output: Output) -> int:
    """Run one step and print its result."""
    code, ended = do(project, (step,), options, output)
    last = ended.steps[-1] if ended.steps else None
    if last is None or (code >= 2 and not last.result) or (code and not _has_result(project, step, last)):
        raise fault(code, (last.text if last else "") or ended.text)
    ids = [event.result for event in ended.steps if event.result]
    show(project, step, output, saved_ids(project, step, ids, options))
    return code


def saved_ids(project: Path, step: str, ids: Sequence[str], options: Options) -> tuple[str, ...]:
    """Ids of what this run saved: every batch of a sweep, in order, else the one result."""
    if step != "probe" or not options.batches or len(options.batches) * len(options.lengths or (1,)) < 2:
        return tuple(ids)
    count = len(options.batches) * len(options.lengths or (1,))
    return tuple(sorted(load(project).measured.probe)[-count:])


def _has_result(project: Path, step: str, last: StepEnded) -> bool:
    return bool(last.result) or (step == "params" and load(project).measured.inventory is not None)


def fault(code: int, text: str) -> PeakmarkError:
    error = PeakmarkError(text or "it ended without a result")
    error.code = code or 4
    return error


def source(project: Path) -> Source:
    """What documents are made from: the project as it is in the file now."""
    loaded = load(project)
    return Source(loaded.spec, loaded.measured, project.name, spec_hash(loaded))


def show(project: Path, step: str, output: Output, ids: Sequence[str] = ()) -> None:
    """Print the saved result of ``step``: the one named, or the latest."""
    from tui.report import documents, documents_measured, text

    found = source(project)
    spec, measured = found.spec, found.measured
    name, one_id = project.name, (ids[-1] if ids else None)
    lines: dict[str, Callable[[int], Sequence[str]]] = {
        "params": lambda width: text.params_lines(spec, measured, project=name, width=width),
        "verify": lambda width: text.verify_lines(spec, measured, one_id, project=name, width=width),
        "probe": lambda width: text.probe_lines(spec, measured, ids, project=name, width=width),
        "precision": lambda width: text.precision_lines(spec, measured, one_id, project=name, width=width),
        "restore": lambda width: text.restore_lines(spec, measured, one_id, project=name, width=width),
    }
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "params": lambda: documents.params_document(found),
        "verify": lambda: documents.verify_document(found, one_id),
        "probe": lambda: _probe_document(found, ids),
        "precision": lambda: documents_measured.precision_document(found, one_id),
        "restore": lambda: documents.restore_document(found, one_id),
    }
    output.answer(lines[step], made[step])


def _probe_document(found: Source, ids: Sequence[str]) -> dict[str, Any]:
    from tui.commands.iterations import with_iterations
    from tui.report.documents_measured import probe_document

    return with_iterations(probe_document(found, ids), found)


def ledger(project: Path, phase: str | None, output: Output, probe_id: str | None = None) -> int:
    """Print the ledger of the latest probe; 1 when it does not fit."""
    from tui.budget import ledger as ledgers
    from tui.errors import UsageError
    from tui.report import documents_measured, text

    found = source(project)
    if probe_id is not None and probe_id not in found.measured.probe:
        raise UsageError(
            f"{project.name} has no measurement {probe_id}", hint=f"see [measured.probe] in {project}"
        )
    shown = probe_id or ledgers.latest_probe(found.measured)
    phases = found.measured.probe[shown].phases if shown else {}
    if phase is not None and phase not in phases:
        known = ", ".join(phases) or "none: peakmark probe measures them"
        raise UsageError(f"phase {phase} was not measured", hint=f"measured phases: {known}")
    output.answer(
        lambda width: text.ledger_lines(
            found.spec, found.measured, probe_id, phase, project=project.name, width=width
        ),
        lambda: documents_measured.ledger_document(found, probe_id, phase),
    )
    verdict = ledgers.ledger(found.spec, found.measured, probe_id, phase).verdict
    return 1 if verdict.word in ("DOES NOT FIT", "FITS ONLY WITHOUT THE RESERVE") else 0


def run(project: Path, steps: Sequence[str], options: Options, output: Output, run_id: str = "") -> int:
    """Run several steps and print the results of those that have one, then the report's path."""
    code, ended = do(project, steps, options, output, run_id)
    failed = next((event for event in ended.steps if event.code >= 2 and not event.result), None)
    if output.json:
        from tui.report.documents import report_document

        output.answer(lambda width: [], lambda: report_document(source(project)))
    else:
        for event in ended.steps:
            if event.step in SHOWN_BY_RUN and event.code < 2:
                show(project, event.step, output, [event.result] if event.result else [])
                output.lines([""])
        for event in ended.steps:
            if event.step == "report" and event.text:
                output.lines([event.text])
    if failed is not None:
        raise fault(code, failed.text)
    return code
