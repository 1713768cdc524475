"""Process bytes over micro-batch: what was measured, the fitted line, budget and reserve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from tui import units
from tui.app.lines import ending, line
from tui.budget.batch import Line, fit, largest
from tui.budget.verdict import Verdict
from tui.project.measured import Probe
from tui.project.model import Spec

ENDED = ("fits", "fits-without-reserve", "does-not-fit", "unknown")
"""Outcomes of probes that were measured to their end."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The line through the process of one length and accumulation; ``line`` is None with the reason in ``why``."""

    line: Line | None
    why: str = ""
    crosses: float | None = None
    """Micro-batch at which it meets budget less reserve."""
    limit_bytes: int | None = None
    dynamic: bool = False
    """Lengths vary, so the line is that of the longest alone."""


def fitted(spec: Spec, found: Sequence[tuple[str, Probe]], verdicts: Sequence[Verdict]) -> Fitted:
    """The least-squares line through what was measured to its end, at the spec's accumulation and longest length."""
    batch = spec.workload.batch
    length = batch.length.max if batch.length else None
    dynamic = batch.length is not None and batch.length.min not in (None, batch.length.max)
    points = {
        probe.micro_batch: verdict.process_bytes
        for (_, probe), verdict in zip(found, verdicts, strict=True)
        if probe.outcome in ENDED
        and verdict.process_bytes is not None
        and (probe.accumulate, probe.length) == (batch.accumulate, length)
    }
    if len(points) < 2:
        return Fitted(None, "a line needs two batches measured to their end", dynamic=dynamic)
    made = fit(points)
    if made.per_sample_bytes <= 0:
        return Fitted(None, "no line: what was measured does not grow with the batch", dynamic=dynamic)
    last = verdicts[-1]
    limit = None if last.budget_bytes is None else last.budget_bytes - last.reserve_bytes
    crosses = None if limit is None else (limit - made.fixed_bytes) / made.per_sample_bytes
    return Fitted(made, "", crosses, limit, dynamic)


def sentences(one: Fitted, width: int) -> list[str]:
    """What is to be said of the line, in rows of at most ``width`` columns."""
    if one.line is None:
        return [one.why[:width]]
    said = [
        f"planning aid: {units.gib(one.line.fixed_bytes)} + {units.gib(one.line.per_sample_bytes)} GiB x batch",
        f"residual at most {units.gib(one.line.residual_max_bytes)} GiB",
    ]
    if one.limit_bytes is not None:
        reach = largest(one.line, one.limit_bytes)
        said.append(f"meets {units.gib(one.limit_bytes)} GiB at {one.crosses:,.1f}: {reach:,} by it")
    said.append("lengths vary: only a measured peak counts" if one.dynamic else "only what was run is proven")
    return [row[:width] for row in said]


def chart(
    found: Sequence[tuple[str, Probe]],
    verdicts: Sequence[Verdict],
    one: Fitted,
    width: int,
    height: int,
) -> list[Text]:
    """Process over micro-batch; the reserve is shaded, the budget its upper edge, the line dotted."""
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
    if one.line is not None:
        for x in range(columns):
            y = _row(
                one.line.fixed_bytes + one.line.per_sample_bytes * right * (x + 0.5) / columns, top, rows
            )
            if y is not None:
                grid[y][x] = ("·", "strong")
    marks: dict[int, int] = {}
    for batch, process, outcome in points:
        x = marks[batch] = min(columns - 1, int(columns * batch / right))
        y = rows - 1 - min(rows - 1, int(rows * process / top))
        grid[y][x] = ("●", "strong") if outcome == "fits" else ("×", "amber.strong")
    said = "budget above" if limit and not near else "░ reserve" if reserve else "─ budget"
    dotted = "   · line" if one.line is not None else ""
    foot = line(("       " + axis(marks, columns), "dim"))
    told = line((f"       GiB, {said if limit else 'no budget'}{dotted}", "dim"))
    return [*_drawn(grid, top), foot, told]


def _row(size: float, top: float, rows: int) -> int | None:
    """The row of a size; None above the chart and below zero."""
    return rows - 1 - int(rows * size / top) if 0 <= size < top else None


def axis(marks: dict[int, int], columns: int) -> str:
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
    lines: list[Text] = []
    for y, cells in enumerate(grid):
        label = f"{units.gib(round(top * (rows - y) / rows), 1)}" if y in (0, rows // 2) else ""
        text = ending(line(""), 5, label, "dim") if label else line(" " * 5)
        text.append(" ┤" if label else " │", "dim")
        for glyph, role in cells:
            text.append(glyph, role or None)
        lines.append(text)
    return [*lines, line(("      └" + "─" * len(grid[0]), "dim"))]
