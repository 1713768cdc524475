"""The batches pane: every micro-batch that was measured, and a chart of process against batch."""

from __future__ import annotations

from rich.text import Text

from tui import units
from tui.app.choose import uncancelled
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
    """The newest probe of each micro-batch in the spec's precision, the smallest batch first.

    One that was cancelled is taken only when its batch has no other.
    """
    newest: dict[tuple[int, int], tuple[str, Probe]] = {}
    done = uncancelled(measured.probe)
    cancelled = {key: probe for key, probe in measured.probe.items() if key not in done}
    for key, probe in (*sorted(cancelled.items()), *sorted(done.items())):
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
        best = max(timed, key=lambda probe: probe.samples_per_s or 0.0)
        if all(_faster(best, other) for other in timed if other is not best):
            notes[id(best)] = "fastest" if id(best) not in notes else "both"
    return notes


def _faster(one: Probe, other: Probe) -> bool:
    """Whether the whole interval of ``one`` lies above that of ``other``."""
    low, high = one.samples_per_s_low, other.samples_per_s_high
    return low is not None and high is not None and low > high


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
    marks: dict[int, int] = {}
    for batch, process, outcome in points:
        x = marks[batch] = min(columns - 1, int(columns * batch / right))
        y = rows - 1 - min(rows - 1, int(rows * process / top))
        grid[y][x] = ("●", "strong") if outcome == "fits" else ("×", "amber.strong")
    said = "budget is above" if limit and not near else "░ reserve" if reserve else "─ budget"
    foot = line(("       " + _axis(marks, columns), "dim"))
    return [*_drawn(grid, top), foot, line((f"       GiB, {said if limit else 'no budget'}", "dim"))]


def _axis(marks: dict[int, int], columns: int) -> str:
    """The batches under their marks, the largest for certain and the others where they do not touch."""
    cells = [" "] * columns
    for batch in (max(marks), *sorted(marks)):
        label = f"{batch:,}"
        start = max(0, min(marks[batch] - len(label) // 2, columns - len(label)))
        end = start + len(label)
        if all(cell == " " for cell in cells[max(0, start - 1) : end + 1]):
            cells[start:end] = label
    return "".join(cells).rstrip()


def _drawn(grid: list[list[tuple[str, str]]], top: float) -> list[Text]:
    rows = len(grid)
    lines = []
    for y, cells in enumerate(grid):
        label = f"{units.gib(round(top * (rows - y) / rows), 1)}" if y in (0, rows // 2) else ""
        text = ending(line(""), 5, label, "dim") if label else line(" " * 5)
        text.append(" ┤" if label else " │", "dim")
        for glyph, role in cells:
            text.append(glyph, role or None)
        lines.append(text)
    return [*lines, line(("      └" + "─" * len(grid[0]), "dim"))]
