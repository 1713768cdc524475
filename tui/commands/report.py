"""``peakmark report``: the Markdown page from what the project holds, to a file or to stdout."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tui.commands import steps
from tui.commands.output import Output
from tui.engine.context import Options
from tui.project.load import load


def report(project: Path, target: Path | None, output: Output) -> int:
    """Accept what is proven and write the report; 0 whatever it says."""
    if str(target) == "-":
        from tui.report.markdown import markdown

        output.lines(markdown(load(project)).splitlines())
        return 0
    from tui.engine import runner

    ended = steps.Ended(lambda event: None)
    code = asyncio.run(runner.run(project, ("report",), Options(output=target), ended))
    last = ended.steps[-1]
    if code:
        raise steps.fault(code, last.text)
    if output.json or output.plain:
        from tui.report.documents import report_document

        output.answer(lambda width: [], lambda: report_document(steps.source(project)))
    else:
        output.lines([last.text])
    return code
