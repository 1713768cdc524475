"""What is alive at the peak of a step as text: the largest modules and the largest storages."""

from __future__ import annotations

from tui.budget import timeline as timelines
from tui.budget.rows import row_name
from tui.project.timeline import Timeline
from tui.report.figures import unit_for
from tui.report.lines import clean, clip, columns, right, wrap

ALIVE = 8
"""Rows of each table unless asked otherwise."""
NOWHERE = "(no module)"
_HELD = ("weights", "gradients", "optimizer_state", "buffers", "input_batch")
"""Rows whose storages are known by what holds them; what once made their memory says nothing."""
_WIDTHS = (10, 9, 9)


def alive_lines(timeline: Timeline, phase: str | None = None, n: int = ALIVE, width: int = 80) -> list[str]:
    """The live set at the highest instant of ``phase`` (None: of the iteration): ``n`` rows of each table."""
    found = timelines.peak_in(timeline, phase)
    if found is None:
        return wrap(f"alive n/a: {no_phase(phase)}", width)
    event, size, at = found
    alive = timelines.alive(timeline, event)
    unit = unit_for(size)
    micro = "" if at.micro is None else f", micro-batch {at.micro + 1}"
    lines = wrap(
        f"alive at the peak of the steady {at.name}{micro}: {unit.text(size)} in {len(alive):,} storages",
        width,
    )
    modules = timelines.by_pattern(alive)
    rows = [
        (one.module or NOWHERE, unit.cell(one.bytes), _share(one.bytes, size), f"{one.count:,}")
        for one in modules
    ]
    lines += _table((f"by module, {unit.name}", "own", "share", "modules"), rows, n, width)
    groups = timelines.top(alive, len(alive))
    rows = [(_what(one), unit.cell(one.bytes), _share(one.bytes, size), f"{one.count:,}") for one in groups]
    return lines + _table((f"largest storages, {unit.name}", "together", "share", "count"), rows, n, width)


def no_phase(phase: str | None) -> str:
    """Why a timeline has nothing to say of a phase."""
    if phase is None:
        return "the steady iteration was not reached"
    return f"the timeline is of the steady forward, backward and step, and not of {phase}"


def _what(one: timelines.Alike) -> str:
    held = one.storage
    made = " ".join(filter(None, (held.shape, held.dtype, "" if held.row in _HELD else held.operator)))
    return f"{row_name(held.row).label}: {one.module or NOWHERE} {made}"


def _share(part: int, whole: int) -> str:
    share = 100 * part / whole if whole else 0.0
    return "<0.1 %" if 0 < share < 0.05 else f"{share:.1f} %"


def _table(
    head: tuple[str, str, str, str], rows: list[tuple[str, str, str, str]], n: int, width: int
) -> list[str]:
    room = width - sum(_WIDTHS)
    lines: list[str] = []
    for name, *cells in (head, *rows[:n]):
        left = clip(clean(name), room)
        lines.append(left + " " * (room - columns(left)) + right(cells, _WIDTHS))
    left_out = len(rows) - n
    return lines + ([f"and {left_out:,} more: --alive {n + left_out}"] if left_out > 0 else [])
