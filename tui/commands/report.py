"""``peakmark report``: the Markdown page from what the project holds, to a file or to stdout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tui.commands import steps
from tui.commands.output import Output
from tui.commands.unverified import warning
from tui.engine.context import Options
from tui.errors import UsageError
from tui.project.load import load


def report(project: Path, target: Path | None, output: Output) -> int:
    """Accept what is proven and write the report; 0 whatever it says."""
    if str(target) == "-":
        if output.json or output.plain:
            raise UsageError("-o - and --json or --plain all ask for stdout", hint="name a file after -o")
        from tui.report.markdown import markdown

        steps.take_in(project, output)
        if said := warning(project):
            output.talk(said)
        output.lines(markdown(load(project)).splitlines())
        return 0
    code, ended = steps.do(project, ("report",), Options(output=target), replace(output, quiet=True))
    last = ended.steps[-1]
    if code:
        raise steps.fault(code, last.text)
    if said := warning(project):
        output.talk(said)
    if output.json or output.plain:
        from tui.report.documents import report_document

        output.answer(lambda width: [], lambda: report_document(steps.source(project)))
    else:
        output.lines([last.text])
    return code
