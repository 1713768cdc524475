"""Panes of a probe about memory: the phases' peaks, what is alive at the worst one, an out-of-memory."""

from __future__ import annotations

from tui import units
from tui.app.lines import at, bar, cut, ending, fit, line, wrap
from tui.app.page import BLANK, Row, Section
from tui.app.views.figures import Scale, aligned, sized, title
from tui.budget.readings import allocated_bytes
from tui.probe.protocol import PHASES, REQUESTED_ROWS
from tui.project.measured import PhasePeak, Probe


def phases(probe: Probe, width: int, scale: Scale) -> tuple[Section, ...]:
    """Each phase at its own peak; they are never added together."""
    cell = 16 if scale.exact else 11
    ends = [16 + cell * n for n in (1, 2, 3, 4) if 16 + cell * n < width]
    head = line("  " + scale.unit)
    for name, column in zip(("requested", "allocated", "reserved", "process"), ends, strict=False):
        ending(head, column, name)
    at(head, ends[-1] + 2, "at")
    head.stylize("dim")
    rows = [Row(cut(head, width))]
    for name in PHASES:
        if name in probe.phases:
            rows.append(_phase(name, probe, ends, width, scale))
    if len(rows) == 1:
        rows = [
            BLANK,
            Row(line(f" no phase was measured to its end: {probe.failure or 'the run ended before'}")),
        ]
    note = line((" each phase at its own peak; rows of different phases are never added together", "dim"))
    return (Section("", (*rows, BLANK, Row(cut(note, width)))),)


def _phase(name: str, probe: Probe, ends: list[int], width: int, scale: Scale) -> Row:
    peak, worst = probe.phases[name], name == probe.worst_phase
    text = line("  ", (name, "strong" if worst else ""))
    allocated = allocated_bytes(probe.device, peak)
    values = peak.requested_bytes, allocated, peak.reserved_bytes, peak.process_bytes
    for value, column in zip(values, ends, strict=False):
        ending(text, column, aligned(sized(value, scale), scale), "strong" if worst else "")
    where = instant(peak)
    at(text, ends[-1] + 2, fit(("worst, " if worst else "") + where, width - ends[-1] - 3), "dim")
    return Row(
        cut(text, width), pick=True, name=name, detail=line(f" {name}: {where or 'no instant was recorded'}")
    )


def instant(peak: PhasePeak) -> str:
    """Where in the phase its peak was: operator, module, micro-batch."""
    said = [one for one in (peak.operator, peak.module) if one]
    if peak.micro_batch is not None:
        said.append(f"micro-batch {peak.micro_batch + 1}")
    return ", ".join(said)


def alive(probe: Probe, width: int, scale: Scale) -> tuple[Section, ...]:
    """What is alive at the peak of the worst phase, the largest first."""
    peak = probe.phases.get(probe.worst_phase or "")
    if peak is None and probe.alive:
        return _alive_when_it_ran_out(probe, width, scale)
    if peak is None:
        why = probe.failure or "no phase was measured to its end"
        return (Section("", (BLANK, Row(line(f" n/a: {fit(why, width - 8)}")))),)
    head = f"  requested, {probe.worst_phase}" + (f", {instant(peak)}" if instant(peak) else "")
    rows = [Row(line((fit(head, width - 1), "dim"))), *_table(peak.rows, peak.requested_bytes, width, scale)]
    total = ending(
        line("  ", ("= requested", "strong")), _end(scale), sized(peak.requested_bytes, scale), "strong"
    )
    return (Section("", (*rows, Row(total))),)


def _alive_when_it_ran_out(probe: Probe, width: int, scale: Scale) -> tuple[Section, ...]:
    """Rows, modules and tensors that were alive when memory ran out."""
    held = sum(probe.alive.values())
    rows = [*_table(probe.alive, held, width, scale)]
    rows.append(Row(ending(line("  ", ("= alive", "strong")), _end(scale), sized(held, scale), "strong")))
    sections = [Section("", tuple(rows))]
    for name, table in (("by module", probe.alive_modules), ("the largest tensors", probe.alive_top)):
        if table:
            sections.append(
                Section(name, tuple(_named(key, size, width, scale) for key, size in table.items()))
            )
    return tuple(sections)


