"""The batches pane: every micro-batch that was measured, the line through them, and what a search found."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from tui import units
from tui.app.choose import latest, uncancelled
from tui.app.lines import at, cut, ending, fit, line
from tui.app.live import Live
from tui.app.page import BLANK, Row, Scene, Section, answer
from tui.app.views.batch_chart import chart, fitted, requested_bytes, sentences
from tui.app.views.figures import Scale, aligned, plural, scale_of, sized
from tui.budget.ledger import probe_verdict
from tui.budget.verdict import Verdict
from tui.project.measured import Measured, Probe, Search
from tui.project.model import Spec

_CHART = 46
"""Columns of the table beside a chart on a terminal of 80."""
_WIDE = 116
"""Columns from which the whole table stands beside the chart."""
_MARKS = {"fits": ("●", "dim"), "fits-without-reserve": ("!", "amber"), "unknown": ("?", "amber")}
_WORDS = {
    "fits": "",
    "fits-without-reserve": "over",
    "does-not-fit": "over",
    "out-of-memory": "memory",
    "not-tested": "no data",
}
"""How a candidate ended, in a word; the others are said as they are."""


def measured_batches(spec: Spec, measured: Measured) -> list[tuple[str, Probe]]:
    """The newest probe of each batch and length in the spec's precision, the smallest first.

    One that was cancelled is taken only when its batch has no other.
    """
    newest: dict[tuple[int, int, int], tuple[str, Probe]] = {}
    done = uncancelled(measured.probe)
    cancelled = {key: probe for key, probe in measured.probe.items() if key not in done}
    for key, probe in (*sorted(cancelled.items()), *sorted(done.items())):
        if probe.precision == spec.precision.use:
            newest[probe.length or 0, probe.micro_batch, probe.accumulate] = key, probe
    return [newest[batch] for batch in sorted(newest)]


def search_of(scene: Scene) -> tuple[str, Search] | None:
    """The latest search, in the spec's precision."""
    spec = scene.project.spec
    searches = scene.project.measured.search
    return latest({key: one for key, one in searches.items() if one.precision == spec.precision.use})


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the table shows, and where."""

    scale: Scale
    width: int
    requested: bool
    length: bool

    @property
    def cell(self) -> int:
        """Columns of a size."""
        return 16 if self.scale.exact else 9

    @property
    def head(self) -> int:
        """Where the batch ends."""
        return 16 if self.length else 8


def sections(scene: Scene, width: int, room: int, *, table: bool = False) -> tuple[Section, ...]:
    """The table, and beside it the chart where there is room for one.

    Args:
        table: the whole width is for the table.
    """
    spec: Spec = scene.project.spec
    found = measured_batches(spec, scene.project.measured)
    verdicts = [probe_verdict(spec, probe) for _, probe in found]
    scale = _scale(scene, found)
    charted = bool(found) and width >= 80 and not scene.exact and not table
    across = (_CHART if width < _WIDE else 68) if charted else width
    several = len({probe.length for _, probe in found}) > 1
    plan = _Plan(scale, across, requested=across >= 60, length=several)
    notes = _notes(found, search_of(scene))
    rows = [Row(cut(_heading(plan), across))]
    for (key, probe), verdict in zip(found, verdicts, strict=True):
        text = cut(_row(probe, verdict, notes.get(key, ""), plan), across)
        rows.append(Row(text, pick=True, name=key, detail=_detail(key, probe, width)))
    if (running := _running(scene.live)) is not None:
        rows.append(Row(cut(running, across)))
    one = fitted(spec, found, verdicts)
    said = [Row(line((f" {text}", "dim"))) for text in sentences(one, scale, across - 2)]
    tall = max(min(room, 18), min(len(rows) + 1, 18))
    while said and len(rows) + len(said) + 1 > max(tall, room):
        said.pop(0)
    rows += [BLANK] * (max(0, tall - len(rows) - len(said)) if charted else 1) + said
    if charted:
        drawn = chart(found, verdicts, one, scale, width - across - 2, max(8, min(tall, len(rows))))
        rows = [
            Row(at(row.line.copy(), across, "").append_text(right), row.pick, row.detail, row.name)
            for row, right in zip(rows, [*drawn, *[line("")] * len(rows)], strict=False)
        ]
    return (Section("", tuple(rows)),)


def _scale(scene: Scene, found: list[tuple[str, Probe]]) -> Scale:
    sizes = [probe_verdict(scene.project.spec, probe).process_bytes for _, probe in found]
    return scale_of(scene.exact, max((size for size in sizes if size is not None), default=None))


def told(scene: Scene) -> Text:
    """What the rows have in common."""
    unit = _scale(scene, measured_batches(scene.project.spec, scene.project.measured)).unit
    reserve = "; ░ reserve" if scene.project.spec.budget.reserve else ""
    return line((f" {unit}{reserve}; fresh processes each; between two that fit nothing is proven", "dim"))


def searched(scene: Scene, width: int) -> Text | None:
    """Row 3 of the pane: what the search found or is doing; None: there was none."""
    live = scene.live
    if live is not None and live.plan:
        right = units.duration(live.elapsed_s) if live.elapsed_s is not None else ""
        if right and (left := live.plan_left_s()) is not None:
            right += f", {units.duration(left)} left"
        return answer(width, "»", "SEARCH", fit(live.plan, width - 16 - len(right)), right=right)
    found = search_of(scene)
    if found is None or live is not None or "probe" in scene.stale:
        return None
    one = found[1]
    right = f"{plural(len(one.candidates), 'probe')}, {units.duration(one.seconds)}"
    if one.outcome == "interrupted":
        return answer(width, "!", "INTERRUPTED", f"s goes on with it: {one.why}", right=right, good=False)
    if one.outcome != "done":
        return answer(width, "×", "FAILED", one.why or "no reason was recorded", right=right, good=False)
    if one.largest is None:
        return answer(width, "×", "NO FIT", "nothing that was tried fits", right=right, good=False)
    said: list[str | tuple[str, str]] = ["largest that fits is ", (f"{one.largest:,}", "strong")]
    if one.fastest is not None:
        said += [", fastest is ", (f"{one.fastest:,}", "strong")]
    said.append(f"; {one.failed_at:,} failed" if one.failed_at is not None else "; nothing larger failed")
    return answer(width, "●", "DONE", *said, right=right)


def _heading(plan: _Plan) -> Text:
    head = ending(line("  "), 8, "batch")
    if plan.length:
        ending(head, 16, "length")
    end = plan.head
    for name in ("requested", "process", "spare") if plan.requested else ("process", "spare"):
        end += plan.cell + (1 if name == "requested" else 0)
        ending(head, end, name)
    ending(head, end + 11, "samples/s")
    head.stylize("dim")
    return head


def _row(probe: Probe, verdict: Verdict, note: str, plan: _Plan) -> Text:
    scale = plan.scale
    mark, role = _MARKS.get(probe.outcome, ("×", "amber"))
    text = ending(line(" ", (mark, role)), 8, f"{probe.micro_batch:,}")
    if plan.length:
        ending(text, 16, "-" if probe.length is None else f"{probe.length:,}")
    end = plan.head
    if plan.requested:
        end += plan.cell + 1
        ending(text, end, aligned(sized(requested_bytes(probe), scale), scale))
    ending(text, end + plan.cell, aligned(sized(verdict.process_bytes, scale), scale), "strong")
    ending(text, end + 2 * plan.cell, aligned(sized(verdict.spare_bytes, scale), scale))
    ending(text, end + 2 * plan.cell + 11, units.rate(probe.samples_per_s))
    return text.append(f" {note}", "strong") if note else text


def _running(live: Live | None) -> Text | None:
    """The candidate that is being measured."""
    if live is None or live.step != "probe" or not live.child.title:
        return None
    text = line(" ", ("»", "water"), f"  {live.child.title}")
    if live.child.total and live.child.what == "iterations":
        text.append(f": {live.child.done} of {live.child.total}", "dim")
    return text


def _detail(key: str, probe: Probe, width: int) -> Text:
    text = line((f" {key}  ", "dim"))
    said = probe.failure or f"{probe.outcome}, accumulate {probe.accumulate}, {probe.iterations} iterations"
    if probe.outcome == "out-of-memory" and probe.exhausted_why:
        said = f"{probe.exhausted_class}: {probe.exhausted_why}"
    said += f", soaked for {probe.soaked:,}" if probe.soaked else ""
    return text.append(fit(said, max(8, width - text.cell_len - 1)))


def _notes(found: list[tuple[str, Probe]], search: tuple[str, Search] | None) -> dict[str, str]:
    """By id: what is to be said at the end of a row."""
    notes: dict[str, str] = {}
    for key, probe in found:
        word = _WORDS.get(probe.outcome, probe.outcome)
        if probe.outcome == "out-of-memory" and probe.exhausted_class:
            word = "unknown why" if probe.exhausted_class == "unknown" else probe.exhausted_class
        notes[key] = word
    for key, word in _best(found, search).items():
        notes[key] = word
    return notes


def _best(found: list[tuple[str, Probe]], search: tuple[str, Search] | None) -> dict[str, str]:
    """The largest that fits and the fastest: by the search that was done, else by what was measured."""
    if search is not None and search[1].outcome == "done":
        one = search[1]
        ids = dict(found)
        largest = one.largest_probe if one.largest_probe in ids else None
        fastest = one.fastest_probe if one.fastest_probe in ids else None
    else:
        largest, fastest = _largest(found), _fastest(found)
    if largest is not None and largest == fastest:
        return {largest: "both"}
    return {key: word for key, word in ((fastest, "fastest"), (largest, "largest")) if key is not None}


def _largest(found: list[tuple[str, Probe]]) -> str | None:
    fitting = [(probe.micro_batch, key) for key, probe in found if probe.outcome == "fits"]
    return max(fitting)[1] if len(fitting) > 1 else None


def _fastest(found: list[tuple[str, Probe]]) -> str | None:
    """The one whose whole interval lies above that of every other."""
    timed = [
        (key, probe) for key, probe in found if probe.outcome == "fits" and probe.samples_per_s is not None
    ]
    if len(timed) < 2:
        return None
    best, first = max(timed, key=lambda item: item[1].samples_per_s or 0.0)
    rest = (probe for key, probe in timed if key != best)
    return best if all(_faster(first, other) for other in rest) else None


def _faster(one: Probe, other: Probe) -> bool:
    low, high = one.samples_per_s_low, other.samples_per_s_high
    return low is not None and high is not None and low > high
