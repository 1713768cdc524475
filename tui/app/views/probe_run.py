"""The run pane of a probe that is over: its two traces, their figures, the readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

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
    "inactive_split",
    "heap_in_use",
    "heap_reserved",
    "process",
    "process_nvml",
    "others",
    "driver_reserved",
    "device_used",
    "device_total",
    "host_rss",
    "pinned",
    "host_total",
)


def sections(probe: Probe, width: int, scale: Scale, *, meanings: bool = False) -> tuple[Section, ...]:
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
    return (Section("", tuple(rows)), Section("", _readings(probe, width, scale, meanings)))


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


def _readings(probe: Probe, width: int, scale: Scale, meanings: bool) -> tuple[Row, ...]:
    table = []
    for name in (*READINGS, *(one for one in probe.readings if one not in READINGS)):
        if (reading := probe.readings.get(name)) is not None:
            source = _source(probe, name)
            told = Told(name, None, reading.bytes, reading.phase, source, reading.meaning, reading.at_s)
            table.append(told)
    return readings_rows(table, width, scale, live=False, meanings=meanings)


def _source(probe: Probe, name: str) -> str:
    reading = probe.readings[name]
    if reading.bytes is None:
        return f"n/a: {reading.unknown}" if reading.unknown else "n/a"
    return reading.source


@dataclass(frozen=True, slots=True)
class Told:
    """One reading as it is shown."""

    name: str
    now: int | None
    peak: int | None
    phase: str
    source: str
    """Where it was read, or why it was not."""
    meaning: str
    at_s: float | None = None
    """Seconds from the start of the measuring process."""


def readings_rows(
    table: Sequence[Told], width: int, scale: Scale, *, live: bool, meanings: bool = False
) -> tuple[Row, ...]:
    """A row a reading; ``now`` has a column only while the run lives.

    With ``meanings`` the phase and the source give way to what the reading means.
    """
    cell = 16 if scale.exact else 9
    now, peak = 20 + cell, 20 + (2 * cell if live else cell)
    phase = peak + 2
    head = line("  " + scale.unit)
    if live:
        ending(head, now, "now")
    ending(head, peak, "peak")
    at(head, phase, "what it means") if meanings else at(at(head, phase, "in phase"), phase + 15, "read from")
    head.stylize("dim")
    rows = [Row(cut(head, width))]
    for one in table:
        text = line("  " + title(one.name))
        if live:
            ending(text, now, aligned(sized(one.now, scale), scale))
        role = "water.strong" if one.name == "process" else "strong"
        ending(text, peak, aligned(sized(one.peak, scale), scale), role)
        if meanings:
            at(text, phase, fit(one.meaning or one.source, width - phase - 1), "dim")
        else:
            at(text, phase, fit(one.phase or "-", 14))
            at(text, phase + 15, fit(one.source, width - phase - 16), "dim")
        rows.append(Row(cut(text, width), pick=True, detail=_detail(one, meanings), name=one.name))
    return tuple(rows)


def _detail(one: Told, meanings: bool) -> Text:
    size = f"{units.exact(one.peak)}{' B' if one.peak is not None else ''}"
    when = f"{units.duration(one.at_s)} after the start" if one.at_s is not None else ""
    told = (one.source, when) if meanings else (one.source, when, one.meaning)
    return line(f" {title(one.name)}: {size}, {', '.join(filter(None, told))}")
