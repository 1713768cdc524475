"""Commands that run steps of a project in this process and print what came of them."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tui.commands import stale
from tui.commands.output import Output
from tui.commands.progress import ProgressLines, has_result
from tui.commands.unverified import RELYING, warning
from tui.engine.context import Options
from tui.errors import PeakmarkError, SaveError, UsageError
from tui.probe.protocol import RunEnded, StepEnded, StepStarted
from tui.project import pending
from tui.project.fingerprint import spec_hash
from tui.project.load import load
from tui.report.envelope import Source

SHOWN_BY_RUN = ("params", "verify", "predict", "probe", "precision", "restore")


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

    def failed(self, code: int) -> PeakmarkError | None:
        """The error of the first step that could not do its work, None when every step left a result."""
        last = next((one for one in self.steps if one.code and not has_result(one)), None)
        if last is None:
            return None if self.steps else fault(code, self.text)
        return fault(code, last.text or self.text)


class Warned:
    """Says once, before the first step that relies on Verify, that it failed or was never run."""

    def __init__(self, project: Path, output: Output, show: Callable[[Any], None]) -> None:
        self._project = project
        self._output = output
        self._show = show
        self._said = False

    def __call__(self, event: Any) -> None:
        if isinstance(event, StepStarted) and event.step in RELYING and not self._said:
            self._said = True
            if text := warning(self._project):
                self._output.talk(text)
        self._show(event)


def do(
    project: Path, steps: Sequence[str], options: Options, output: Output, run_id: str = ""
) -> tuple[int, Ended]:
    """Run ``steps``; the exit code and what was said.

    Raises:
        PeakmarkError: nothing was begun.
    """
    from tui.engine import runner

    if not steps:
        raise UsageError("no step is named", hint=f"steps are {', '.join(runner.STEPS)}")
    take_in(project, output)
    ended = Ended(Warned(project, output, ProgressLines(output)))
    code = asyncio.run(runner.run(project, steps, options, ended, run_id=run_id))
    return code, ended


def take_in(project: Path, output: Output) -> None:
    """Save what an earlier command measured and could not save; what cannot be saved now waits on."""
    try:
        taken = pending.take_in(project) if os.path.isfile(project) else ()
    except SaveError:
        return
    for id in taken:
        output.talk(f"{id}, which could not be saved when it was measured, is in {project} now")


def one(project: Path, step: str, options: Options, output: Output) -> int:
    """Run one step and print its result."""
    before = probes(project)
    code, ended = do(project, (step,), options, output)
    if (error := ended.failed(code)) is not None:
        raise error
    show(project, step, output, ids_of(project, ended.steps[-1], before))
    return code


def probes(project: Path) -> frozenset[str]:
    """Ids of the probes, searches and predictions that the project has now."""
    measured = load(project).measured
    return frozenset(measured.probe) | frozenset(measured.search) | frozenset(measured.prediction)


def ids_of(project: Path, event: StepEnded, before: frozenset[str]) -> tuple[str, ...]:
    """Ids of what a step saved: every batch of a sweep in order, every search or prediction, else the one result."""
    new = probes(project) - before
    if event.step == "predict":
        return tuple(sorted(one for one in new if is_prediction(one)))
    if event.step == "probe":
        saved = {one for one in new if not is_prediction(one)}
        if searched := is_search(event.result):
            saved.add(event.result)  # one that goes on was there before
        return tuple(sorted(one for one in saved if is_search(one) == searched))
    return (event.result,) if event.result else ()


def is_search(id: str) -> bool:
    """Whether ``id`` is that of a search."""
    return id.startswith("s-")


def is_prediction(id: str) -> bool:
    """Whether ``id`` is that of a prediction."""
    return id.startswith("f-")


def fault(code: int, text: str) -> PeakmarkError:
    """An error with the exit code of a run."""
    error = PeakmarkError(text or "it ended without a result")
    error.code = code or 4
    return error


def source(project: Path) -> Source:
    """What documents are made from: the project as it is in the file now."""
    loaded = load(project)
    return Source(loaded.spec, loaded.measured, project.name, spec_hash(loaded))


def show(project: Path, step: str, output: Output, ids: Sequence[str] = ()) -> None:
    """Print the saved result of ``step``: the one named, or the latest."""
    if step == "params":
        from tui.commands.params import show as show_params

        return show_params(project, output)
    if step == "predict":
        from tui.commands.predict import show as show_predictions

        return show_predictions(project, output, tuple(ids))
    if ids and is_search(ids[-1]):
        return _show_searches(project, output, ids)
    from tui.report import documents, documents_measured, text

    found = source(project)
    spec, measured = found.spec, found.measured
    name, one_id = shlex.quote(str(project)), (ids[-1] if ids else None)
    lines: dict[str, Callable[[int], Sequence[str]]] = {
        "verify": lambda width: text.verify_lines(spec, measured, one_id, project=name, width=width),
        "probe": lambda width: text.probe_lines(spec, measured, ids, project=name, width=width),
        "precision": lambda width: text.precision_lines(spec, measured, one_id, project=name, width=width),
        "restore": lambda width: text.restore_lines(spec, measured, one_id, project=name, width=width),
    }
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "verify": lambda: documents.verify_document(found, one_id),
        "probe": lambda: _probe_document(found, ids),
        "precision": lambda: documents_measured.precision_document(found, one_id),
        "restore": lambda: documents.restore_document(found, one_id),
    }
    shown = one_id or max(getattr(measured, step), default=None)
    output.answer(stale.said(project, step, shown, found, lines[step], output), made[step])


def _show_searches(project: Path, output: Output, ids: Sequence[str]) -> None:
    from tui.report.documents_search import search_document
    from tui.report.text_search import search_lines

    found, name = source(project), shlex.quote(str(project))

    def lines(width: int) -> list[str]:
        parts = [search_lines(found.spec, found.measured, id, project=name, width=width) for id in ids]
        return [line for part in parts for line in (*part, "")][:-1]

    def document() -> dict[str, Any]:
        made = [search_document(found, id) for id in ids]
        return made[-1] if len(made) == 1 else {**made[-1], "searches": made}

    output.answer(lines, document)


def _probe_document(found: Source, ids: Sequence[str]) -> dict[str, Any]:
    from tui.commands.iterations import with_iterations
    from tui.report.documents_measured import probe_document

    return with_iterations(probe_document(found, ids), found)


def run(project: Path, steps: Sequence[str], options: Options, output: Output, run_id: str = "") -> int:
    """Run several steps and print the results of those that have one, then the report's path."""
    before = probes(project)
    code, ended = do(project, steps, options, output, run_id)
    error = ended.failed(code)
    if not output.json:
        for event in ended.steps:
            if event.step in SHOWN_BY_RUN and has_result(event):
                show(project, event.step, output, ids_of(project, event, before))
                output.lines([""])
            elif event.step == "report" and event.text and not event.code:
                output.lines([event.text])
    elif error is None:
        from tui.report.documents import report_document

        output.answer(lambda width: [], lambda: report_document(source(project)))
    if error is not None:
        raise error
    return code
