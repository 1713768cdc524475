"""4 Probe: what does a full iteration really take, and how large may the batch be?"""

from __future__ import annotations

from dataclasses import replace

from rich.text import Text

from tui import units
from tui.app.choose import latest, probe_of
from tui.app.course import Course
from tui.app.lines import line, wrap
from tui.app.page import BLANK, Cursor, Page, Row, Scene, Section, answer, panes
from tui.app.predicted import prediction_for
from tui.app.probe_state import ProbeState
from tui.app.views import (
    predicting,
    probe_alive,
    probe_batches,
    probe_conditions,
    probe_live,
    probe_memory,
    probe_output,
    probe_predicted,
    probe_run,
    probe_timeline,
)
from tui.app.views.empty import nothing
from tui.app.views.figures import interval, plural, scale_of
from tui.budget.ledger import probe_verdict
from tui.project.measured import Probe
from tui.project.model import Spec

PANES = ("run", "timeline", "live at peak", "batches")
RUN, TIMELINE, ALIVE, BATCHES = range(4)
_NOT_ASKED = ProbeState(course="no timeline was read")


def shown_probe(scene: Scene, cursor: Cursor) -> tuple[str, Probe] | None:
    """The probe that the panes are about: the one that was opened, else the one of the spec's batch."""
    probes = scene.project.measured.probe
    if cursor.chosen in probes:
        return cursor.chosen, probes[cursor.chosen]
    return probe_of(scene.project.spec, scene.project.measured)


def page(scene: Scene, width: int, height: int, cursor: Cursor) -> Page:
    """One of the four panes, or the log; the run pane follows a run that is going on."""
    state: ProbeState = scene.probe or _NOT_ASKED
    running = scene.live is not None and scene.live.step == "probe"
    if state.reading_output:
        return probe_output.page(state.output, running, width, height, cursor)
    found = shown_probe(scene, cursor)
    if not running and found is None:
        return _unmeasured(scene, state, width, height, cursor)
    if running and (cursor.pane == RUN or found is None):
        return probe_live.page(scene, state, width, panes(PANES, RUN, width))
    assert found is not None
    if (making := predicting.going_on(scene, width)) is not None and cursor.pane == RUN:
        return replace(_measured(scene, state, found, width, height, cursor), answer=making)
    made = _measured(scene, state, found, width, height, cursor)
    keys = (("x", "stop"), *(one for one in made.keys if one[0] not in "rs")) if running else made.keys
    return replace(made, keys=keys)


def _unmeasured(scene: Scene, state: ProbeState, width: int, height: int, cursor: Cursor) -> Page:
    """Without a measurement: what is predicted in the panes that can show it, else the next step."""
    found = prediction_for(scene.project.spec, scene.project.measured, None)
    said = predicting.going_on(scene, width) or predicting.refused(scene, width)
    head = panes(PANES, cursor.pane, width)
    if found is not None and cursor.pane in (TIMELINE, ALIVE) and state.alone:
        made = _of_timeline(state, head, scene.exact, width, height, cursor)
        if made is not None:
            return replace(made, answer=said) if said is not None else made
    made = nothing("probe", width, scene)
    top = (head,) if found is not None else ()
    more = (*top, *predicting.whole(scene, width))
    if found is not None:
        told = _told_of(state, cursor) or "Tab shows its timeline and what is alive at its peak"
        more += (BLANK, *said_whole(predicting.told(found[1]), width), *said_whole(told, width))
        if "ledger" in scene.stale:
            why = f"{scene.stale['ledger']}: p predicts again"
            said = said or answer(width, "~", "STALE", why, good=False)
        said = said or predicting.by_prediction(found[1], scene.project.spec, width)
        if cursor.pane == BATCHES:
            return replace(made, answer=said, sections=(Section("", (head,)), *_predicted(scene, width)))
    keys = (("r", "run"), ("p", "predict"), ("Tab", "pane"), ("e", "edit file"))
    return replace(made, answer=said or made.answer, sections=(Section("", more), *made.sections), keys=keys)


def _predicted(scene: Scene, width: int) -> tuple[Section, ...]:
    """What was predicted of any batch."""
    return probe_predicted.section(scene.project.spec, scene.project.measured, scene.exact, width)


def said_whole(sentence: str, width: int) -> tuple[Row, ...]:
    """A sentence in as many rows as it needs."""
    return tuple(Row(line(" " + part)) for part in wrap(f"{sentence}.", min(width, 100) - 2))


def _told_of(state: ProbeState, cursor: Cursor) -> str:
    """Why a pane of the timeline shows none."""
    if cursor.pane not in (TIMELINE, ALIVE):
        return ""
    return state.course if isinstance(state.course, str) else "reading the predicted timeline"


def _measured(
    scene: Scene, state: ProbeState, found: tuple[str, Probe], width: int, height: int, cursor: Cursor
) -> Page:
    """The open pane of what was measured."""
    head = panes(PANES, cursor.pane, width)
    made = _of_timeline(state, head, scene.exact, width, height, cursor)
    if made is None:
        made = _of_project(scene, state, found, head, width, height, cursor)
    return made


