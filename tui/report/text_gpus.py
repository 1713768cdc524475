"""The table of GPUs as text."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase

from tui import units
from tui.budget.gpus import Gpu
from tui.report.lines import clip, hanging, wrap

NAME = 32


def gpus_lines(table: Sequence[Gpu], width: int = 80) -> list[str]:
    """Every GPU on a line, then where the figures come from."""
    head = f"{'GPU'.ljust(NAME)}{'GiB':>9}{'sm_':>6}{'SMs':>6}{'threads':>9}  context  from"
    keys = _keys(table)
    lines = [clip(head, width)]
    for one in table:
        capability = "n/a" if one.capability is None else f"{one.capability[0]}{one.capability[1]}"
        cells = f"{units.gib(one.total_bytes):>9}{capability:>6}{_text(one.sm_count):>6}{_text(one.threads_per_sm):>9}"
        lines.append(clip(f"{one.name.ljust(NAME)}{cells}  {_context(one):<7}  {_from(one, keys)}", width))
    gaps = [f"{one.name}: {name} {why}" for one in table for name, why in one.unknown.items()]
    lines += wrap(
        "GiB is the total as NVML has it; a program gets less. threads: resident on one SM. context: MiB that a "
        "process takes beside the caching allocator with torch 2.1 or newer; n/a: predictions take the widest of "
        "the table.",
        width,
    )
    for source, key in keys.items():
        lines += hanging(f"source {key}: {source}", width)
    for gap in gaps:
        lines += hanging(f"n/a {gap}", width)
    return lines


def _keys(table: Sequence[Gpu]) -> dict[str, str]:
    """A letter for every source."""
    every = dict.fromkeys(one for gpu in table for one in gpu.sources.values())
    return dict(zip(every, ascii_lowercase, strict=False))


def _from(one: Gpu, keys: dict[str, str]) -> str:
    """Letters of the sources of its figures, from left to right."""
    named = [one.sources[name] for name in FIGURES if name in one.sources]
    return "".join(keys.get(source, "?") for source in dict.fromkeys(named))


FIGURES = ("total", "capability", "sm_count", "threads_per_sm", "context")
"""Figures of a GPU in the order of the columns."""


def _text(value: int | None) -> str:
    return "n/a" if value is None else str(value)


def _context(one: Gpu) -> str:
    if one.context_bytes is None:
        return "n/a"
    low, high = one.context_bytes
    return f"{low // 2**20:,}-{high // 2**20:,}"
