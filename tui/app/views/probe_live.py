"""The run pane of a probe that is going on."""

from __future__ import annotations

from rich.text import Text

from tui import units
from tui.app.lines import at, fit, line
from tui.app.live import Child, Live
from tui.app.page import BLANK, Page, Row, Scene, Section, Slot, answer
from tui.app.probe_state import ProbeState
from tui.app.views.figures import Scale, scale_of, sized
from tui.app.views.probe_run import READINGS, Told, beside_scale, readings_rows, trace_block, trace_width

_STAGES = (
    "start",
    "context",
    "build",
    "optimizer",
    "first",
    "warmup",
    "steady",
    "validate",
    "save",
    "restore",
)


def page(scene: Scene, state: ProbeState, width: int, head: Row) -> Page:
    """Phase line, two traces with their figures, readings so far; batches that ended on a wide terminal."""
    live = scene.live
    assert live is not None
    child = live.child
    columns = trace_width(width)
    top = child.allocated.top()
    scale = scale_of(scene.exact, round(top) if top else None)
    rows = [head, Row(_stages(child, width)), Row(line((f" {fit(live.plan, width - 2)}", "dim")))]
    rows += trace_block(
        "step time, ms",
        [
            ("now", units.milliseconds(child.milliseconds[-1] if child.milliseconds else None)),
            ("median", units.milliseconds(child.median_ms())),
            ("p90", units.milliseconds(child.p90_ms())),
        ],
        ["", ""],
        "traced: not timed" if child.task == "traced" else "",
        width,
        Slot("steps", 1, columns, 2),
    )
    rows.append(BLANK)
    beside = beside_scale(scale, child.allocated.values, None, width)
    rows += trace_block(
        f"tensor-allocated, {beside.unit}",
        _allocated(child, beside),
        ["", "", ""],
        child.allocated_source,
        width,
        Slot("allocated", 1, columns, 3),
    )
    sections = [Section("", tuple(rows)), Section("", _readings(child, width, scale, state.meanings))]
    if live.ended:
        sections.append(Section("measured so far in this run", _ended(live, width)))
    told = line((f" {child.id}  {child.title}", "dim"))
    keys = (("x", "stop"), ("o", "output"), ("d", "meanings"), ("Tab", "pane"), ("b", "bytes"))
    return Page(_answer(live, width), tuple(sections), told, keys)


def _answer(live: Live, width: int) -> Text:
    child = live.child
    if live.failure and not child.phase:
        return answer(width, "×", "FAILED", live.failure, good=False)
    said = child.title or live.text or "starting a measuring process"
    if child.total and child.what == "iterations":
        said = f"{child.done} of {child.total}"
        if child.phase:
            said += f", {child.phase.replace('.', ', ')}"
    elif child.phase:
        said += f": {child.phase.replace('.', ', ')}"
    rate = child.rate()
    pieces: list[str | tuple[str, str]] = [fit(said, max(12, width - (52 if rate is not None else 30)))]
    if rate is not None:
        pieces += ["   ", (units.rate(rate), "strong"), " samples/s so far"]
    right = units.duration(live.elapsed_s) if live.elapsed_s is not None else ""
    left = child.left_s() if not live.plan else live.plan_left_s()
    if right and left is not None:
        right += f", {units.duration(left)} left"
    return answer(width, "»", "RUNNING", *pieces, right=right)


def stage_of(phase: str) -> str:
    """The stage of the phase line that a phase belongs to."""
    if phase in ("forward", "backward", "step"):
        return "steady"
    return phase.split(".")[0]


def _stages(child: Child, width: int) -> Text:
    seen = [stage_of(phase) for phase in child.seen]
    here = stage_of(child.phase) if child.phase else ""
    if not seen:
        return line(" ", ("»", "water"), " the measuring process is starting")
    text = line(" ", ("●", "dim") if len(seen) > 1 else "")
    for stage in _STAGES:
        if stage == here:
            count = f" {child.done}/{child.total}" if stage == "steady" and child.total else ""
            text.append(" » ", "water").append(stage + count, "strong").append(" ")
        elif stage in seen:
            text.append(f" {stage} ")
    return text


def _allocated(child: Child, scale: Scale) -> list[tuple[str, str]]:
    known = [int(one) for one in child.allocated.values if one is not None]
    return [
        ("now", sized(child.allocated_now, scale)),
        ("peak", sized(max(known), scale) if known else "n/a"),
        ("least", sized(min(known), scale) if known else "n/a"),
    ]


def _readings(child: Child, width: int, scale: Scale, meanings: bool) -> tuple[Row, ...]:
    order = [name for name in READINGS if name in child.readings]
    order += [name for name in child.readings if name not in READINGS]
    table = []
    for name in order:
        read = child.readings[name]
        source = f"n/a: {read.unknown}" if read.now is None and read.unknown else read.source
        table.append(Told(name, read.now, read.peak, read.phase, source, read.meaning, read.at_s))
    if not table:
        return (Row(line(("  no reading yet", "dim"))),)
    return readings_rows(table, width, scale, live=True, meanings=meanings)


def _ended(live: Live, width: int) -> tuple[Row, ...]:
    rows = []
    for one in live.ended:
        mark, role = ("●", "dim") if one.outcome == "done" else ("×", "amber")
        text = line(" ", (mark, role), f" {fit(one.title, 40)}")
        rows.append(Row(at(text, 46, fit(one.text or one.outcome, width - 47))))
    return tuple(rows[-8:])
