"""Row 3 of the Ledger: the verdict on what is shown, and the figure that decides it."""

from __future__ import annotations

from rich.text import Text

from tui import units
from tui.app.page import Scene, answer
from tui.app.views import predicting
from tui.app.views.figures import when
from tui.budget.ledger import Ledger
from tui.budget.prediction import is_same_spec

_BADGES = {
    "FITS": ("●", "FITS"),
    "FITS ONLY WITHOUT THE RESERVE": ("!", "RESERVE"),
    "DOES NOT FIT": ("×", "NO FIT"),
    "UNKNOWN": ("?", "UNKNOWN"),
}


def ledger_answer(scene: Scene, made: Ledger, width: int, chosen: str = "") -> Text:
    """Whether it fits: measured, else by prediction; or why neither says.

    Args:
        scene: with what is stale.
        made: the ledger that is shown.
        width: of the terminal.
        chosen: id of the scenario that was picked; "": the one of the project's batch.
    """
    verdict = made.verdict
    right = when(made.probe.at) if made.probe and width > 100 else ""
    if made.probe is None:
        found = made.prediction
        if not chosen and (failed := predicting.refused(scene, width)) is not None:
            return failed
        if found is not None and (why := _stale(scene, found.spec, chosen)):
            return answer(width, "~", "STALE", f"{why}: p predicts again", good=False)
        if found is not None:
            return predicting.by_prediction(found, scene.project.spec, width)
        said = f"not measured: declared rows only. r measures; {predicting.offer(scene)}"
        return answer(width, "○", "EMPTY", said)
    if why := _stale(scene, made.probe.spec, chosen):
        return answer(width, "~", "STALE", f"{why}: r measures again", right=right, good=False)
    mark, word = _BADGES[verdict.word]
    good = verdict.word == "FITS"
    if verdict.why and verdict.spare_bytes is None:
        return answer(width, mark, word, verdict.why, right=right, good=good)
    spare, process = verdict.spare_bytes or 0, units.gib(verdict.process_bytes)
    budget_gib, reserve = units.gib(verdict.budget_bytes), units.gib(verdict.reserve_bytes)
    if verdict.word == "FITS":
        limit = units.gib((verdict.budget_bytes or 0) - verdict.reserve_bytes)
        less = f" ({_short(budget_gib)} less reserve {_short(reserve)})" if verdict.reserve_bytes else ""
        short = f": process {process} of {limit} GiB"
        room = width - len(f"  {mark} {word}  {units.gib(spare)} GiB to spare") - 1
        said = (
            (f"{units.gib(spare)} GiB to spare", "strong"),
            short + (less if len(short + less) <= room else ""),
        )
        return answer(width, mark, word, *said, right=right)
    if verdict.word == "DOES NOT FIT":
        over = units.gib(-spare - verdict.reserve_bytes)
        said = (f"{over} GiB short", "strong"), f": process {process} of {budget_gib} GiB"
        return answer(width, mark, word, *said, right=right, good=False)
    text = f"fits only by using {units.gib(-spare)} GiB of the reserve of {reserve} GiB"
    return answer(width, mark, word, (text, "strong"), right=right, good=False)


def _stale(scene: Scene, spec: str, chosen: str) -> str:
    """Why the figures are those of something else; "": they are not."""
    if not chosen:
        return scene.stale.get("ledger", "")
    return "" if not scene.spec or is_same_spec(spec, scene.spec) else "it is of the spec as it was before"


def _short(shown: str) -> str:
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
