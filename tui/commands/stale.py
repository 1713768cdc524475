"""Says of a printed result that the spec has changed since it was measured."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from tui.commands.output import Output
from tui.errors import PeakmarkError
from tui.project.fingerprint import is_counted
from tui.project.load import load
from tui.project.prediction import Prediction
from tui.report import stale
from tui.report.envelope import Source
from tui.report.operating import is_current

Lines = Callable[[int], Sequence[str]]

COMMANDS = {"params": "run", "ledger": "probe", "prediction": "predict"}
"""What measures a step's result again, where that is not the step's own name."""


def said(project: Path, step: str, id: str | None, found: Source, lines: Lines, output: Output) -> Lines:
    """``lines``, with a second one and a warning on stderr when the result is of another spec than now."""
    then = _spec_of(step, id, found)
    if then is None or is_current(then, found.fingerprint) or (step == "params" and _counted(project)):
        return lines
    command = f"peakmark {COMMANDS.get(step, step)} {project}"
    command += " --steps params" if step == "params" else ""
    if step == "prediction" and id is not None:
        command += _for_the_same(found.measured.prediction[id])
    done = ("predicted", "predicts") if step == "prediction" else ("measured", "measures")
    if step != "prediction" or output.json or output.plain:  # a prediction's own second line says it once
        output.talk(stale.warning(id or "the inventory", then, found.fingerprint, command, done))
    return lambda width: stale.with_line(
        list(lines(width)), then, found.fingerprint, command, width, done=done[0]
    )


def _for_the_same(one: Prediction) -> str:
    """The options that predict again for the device of ``one``."""
    gpu = f" --gpu {shlex.quote(one.target)}" if one.target_from == "--gpu" else ""
    return gpu + (f" --alloc-conf {shlex.quote(one.allocator)}" if one.allocator else "")


def _counted(project: Path) -> bool:
    """Whether the parameters were counted of this very model, whatever else has changed."""
    try:
        return is_counted(load(project))
    except PeakmarkError:
        return False


def _spec_of(step: str, id: str | None, found: Source) -> str | None:
    """The fingerprint that the shown result was measured of, None when nothing is shown."""
    if step == "params":
        return found.measured.inventory.spec if found.measured.inventory else None
    name = "probe" if step == "ledger" else step
    one = getattr(found.measured, name).get(id)
    return one.spec if one is not None else None