def _named(name: str, size: int, width: int, scale: Scale) -> Row:
    shown = sized(size, scale)
    text = ending(line("  " + fit(name or "no module", width - len(shown) - 6)), width - 2, shown)
    return Row(text, pick=True, name=name, detail=line(f" {name}: {size:,} B"))


def _end(scale: Scale) -> int:
    return 44 if scale.exact else 34


def _table(alive_rows: dict[str, int], total: int, width: int, scale: Scale) -> list[Row]:
    column = _end(scale)
    head = at(ending(line("  alive"), column, scale.unit), column + 4, "share")
    head.stylize("dim")
    rows = [Row(head)]
    for name, value in sorted(alive_rows.items(), key=lambda item: (-item[1], item[0])):
        if not value and name != "unattributed":
            continue
        text = ending(line("  " + title(name)), column, aligned(sized(value, scale), scale), "strong")
        at(text, column + 4, bar(value / total, max(8, width - column - 22)) if total > 0 else "", "water")
        share = f"{units.percent(value / total)} of them" if total > 0 else "n/a"
        rows.append(
            Row(cut(text, width), pick=True, name=name, detail=line(f" {title(name)}: {value:,} B, {share}"))
        )
    zeros = sum(1 for name in REQUESTED_ROWS if not alive_rows.get(name))
    return [*rows, Row(line((f"  {zeros} rows at 0", "dim")))] if zeros else rows


def out_of_memory(probe: Probe, width: int, scale: Scale) -> tuple[Section, ...]:
    """What was asked for and why there was none, what was alive, what there was to have, and what would fit."""
    said = probe.failure or f"asked for {units.size(probe.asked_bytes)}"
    if probe.exhausted_class:
        said += f"; {_CLASSES.get(probe.exhausted_class, probe.exhausted_class)}"
    rows = [Row(line(" " + one)) for one in wrap(said, width - 2)]
    if probe.exhausted_why:
        rows += [Row(line((" " + one, "dim"))) for one in wrap(probe.exhausted_why, width - 2)]
    held = sum(probe.alive.values())
    if probe.alive:
        rows += _table(probe.alive, held, width, scale)
        rows.append(Row(ending(line("  ", ("= alive", "strong")), _end(scale), sized(held, scale), "strong")))
    else:
        rows.append(Row(line(("  what was alive at that moment: n/a, it was not recorded", "dim"))))
    room = probe.limit_bytes or probe.budget_bytes
    rows.append(_size("asked for", probe.asked_bytes, probe.unknown.get("asked_bytes", ""), width, scale))
    rows.append(_size("room", room, probe.unknown.get("limit_bytes", ""), width, scale))
    for name, key in _LEFT:
        value, why = getattr(probe, key), probe.unknown.get(key, "")
        if value is not None or why:
            rows.append(_size(name, value, why, width, scale))
    sections = [Section("", tuple(rows))]
    if probe.would_fit:
        sections.append(
            Section("would fit", tuple(Row(line(f" {one}")) for one in wrap(probe.would_fit, width - 2)))
        )
    return tuple(sections)


_CLASSES = {
    "capacity": "capacity, not fragmentation",
    "fragmentation": "fragmentation, not capacity",
    "others": "other processes hold the room for it",
    "limit": "the budget, not the device",
    "host": "host memory",
    "unknown": "why is unknown",
}
_LEFT = (
    ("device free", "device_free_bytes"),
    ("largest free block", "largest_free_block_bytes"),
    ("all free blocks", "free_blocks_bytes"),
)
"""What there still was, by the field that keeps it."""


def _size(name: str, value: int | None, why: str, width: int, scale: Scale) -> Row:
    text = ending(line("  " + name), _end(scale), aligned(sized(value, scale), scale), "strong")
    return Row(at(text, _end(scale) + 4, fit(why, width - _end(scale) - 6), "dim") if value is None else text)
