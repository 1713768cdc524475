"""A screen without anything measured: what it is for, and the key that fills it."""

from __future__ import annotations

from tui.app.lines import line, wrap
from tui.app.page import BLANK, Page, Row, Scene, Section, answer
from tui.app.views.predicting import offer

_FOR = {
    "verify": (
        "not verified: r runs one small step and reloads a checkpoint",
        "Verify records versions and device, does a tiny forward, backward and optimizer step, and reloads "
        "a checkpoint in a fresh process. Steps 3 to 6 rely on it. Press r to run it.",
    ),
    "ledger": (
        "not measured: r runs a probe of the batch in the project",
        "The ledger gives every byte of one device a row: declared, predicted, measured, difference; "
        "then the budget, the reserve and the verdict. Press r to measure.",
    ),
    "probe": (
        "not probed: r runs full iterations",
        "A probe runs complete training iterations in a process of its own, once for the times and "
        "once for the memory, and saves both. Press r to run one.",
    ),
    "precision": (
        "not compared: r trains every setting from the same start",
        "Precision runs the settings side by side: loss, gradients, validation quality, memory and "
        "samples/s, with the noise of the reference's own seeds. Press r to run it.",
    ),
    "report": (
        "nothing accepted: r writes the report of what is proven",
        "The report states the operating configuration that was validated, a smaller fallback, the "
        "evidence for each figure and how to recover. It needs steps 2 and 4. Press r to make it.",
    ),
}


def nothing(step: str, width: int, scene: Scene | None = None) -> Page:
    """The page of a step for which the project has nothing; with ``scene`` a prediction is offered."""
    said, why = _FOR[step]
    said = f"{said}; {offer(scene)}" if scene is not None else said
    rows = [BLANK, *(Row(line(" " + one)) for one in wrap(why, min(width, 100) - 2))]
    return Page(
        answer(width, "○", "EMPTY", said),
        (Section("", tuple(rows)),),
        line((" nothing of this step is in the project yet", "dim")),
        (("r", "run"), ("e", "edit file")),
    )
