"""``peakmark what-if``: what a change of the spec would do to the ledger, before anything is measured."""

from __future__ import annotations

import argparse
import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path

from tui.budget import what_if
from tui.budget.what_if import Change
from tui.budget.what_if_rows import WhatIf
from tui.commands import steps
from tui.commands.output import Output
from tui.commands.progress import ProgressLines
from tui.engine.context import Options
from tui.engine.steps.what_if import accept, scenarios
from tui.errors import RunError, UsageError, VerdictError
from tui.project.load import load
from tui.project.model import Spec
from tui.report.documents_what_if import what_if_document
from tui.report.text_what_if import accepted_lines, what_if_lines


def what(given: argparse.Namespace, options: Options, output: Output) -> int:
    """Print what the changes would do, write the last scenario where it is accepted.

    Returns:
        1 when the last scenario does not fit, 4 when it cannot be predicted, which is said after its declared rows.

    Raises:
        PeakmarkError: a change that the spec cannot take, or a project that cannot be read or written.
    """
    path: Path = given.project
    steps.take_in(path, output)
    project = load(path)
    asked = scenarios_of(given, project.spec)
    source = steps.source(path)
    made = asyncio.run(scenarios(path, asked, options, ProgressLines(output)))
    last = made.comparisons[-1]
    if given.accept:
        accept(path, last.changes, made.now.project)

    def lines(width: int) -> list[str]:
        found = what_if_lines(made, shlex.quote(str(path)), width, accepted=given.accept)
        return [*found, *accepted_lines(last, str(path), width)] if given.accept else found

    output.answer(lines, lambda: what_if_document(source, made, given.accept))
    return _code(made, output)


def _code(made: WhatIf, output: Output) -> int:
    last = made.comparisons[-1].then
    if last.prediction is None:
        output.whisper(f"peakmark: {last.refused or 'not predicted'}\n")
        return RunError.code
    return 0 if last.verdict.word == "FITS" else VerdictError.code


def scenarios_of(given: argparse.Namespace, spec: Spec) -> list[list[Change]]:
    """The changes of each scenario from the present spec; what follows ``--then`` is added to those before it.

    Raises:
        UsageError: no change is named, or more scenarios than can be accepted at once.
    """
    first = what_if.merged([], _changes(given.changes, spec))
    if given.each is not None:
        if given.then:
            raise UsageError(
                "--each and --then are two ways to name scenarios", hint="leave one of the two out"
            )
        if given.accept:
            raise UsageError(
                "--each names several scenarios, --accept takes one", hint="name the one, such as batch=8"
            )
        return [what_if.merged(first, [one]) for one in what_if.several(given.each, spec)]
    found = [first] if first else []
    for words in given.then:
        found.append(what_if.merged(found[-1] if found else [], _changes(words, spec)))
    if not found:
        raise UsageError(
            "what-if needs a change",
            hint=f"peakmark what-if {given.project} batch=16; see: peakmark what-if --help",
        )
    return found


def _changes(words: Sequence[str], spec: Spec) -> list[Change]:
    return [what_if.parse(word, spec) for word in words]
