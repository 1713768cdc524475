"""4 Probe: what does a full iteration really take, and how large may the batch be?"""

from __future__ import annotations

from rich.text import Text

from tui import units
from tui.app.choose import latest, probe_of
from tui.app.lines import line, wrap
from tui.app.page import Cursor, Page, Row, Scene, Section, answer, panes
from tui.app.views import probe_batches, probe_live, probe_memory, probe_run
from tui.app.views.empty import nothing
from tui.app.views.figures import interval, plural, scale_of
from tui.budget.ledger import probe_verdict
from tui.project.measured import Probe
from tui.project.model import Spec

PANES = ("run", "phases", "live at peak", "batches")


def shown_probe(scene: Scene, cursor: Cursor) -> tuple[str, Probe] | None:
    """The probe that the panes are about: the one that was opened, else the one of the spec's batch."""
    probes = scene.project.measured.probe
    if cursor.chosen in probes:
        return cursor.chosen, probes[cursor.chosen]
    return probe_of(scene.project.spec, scene.project.measured)


def page(scene: Scene, width: int, height: int, cursor: Cursor) -> Page:
    """One of the four panes; the run pane follows a run that is going on."""
    running = scene.live is not None and scene.live.step == "probe"
    found = shown_probe(scene, cursor)
    if not running and found is None:
        return nothing("probe", width)
    head = panes(PANES, cursor.pane, width)
    scale = scale_of(scene.exact, _largest(found[1]) if found else None)
    if running and (cursor.pane == 0 or found is None):
        return probe_live.page(scene, width, panes(PANES, 0, width))
    assert found is not None
    key, probe = found
    if cursor.pane == 3:
        body = probe_batches.sections(scene, width, height - 6)
    elif cursor.pane == 2:
        body = probe_memory.alive(probe, width, scale)
    elif cursor.pane == 1:
        body = probe_memory.phases(probe, width, scale)
    elif probe.outcome == "out-of-memory":
        body = probe_memory.out_of_memory(probe, width, scale)
    else:
        body = (*_failure(probe, width), *probe_run.sections(probe, width, scale))
        if height > 30 and probe.phases:
            phases = probe_memory.phases(probe, width, scale)[0].rows
            body = (*body, Section("phases, each at its own peak", phases))
    keys: tuple[tuple[str, str], ...] = (("r", "run"), ("Tab", "pane"), ("b", "bytes"), ("c", "copy"))
    if cursor.pane == 3:
        keys = (("r", "run"), ("Enter", "open it"), *keys[1:])
    if running:
        keys = (("x", "stop"), *keys[1:])
    told = line((f" {_cancelled(scene, cursor, key)}{described(key, probe)}", "dim"))
    return Page(_answer(scene, probe, width), (Section("", (head,)), *body), told, keys)


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
    if probe.outcome in ("failed", "cancelled"):
        why = probe.failure or "no reason was recorded"
        return answer(width, "×", probe.outcome.upper(), why, good=False)
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
