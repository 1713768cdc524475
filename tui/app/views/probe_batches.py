"""The batches pane: every micro-batch that was measured, and a chart of process against batch."""

from __future__ import annotations

from rich.text import Text

from tui import units
from tui.app.lines import at, cut, ending, line
from tui.app.page import BLANK, Row, Scene, Section
from tui.app.views.figures import Scale, aligned, scale_of, sized
from tui.budget.ledger import probe_verdict
from tui.budget.verdict import Verdict
from tui.project.measured import Measured, Probe
from tui.project.model import Spec

_CHART = 45
_MARKS = {"fits": ("●", "dim"), "fits-without-reserve": ("!", "amber"), "unknown": ("?", "amber")}


def measured_batches(spec: Spec, measured: Measured) -> list[tuple[str, Probe]]:
    """The newest probe of each micro-batch in the spec's precision, the smallest batch first."""
    newest: dict[tuple[int, int], tuple[str, Probe]] = {}
    for key, probe in sorted(measured.probe.items()):
        if probe.precision == spec.precision.use:
            newest[probe.micro_batch, probe.accumulate] = key, probe
    return [newest[batch] for batch in sorted(newest)]


def sections(scene: Scene, width: int, room: int) -> tuple[Section, ...]:
    """The table on the left; on a terminal of 80 columns the chart at its right."""
    spec: Spec = scene.project.spec
    found = measured_batches(spec, scene.project.measured)
    verdicts = [probe_verdict(spec, probe) for _, probe in found]
    scale = scale_of(scene.exact, None)
    charted = width >= 80 and not scene.exact
    cell = 16 if scene.exact else 9
    head = ending(ending(line("  "), 8, "batch"), 8 + cell, "process")
    ending(ending(head, 8 + 2 * cell, "spare"), 19 + 2 * cell, "samples/s")
    head.stylize("dim")
    rows = [head]
    notes = _notes(found)
    for (_, probe), verdict in zip(found, verdicts, strict=True):
        rows.append(_row(probe, verdict, notes, cell, scale))
    lines = [cut(row, _CHART + 1 if charted else width) for row in rows]
    tall = max(len(lines) + 1, min(room, 16))
    lines += [line("") for _ in range(tall - len(lines))]
    if charted:
        drawn = chart(found, verdicts, width - _CHART - 2, tall)
        lines = [at(text, _CHART, "").append_text(right) for text, right in zip(lines, drawn, strict=True)]
    made = [Row(lines[0])]
    for index, text in enumerate(lines[1:]):
        if index < len(found):
            key, probe = found[index]
            made.append(Row(text, pick=True, name=key, detail=_detail(key, probe)))
        else:
            made.append(Row(text))
    told = f" {scale.unit}; every row ran in fresh processes; between two that fit nothing is proven"
    return (Section("", (*made, BLANK, Row(cut(line((told, "dim")), width)))),)


def _detail(key: str, probe: Probe) -> Text:
    said = probe.failure or f"{probe.outcome}, accumulate {probe.accumulate}, {probe.iterations} iterations"
    return line((f" {key}", "dim"), f"  {said}")


def _notes(found: list[tuple[str, Probe]]) -> dict[int, str]:
    fitting = [probe for _, probe in found if probe.outcome == "fits"]
    timed = [probe for probe in fitting if probe.samples_per_s is not None]
    notes: dict[int, str] = {}
    if len(fitting) > 1:
        notes[id(max(fitting, key=lambda probe: probe.micro_batch))] = "largest"
    if len(timed) > 1:
        fastest = id(max(timed, key=lambda probe: probe.samples_per_s or 0.0))
        notes[fastest] = "fastest" if fastest not in notes else "both"
    return notes


def _row(probe: Probe, verdict: Verdict, notes: dict[int, str], cell: int, scale: Scale) -> Text:
    mark, role = _MARKS.get(probe.outcome, ("×", "amber"))
    text = ending(line(" ", (mark, role)), 8, str(probe.micro_batch))
    ending(text, 8 + cell, aligned(sized(verdict.process_bytes, scale), scale), "strong")
    ending(text, 8 + 2 * cell, aligned(sized(verdict.spare_bytes, scale), scale))
    ending(text, 19 + 2 * cell, units.rate(probe.samples_per_s))
    note = notes.get(id(probe), "")
    return text.append(f" {note}", "strong") if note else text


def chart(found: list[tuple[str, Probe]], verdicts: list[Verdict], width: int, height: int) -> list[Text]:
    """Process GiB over micro-batch; the reserve is shaded, the budget its upper edge."""
    points = [
        (probe.micro_batch, verdict.process_bytes, probe.outcome)
        for (_, probe), verdict in zip(found, verdicts, strict=True)
        if verdict.process_bytes is not None
    ]
    if not points:
        return [line((" no process reading to chart", "dim"))] + [line("")] * (height - 1)
    limit, reserve = verdicts[-1].budget_bytes, verdicts[-1].reserve_bytes
    most = max(process for _, process, _ in points)
    near = limit is not None and limit < 3 * most
    top = max(most, limit if near and limit else 0) * 1.05
    right = max(batch for batch, _, _ in points) * 1.1
    columns, rows = width - 7, height - 3
    grid = [[(" ", "")] * columns for _ in range(rows)]
    for y in range(rows):
        low, high = top * (rows - 1 - y) / rows, top * (rows - y) / rows
        if near and limit and low < limit and high > limit - reserve:
            grid[y] = [("░" if reserve else "─", "amber")] * columns
    for batch, process, outcome in points:
        x = min(columns - 1, int(columns * batch / right))
        y = rows - 1 - min(rows - 1, int(rows * process / top))
        grid[y][x] = ("●", "strong") if outcome == "fits" else ("×", "amber.strong")
    return _drawn(grid, top, right, near, limit, columns)


def _drawn(
    grid: list[list[tuple[str, str]]], top: float, right: float, near: bool, limit: int | None, columns: int
) -> list[Text]:
    rows = len(grid)
    lines = []
    for y, cells in enumerate(grid):
        label = f"{units.gib(round(top * (rows - y) / rows), 1)}" if y in (0, rows // 2) else ""
        text = ending(line(""), 5, label, "dim") if label else line(" " * 5)
        text.append(" ┤" if label else " │", "dim")
        for glyph, role in cells:
            text.append(glyph, role or None)
        lines.append(text)
    lines.append(line(("      └" + "─" * columns, "dim")))
    middle = columns // 2
    foot = ending(line(("      0", "dim")), 7 + middle, f"{right / 2:.3g}", "dim")
    lines.append(ending(foot, 7 + columns, f"{right:.3g}", "dim"))
    said = "budget above the chart" if limit and not near else "░ reserve" if limit else "no budget"
    return [*lines, line((f"       GiB, {said}"[: columns + 7], "dim"))]
