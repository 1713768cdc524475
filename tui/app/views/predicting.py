"""A prediction in row 3 of the screens that show one: while it is made, and when it was refused."""

from __future__ import annotations

from rich.text import Text

from tui import units
from tui.app.lines import line, wrap
from tui.app.page import Row, Scene, answer
from tui.app.predicted import target_of
from tui.budget.prediction import prediction_verdict, process_range, worst_peak
from tui.project.model import Spec
from tui.project.prediction import Prediction

_BADGES = {
    "FITS": ("●", "FITS"),
    "FITS ONLY WITHOUT THE RESERVE": ("!", "RESERVE"),
    "DOES NOT FIT": ("×", "NO FIT"),
}

USUAL_S = 10.0
"""A prediction of a model of a hundred million parameters takes no longer on two cores."""


def going_on(scene: Scene, width: int) -> Text | None:
    """How far the prediction is that is being made; None: none is."""
    live = scene.live
    if live is None or live.step != "predict":
        return None
    child = live.child
    said = child.title.removeprefix("prediction ") or "an iteration on tensors that have no values"
    if child.total and child.what:
        said += f", {child.done:,} of {child.total:,} {child.what}"
    elif child.phase:
        said += f", {child.phase}"
    clock = "" if live.elapsed_s is None else units.duration(live.elapsed_s)
    return answer(width, "»", "PREDICTING", said, right=clock)


def refused(scene: Scene, width: int) -> Text | None:
    """That the spec as it is now cannot be predicted; None: nobody tried, or it can."""
    if not scene.refused:
        return None
    before, word, rest = scene.refused.partition("cannot predict: ")  # where it was found is said below
    return answer(width, "×", "FAILED", f"{word}{rest}" if word else before, good=False)


def whole(scene: Scene, width: int) -> tuple[Row, ...]:
    """The sentence of a refusal to its end, unless a message says it: row 3 may have no room for it."""
    said = "" if scene.message == scene.refused else scene.refused
    return tuple(Row(line(" " + part)) for part in wrap(said, width - 2)) if said else ()


def offer(scene: Scene) -> str:
    """``p predicts in about 10 s``: the time is that of the last prediction, where there is one."""
    found = scene.project.measured.prediction
    last = found[max(found)].seconds if found else None
    seconds = last or USUAL_S
    takes = f"{max(1, round(seconds))} s" if seconds < 100 else f"{round(seconds / 60)} minutes"
    said = f"p predicts in about {takes}"
    return f"{said}, for {scene.gpu}" if scene.gpu else said


def by_prediction(one: Prediction, spec: Spec, width: int) -> Text:
    """Row 3 where nothing was measured: whether it fits, and how far the process's range is from the limit."""
    found = prediction_verdict(spec, one)
    mark, word = _BADGES.get(found.word, ("?", "UNKNOWN"))
    badge, good = f"{word}, by prediction", word == "FITS"
    process, limit = process_range(one), found.budget_bytes
    if one.exhausted and word == "NO FIT":
        return answer(width, mark, badge, one.exhausted, good=False)
    if limit is None and not one.target and one.semantics == "cuda":
        return answer(width, mark, badge, "no budget is set, no GPU named: 3 d Enter names one", good=False)
    if one.semantics == "cpu":
        return answer(width, mark, badge, "Python and the kept heap cannot be predicted", good=False)
    if word == "UNKNOWN" or limit is None:
        return answer(width, mark, badge, found.why, good=False)
    if found.retries and found.process_bytes is not None:  # with the cache emptied on the way
        process = found.process_bytes, found.process_bytes
    if process is None:  # too much already without what the process holds beside the allocator
        least = found.process_bytes or 0
        process = least, least
    room = limit - spec.budget.reserve
    against = room
    if word == "NO FIT" and found.why:
        return answer(width, mark, badge, found.why, good=False)
    if word == "NO FIT":
        said, against = f"{between(found.process_bytes or 0, process[1])} GiB needed", limit
    elif word == "RESERVE":
        said = f"uses {between(max(0, process[0] - room), process[1] - room)} GiB of the reserve"
    else:
        said = f"{between(room - process[1], room - process[0])} GiB to spare"
    tail = f", cache emptied {found.retries} x" if found.retries else ""
    left = width - len(f"  {mark} {badge}  {said}{tail}") - 1
    forms = (f": process {between(*process)} of {units.gib(against)} GiB", f" of {units.gib(against)}", "")
    if word == "NO FIT":
        forms = (f", the limit is {units.gib(against)} GiB", f" of {units.gib(against)}", "")
    rest = next(form for form in forms if len(form) <= left or not form)
    return answer(width, mark, badge, (said, "strong"), rest + tail, good=good)


def between(low: int, high: int) -> str:
    """``14.693 to 14.820``, or one figure."""
    first, last = units.gib(low), units.gib(high)
    return first if first == last else f"{first} to {last}"


def told(one: Prediction) -> str:
    """The prediction in a sentence: what for, its peak, and when."""
    length = f" x {one.length:,}" if one.length else ""
    peak = worst_peak(one)
    said = f"predicted for {target_of(one)}: {one.micro_batch}{length}, accumulate {one.accumulate}"
    if peak is not None:
        said += f", {units.size(peak.requested_bytes)} requested in {one.worst_phase}"
    return f"{said}, {units.when(one.at)} UTC"
