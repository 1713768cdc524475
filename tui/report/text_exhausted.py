"""Out of memory as text: what was asked, what was held, why it failed, what was alive, and what would fit."""

from __future__ import annotations

from collections.abc import Mapping

from tui.budget.rows import row_name
from tui.project.measured import Environment, Probe
from tui.report.figures import Unit
from tui.report.lines import labelled

SHOWN = 4
"""Modules and tensors that are named; the JSON document has more of them."""
EXPANDABLE = "expandable_segments:True"


def exhausted_lines(probe: Probe, unit: Unit, label: int, width: int) -> list[str]:
    """Everything that is known of the moment, one labelled paragraph each.

    Args:
        probe: one that ran out of memory.
        unit: of its figures.
        label: width of the labels' column.
        width: terminal columns.
    """
    said = [
        ("asked", _asked(probe, unit)),
        ("held", _held(probe, unit)),
        ("cap", _cap(probe, unit)),
        ("cause", cause(probe)),
        ("alive", _alive(probe, unit)),
        ("modules", _largest(probe.alive_modules, unit)),
        ("tensors", _largest(probe.alive_top, unit)),
        ("fits", probe.would_fit or ""),
    ]
    return [line for name, text in said if text for line in labelled(name, text, label, width)]


def cause(probe: Probe) -> str:
    """``FRAGMENTATION: the figures that it follows from``; "" of a probe from before causes were told."""
    return f"{probe.exhausted_class.upper()}: {probe.exhausted_why}" if probe.exhausted_class else ""


def remedy(probe: Probe, environment: Environment | None) -> str:
    """What helps against fragmentation, and against nothing else; "" where it is not that or is set already."""
    if probe.exhausted_class != "fragmentation" or (environment and EXPANDABLE in environment.allocator):
        return ""
    return f"Try PYTORCH_CUDA_ALLOC_CONF={EXPANDABLE}, and measure again."


def _asked(probe: Probe, unit: Unit) -> str:
    size = probe.asked_bytes
    return "" if size is None else f"{unit.text(size)} ({size:,} B)"


def _held(probe: Probe, unit: Unit) -> str:
    reserved, allocated, free = (
        probe.exhausted_reserved_bytes,
        probe.exhausted_allocated_bytes,
        probe.free_blocks_bytes,
    )
    parts: list[str] = []
    if reserved is not None and allocated is not None:
        largest = probe.largest_free_block_bytes
        block = "n/a" if largest is None else unit.cell(largest)
        cached = unit.cell(reserved - allocated if free is None else free)
        parts.append(
            f"{unit.cell(reserved)} reserved = {unit.cell(allocated)} allocated + {cached} cached "
            f"(largest block {block}, {unit.name})"
        )
    if probe.device_free_bytes is not None:
        whose = "the machine could give" if probe.device == "cpu" else "free on the device"
        parts.append(f"{whose} {unit.text(probe.device_free_bytes)}")
    return " · ".join(parts)


def _cap(probe: Probe, unit: Unit) -> str:
    size = probe.limit_bytes
    return "" if size is None else f"{unit.text(size)}, what the process was held to"


def _alive(probe: Probe, unit: Unit) -> str:
    alive = {key: size for key, size in probe.alive.items() if size}
    if not alive:
        return f"n/a: {probe.unknown['alive']}" if "alive" in probe.unknown else ""
    ordered = sorted(alive.items(), key=lambda item: -item[1])
    names = " · ".join(f"{row_label(key)} {unit.text(size)}" for key, size in ordered)
    source = f"; labels: {probe.alive_source}" if probe.alive_source else ""
    return f"{names} ({unit.text(sum(alive.values()))} requested{source})"


def _largest(sizes: Mapping[str, int], unit: Unit) -> str:
    named = [(name, size) for name, size in sizes.items() if name != "others"][:SHOWN]
    rest = sum(sizes.values()) - sum(size for _, size in named)
    told = [f"{name} {unit.text(size)}" for name, size in named]
    return " · ".join([*told, f"others {unit.text(rest)}"] if rest and told else told)


def row_label(key: str) -> str:
    """A ledger row's name for people."""
    try:
        return row_name(key).label
    except KeyError:
        return key.replace("_", " ")
