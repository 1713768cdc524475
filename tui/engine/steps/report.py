"""Step 6: accept what the measurements prove, and write the Markdown report."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tui.engine.context import Context, StepResult
from tui.engine.steps import common
from tui.project import atomic, save
from tui.project.fingerprint import spec_hash
from tui.project.measured import Measured, Operating
from tui.report.markdown import markdown
from tui.report.operating import operating


async def run(context: Context) -> StepResult:
    """Save ``measured.operating`` when something is proven and new; write the file that was asked for."""
    project = context.load()
    fingerprint = spec_hash(project)
    accepted = ""

    def put(measured: Measured) -> Measured:
        nonlocal accepted
        found = operating(project.spec, measured, fingerprint, common.now())
        if found is None:
            return measured
        same = next((id for id, one in measured.operating.items() if _equal(one, found)), None)
        accepted = same or f"o-{len(measured.operating) + 1}"
        if same is not None:
            return measured
        return dataclasses.replace(measured, operating={**measured.operating, accepted: found})

    project = save.record(context.project_path, put)
    path = context.options.output or context.project_path.with_suffix(".md")
    atomic.write(path, markdown(project).encode())
    return StepResult("done", 0, _text(accepted, path), accepted)


def _equal(one: Operating, other: Operating) -> bool:
    return dataclasses.replace(one, accepted_at=other.accepted_at) == other


def _text(accepted: str, path: Path) -> str:
    proven = f"configuration {accepted} is validated" if accepted else "no configuration is proven yet"
    return f"report: {path} ({proven})"
