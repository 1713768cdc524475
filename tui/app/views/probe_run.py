"""The run pane of a probe that is over: its two traces, their figures, the readings."""

from __future__ import annotations

from collections.abc import Sequence

from tui import units
from tui.app.lines import at, cut, ending, fit, line
from tui.app.live import Trace
from tui.app.page import BLANK, Row, Section, Slot
from tui.app.views.bars import trace_rows
from tui.app.views.figures import Scale, aligned, scale_of, sized, title
from tui.budget.readings import allocated_bytes
from tui.project.measured import Probe

TRACE = 60
"""Columns of a trace at most: five parts of twelve."""
READINGS = (
    "requested",
    "tensor_allocated",
    "allocator_reserved",
    "heap_in_use",
    "heap_reserved",
    "process",
    "others",
    "driver_reserved",
    "device_used",
    "device_total",
    "host_total",
)


def sections(probe: Probe, width: int, scale: Scale) -> tuple[Section, ...]:
    """What the screen showed at the end of the run, from the project alone."""
    steps, allocated = Trace(), Trace(group=3)
    for one in probe.step_ms:
        steps.add(one)
    for start in range(0, len(probe.allocated_trace) - 2, 3):
        allocated.add(*probe.allocated_trace[start : start + 3])
    rows = [BLANK]
    rows += trace_block(
        "step time, ms",
        [
            ("median", units.milliseconds(probe.step_ms_median)),
            ("p90", units.milliseconds(probe.step_ms_p90)),
            ("first", units.milliseconds(probe.first_ms)),
        ],
        trace_rows(steps, trace_width(width), 2),
        "",
        width,
    )
    rows.append(BLANK)
    beside = beside_scale(scale, probe.allocated_trace, probe.budget_bytes, width)
    rows += trace_block(
        f"tensor-allocated, {beside.unit}",
        _allocated(probe, beside),
        trace_rows(allocated, trace_width(width), 3),
        probe.allocated_source,
        width,
    )
    return (Section("", tuple(rows)), Section("", _readings(probe, width, scale)))


def trace_width(width: int) -> int:
    """Columns that the traces have on a terminal of ``width``: whole iterations of three cells."""
    return min(TRACE, max(12, (width - 20) // 3 * 3))


def beside_scale(scale: Scale, values: Sequence[float | None], budget: int | None, width: int) -> Scale:
    """The unit of the figures beside a trace of ``values``: not every byte where that has no room."""
    known = [round(one) for one in values if one is not None]
    most = max([*known, budget or 0])
    if scale.exact and len(f"budget {most:,}") > width - trace_width(width) - 4:
        return scale_of(False, max(known, default=None))
    return scale


def _allocated(probe: Probe, scale: Scale) -> list[tuple[str, str]]:
    """The figures beside the trace of tensor-allocated.

    The peak is that of the phases: the trace has only the ends of forward, backward and step.
    """
    peaks = [allocated_bytes(probe.device, peak) for peak in probe.phases.values()]
    known = [size for size in peaks if size is not None]
    numbers = [("peak", sized(max(known), scale) if known else units.NA)]
    if probe.allocated_trace:
        numbers.append(("least", sized(min(probe.allocated_trace), scale)))
    if probe.budget_bytes is not None:
        numbers.append(("budget", sized(probe.budget_bytes, scale)))
    return numbers


def trace_block(
    name: str,
    numbers: list[tuple[str, str]],
    drawn: Sequence[str],
    source: str,
    width: int,
    slot: Slot | None = None,
) -> list[Row]:
    """A title, the rows of a trace, and figures at its right; with a ``slot`` others draw the trace."""
    column = trace_width(width) + 3
    head = line((f" {name}", "dim"))
    if source and len(source) + head.cell_len + 3 < column:
        head.append(f"   {source}", "dim")
    rows = []
    for index, text in enumerate([head, *(line(" ", (one, "water")) for one in drawn)]):
        if index < len(numbers):
            label, value = numbers[index]
            at(text, column, label, "dim")
            if column + 17 <= width or len(value) < 10:
                ending(text, min(width - 1, max(column + 15, text.cell_len + 1 + len(value))), value)
        rows.append(Row(cut(text, width), slot=slot if index == 1 else None))
    return rows


def _readings(probe: Probe, width: int, scale: Scale) -> tuple[Row, ...]:
    table = [
        (name, None, probe.readings[name].bytes, probe.readings[name].phase, _source(probe, name))
        for name in (*READINGS, *(one for one in probe.readings if one not in READINGS))
        if name in probe.readings
    ]
    return readings_rows(table, width, scale, live=False)


def _source(probe: Probe, name: str) -> str:
    reading = probe.readings[name]
    if reading.bytes is None:
        return f"n/a: {reading.unknown}" if reading.unknown else "n/a"
    return reading.source


def readings_rows(
    table: Sequence[tuple[str, int | None, int | None, str, str]], width: int, scale: Scale, *, live: bool
) -> tuple[Row, ...]:
    """Rows of (name, now, peak, phase, source); ``now`` has a column only while the run lives."""
    cell = 16 if scale.exact else 9
    now, peak = 20 + cell, 20 + (2 * cell if live else cell)
    phase = peak + 2
    head = line("  " + scale.unit)
    if live:
        ending(head, now, "now")
    at(at(ending(head, peak, "peak"), phase, "in phase"), phase + 15, "read from")
    head.stylize("dim")
    rows = [Row(cut(head, width))]
    for name, here, most, where, source in table:
        text = line("  " + title(name))
        if live:
            ending(text, now, aligned(sized(here, scale), scale))
        ending(
            text, peak, aligned(sized(most, scale), scale), "water.strong" if name == "process" else "strong"
        )
        at(text, phase, fit(where or "-", 14))
        at(text, phase + 15, fit(source, width - phase - 16), "dim")
        detail = line(f" {title(name)}: {units.exact(most)}{' B' if most is not None else ''}, {source}")
        rows.append(Row(cut(text, width), pick=True, detail=detail, name=name))
    return tuple(rows)