def _of_timeline(
    state: ProbeState, head: Row, exact: bool, width: int, height: int, cursor: Cursor
) -> Page | None:
    """A pane that is made from the timeline's file; None: not such a pane, or nothing was read."""
    if cursor.pane == TIMELINE and isinstance(state.course, Course) and not state.phases:
        return probe_timeline.page(state, head, exact, width, height)
    if cursor.pane == ALIVE and state.alive is not None and isinstance(state.course, Course):
        return probe_alive.page(state, head, exact, width, height, cursor)
    return None


def _of_project(
    scene: Scene,
    state: ProbeState,
    found: tuple[str, Probe],
    head: Row,
    width: int,
    height: int,
    cursor: Cursor,
) -> Page:
    """A pane that is made from the project alone."""
    key, probe = found
    scale = scale_of(scene.exact, _largest(probe))
    keys: tuple[tuple[str, str], ...] = (("r", "run"), ("s", "search"), ("Tab", "pane"), ("b", "bytes"))
    if cursor.pane == BATCHES:
        body = probe_batches.sections(scene, width, height - 6, table=state.table)
        body = (*body, *_predicted(scene, width))
        keys = (("s", "search"), ("r", "run"), ("Enter", "open it"), ("v", "table"), ("b", "bytes"))
    elif cursor.pane == ALIVE:
        body = _without(state, probe_memory.alive(probe, width, scale), width)
    elif cursor.pane == TIMELINE:
        body = _without(state, probe_memory.phases(probe, width, scale), width)
        keys = (("v", "chart"), *keys) if isinstance(state.course, Course) else keys
    elif probe.outcome == "out-of-memory":
        body = probe_memory.out_of_memory(probe, width, scale)
        keys = (*keys[:2], ("o", "output"), *keys[2:])
    else:
        body = (*_failure(probe, width), *probe_run.sections(probe, width, scale, meanings=state.meanings))
        body = (*body, *probe_conditions.sections(probe, width))
        if height > 30 and probe.phases:
            phases = probe_memory.phases(probe, width, scale)[0].rows
            body = (*body, Section("phases, each at its own peak", phases))
        keys = (*keys[:2], ("o", "output"), ("d", "meanings"), *keys[2:])
    told = line((f" {_cancelled(scene, cursor, key)}{described(key, probe)}", "dim"))
    shown = _answer(scene, probe, width)
    if cursor.pane == BATCHES:
        told, shown = probe_batches.told(scene), probe_batches.searched(scene, width) or shown
    return Page(shown, (Section("", (head,)), *body), told, keys)


def _without(state: ProbeState, body: tuple[Section, ...], width: int) -> tuple[Section, ...]:
    """``body`` with what is to be said of the timeline that is not drawn."""
    if isinstance(state.course, Course):
        return body
    said = "reading the timeline of the traced iteration" if state.course is None else state.course
    return (*body, Section("", (probe_timeline.absent(said, width),)))


def _failure(probe: Probe, width: int) -> tuple[Section, ...]:
    """The whole sentence of a measurement that did not end well: row 3 may have no room for it."""
    if probe.outcome not in ("failed", "cancelled") or not probe.failure:
        return ()
    return (Section("", tuple(Row(line(" " + part)) for part in wrap(probe.failure, width - 2))),)


def _cancelled(scene: Scene, cursor: Cursor, key: str) -> str:
    """That the latest run was cancelled, when another one is shown and nobody chose it."""
    newest = latest(scene.project.measured.probe)
    hidden = newest is not None and newest[0] != key and newest[1].outcome == "cancelled"
    return "latest run cancelled; this is " if hidden and not cursor.chosen else ""


def _largest(probe: Probe) -> int | None:
    peaks = [peak.requested_bytes for peak in probe.phases.values()]
    return max([*peaks, *probe.alive.values()], default=None)


def described(key: str, probe: Probe) -> str:
    """Which measurement, under which conditions."""
    length = f" x {probe.length:,}" if probe.length else ""
    batch = f"{probe.micro_batch}{length}, accumulate {probe.accumulate}"
    return f"{key}  {probe.precision}  {batch}  nice {probe.nice}"


def _answer(scene: Scene, probe: Probe, width: int) -> Text:
    spec: Spec = scene.project.spec
    right = plural(probe.iterations, "iteration") if probe.iterations else ""
    if "probe" in scene.stale:
        return answer(width, "~", "STALE", f"{scene.stale['probe']}: r measures again", good=False)
    if probe.outcome == "out-of-memory":
        where = f", {probe.worst_phase}" if probe.worst_phase else ""
        said = ("micro-batch ", (str(probe.micro_batch), "strong"), where)
        return answer(width, "×", "OUT OF MEMORY", *said, right="a result, saved", good=False)
    if probe.outcome in ("failed", "cancelled", "not-tested"):
        why = probe.failure or "no reason was recorded"
        return answer(width, "×", probe.outcome.replace("-", " ").upper(), why, good=False)
    rate = units.rate(probe.samples_per_s)
    said = [
        (f"{rate} samples/s", "strong"),
        f" ({interval(probe.samples_per_s_low, probe.samples_per_s_high)})",
    ]
    verdict = probe_verdict(spec, probe)
    where = f", worst {verdict.worst_phase}" if verdict.worst_phase else ""
    said.append(f"   process {units.gib(verdict.process_bytes)} GiB{where}")
    if probe.contended:
        return answer(width, "!", "CONTENDED", *said, right=right, good=False)
    return answer(width, "●", "DONE", *said, right=right)
