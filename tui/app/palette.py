"""Everything that a key does, and what has none, for the command palette."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.app import SystemCommand

from tui.app.help import QUESTIONS
from tui.app.page import STEPS

if TYPE_CHECKING:
    from tui.app.app import PeakmarkApp


def commands(app: PeakmarkApp, screen: object) -> Iterable[SystemCommand]:
    """The commands that can act now, on ``screen``."""
    for number, step in enumerate(STEPS, 1) if app.project is not None else ():
        yield SystemCommand(
            f"{number} {step.capitalize()}", QUESTIONS[step], lambda step=step: app.action_step(step)
        )
    if app.project is not None:
        yield SystemCommand("Run this step", "r", app.action_run)
        yield SystemCommand(
            "Predict", "p: what the batch will take, on tensors without values", app.predict_here
        )
        if hasattr(screen, "action_scenario"):
            yield SystemCommand(
                "Whose ledger",
                "v: of which measurement or prediction",
                lambda: _on_step(app, "action_scenario"),
            )
            yield SystemCommand(
                "What if", "w: change one thing and compare", lambda: _on_step(app, "action_what_if")
            )
        yield SystemCommand("GPU to predict for", "choose one of the table", app.choose_gpu)
        yield SystemCommand("Search the largest batch", "s on the Probe screen", app.ask_search)
    yield SystemCommand("Open a memory snapshot", "of torch.cuda.memory, by its path", app.ask_snapshot)
    yield SystemCommand("Exact bytes", "b: bytes with every digit, or GiB", app.action_exact)
    if app.project is not None:
        yield SystemCommand("Stop the run", "x", app.action_stop)
        yield SystemCommand("Edit the project file", "e: in your editor", app.action_edit)
        yield SystemCommand("Save the report", "as Markdown beside the project", app.save_report)
    yield SystemCommand("Theme", "change the colours", app.action_change_theme)
    yield SystemCommand("Help", "?: what the figures mean", app.action_help)
    yield SystemCommand("Quit", "q", app.action_leave)


def _on_step(app: PeakmarkApp, action: str) -> None:
    """Do what a key of the open step does."""
    if (act := getattr(app.step_screen, action, None)) is not None:
        act()
