"""The table of GPUs as text."""

from __future__ import annotations

from collections.abc import Sequence

from tui import units
from tui.budget.gpus import Gpu
from tui.report.lines import clip, hanging, wrap

NAME = 32


def gpus_lines(table: Sequence[Gpu], width: int = 80) -> list[str]:
    """Every GPU on a line, then where the figures come from."""
    head = f"{'GPU'.ljust(NAME)}{'GiB':>9}{'sm_':>6}{'SMs':>6}{'threads':>9}  context MiB"
    lines = [clip(head, width)]
    for one in table:
        capability = "n/a" if one.capability is None else f"{one.capability[0]}{one.capability[1]}"
        cells = f"{units.gib(one.total_bytes):>9}{capability:>6}{_text(one.sm_count):>6}{_text(one.threads_per_sm):>9}"
        lines.append(clip(f"{one.name.ljust(NAME)}{cells}  {_context(one)}", width))
    gaps = [f"{one.name}: {name} {why}" for one in table for name, why in one.unknown.items()]
    lines += wrap(
        "GiB is the total as NVML has it; a program gets less. threads: resident on one SM. context: what a process "
        "takes beside the caching allocator with torch 2.1 or newer; n/a: predictions take the widest of the table.",
        width,
    )
    for source in dict.fromkeys(one for gpu in table for one in gpu.sources.values()):
        lines += hanging(f"source: {source}", width)
    for gap in gaps:
        lines += hanging(f"n/a {gap}", width)
    return lines


def _text(value: int | None) -> str:
    return "n/a" if value is None else str(value)


def _context(one: Gpu) -> str:
    if one.context_bytes is None:
        return "n/a"
    low, high = one.context_bytes
    return f"{low // 2**20:,}-{high // 2**20:,}"
