"""Process bytes over micro-batch: what was measured, the fitted line, budget and reserve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from tui.app.lines import ending, line
from tui.app.views.figures import Scale, sized
from tui.budget.batch import Line, fit, largest
from tui.budget.verdict import Verdict
from tui.project.measured import Probe
from tui.project.model import Spec

ENDED = ("fits", "fits-without-reserve", "does-not-fit", "unknown")
"""Outcomes of probes that were measured to their end."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The lines through what one length and accumulation took; without one the reason is in ``why``."""

    line: Line | None
    """Through the bytes that tensors asked for; through the process where fewer than two are known."""
    of: str = ""
    """requested | process."""
    why: str = ""
    reach: int | None = None
    """The largest batch whose process on its own line is within budget less reserve."""
    limit_bytes: int | None = None
    dynamic: bool = False
    """Lengths vary, so the line is that of the longest alone."""


def fitted(spec: Spec, found: Sequence[tuple[str, Probe]], verdicts: Sequence[Verdict]) -> Fitted:
    """The least-squares line through what was measured to its end, at the spec's accumulation and longest length."""
    batch = spec.workload.batch
    length = batch.length.max if batch.length else None
    dynamic = batch.length is not None and batch.length.min not in (None, batch.length.max)
    same = [
        (probe, verdict)
        for (_, probe), verdict in zip(found, verdicts, strict=True)
        if probe.outcome in ENDED and (probe.accumulate, probe.length) == (batch.accumulate, length)
    ]
    process = _line({probe.micro_batch: verdict.process_bytes for probe, verdict in same})
    asked = _line({probe.micro_batch: requested_bytes(probe) for probe, _ in same})
    line, of = (asked, "requested") if asked is not None else (process, "process")
    if line is None:
        return Fitted(
            None,
            why="no line: needs two that differ in batch only",
            dynamic=dynamic,
        )
    last = verdicts[-1]
    limit = None if last.budget_bytes is None else last.budget_bytes - last.reserve_bytes
    reach = None if limit is None or process is None else largest(process, limit)
    return Fitted(line, of, "", reach, limit, dynamic)


def requested_bytes(probe: Probe) -> int | None:
    """The requested peak of the worst phase; None: it was not traced to its end."""
    peak = probe.phases.get(probe.worst_phase or "")
    return peak.requested_bytes if peak is not None else None


def _line(points: Mapping[int, int | None]) -> Line | None:
    known = {batch: size for batch, size in points.items() if size is not None}
    made = fit(known) if len(known) > 1 else None
    return made if made is not None and made.per_sample_bytes > 0 else None


def sentences(one: Fitted, scale: Scale, width: int) -> list[str]:
    """What is to be said of the line, in rows of at most ``width`` columns."""
    if one.line is None:
        return [one.why[:width]]
    fixed, each = sized(one.line.fixed_bytes, scale), sized(one.line.per_sample_bytes, scale)
    said = [
        f"planning aid: {fixed} + {each} x batch",
        f"  of {one.of}, residual at most {sized(one.line.residual_max_bytes, scale)}",
    ]
    if one.limit_bytes is not None and one.reach is not None:
        said.append(f"  process within {sized(one.limit_bytes, scale)} up to {one.reach:,}")
    said.append("lengths vary: only a measured peak counts" if one.dynamic else "only what was run is proven")
    return [row[:width] for row in said]


def chart(
    found: Sequence[tuple[str, Probe]],
    verdicts: Sequence[Verdict],
    one: Fitted,
    scale: Scale,
    width: int,
    height: int,
) -> list[Text]:
    """Memory over micro-batch; the reserve is shaded, the budget its upper edge, the line dotted."""
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
    for batch, size in _asked(found, one):
        y = _row(size, top, rows)
        if y is not None:
            grid[y][min(columns - 1, int(columns * batch / right))] = ("*", "strong")
    for batch, process, outcome in points:
        x = marks[batch] = min(columns - 1, int(columns * batch / right))
        y = rows - 1 - min(rows - 1, int(rows * process / top))
        grid[y][x] = ("●", "strong") if outcome == "fits" else ("×", "amber.strong")
    foot = line(("       " + axis(marks, columns), "dim"))
    dotted = " · line" if one.line is not None else ""
    asked = " * requested" if one.of == "requested" else ""
    told = line((f"    ● process{asked}{dotted}"[:width], "dim"))
    return [*_drawn(grid, top, scale), foot, told]


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


def _asked(found: Sequence[tuple[str, Probe]], one: Fitted) -> list[tuple[int, int]]:
    """(batch, requested bytes) where the line is of those."""
    if one.of != "requested":
        return []
    sizes = [(probe.micro_batch, requested_bytes(probe)) for _, probe in found]
    return [(batch, size) for batch, size in sizes if size is not None]


def _label(size: float, scale: Scale) -> str:
    value = size / 2**30 * scale.factor
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def _drawn(grid: list[list[tuple[str, str]]], top: float, scale: Scale) -> list[Text]:
    rows = len(grid)
    lines: list[Text] = []
    for y, cells in enumerate(grid):
        label = _label(top * (rows - y) / rows, scale) if y in (0, rows // 2) else ""
        text = ending(line(""), 5, label, "dim") if label else line(" " * 5)
        text.append(" ┤" if label else " │", "dim")
        for glyph, role in cells:
            text.append(glyph, role or None)
        lines.append(text)
    return [*lines, line(("      └" + "─" * len(grid[0]), "dim"))]
