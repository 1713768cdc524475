"""Formula and inventory side by side, and what else the count found."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from tui.app.lines import at, cut, ending, fit, line, wrap
from tui.app.page import Row
from tui.app.views.figures import Scale, sized
from tui.budget.params import Formula
from tui.project.measured import Inventory

WIDE = 43
"""Columns of the table."""


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the table."""

    name: str
    formula: str
    inventory: str
    role: str = ""
    """ "dim" for a heading, "strong" for a sum."""


def parts(
    formula: dict[str, int], total: int | None, made: Formula | None, inventory: Inventory | None, old: bool
) -> list[Part]:
    """The table, heading first.

    Args:
        formula: elements by part, by formula.
        total: their sum; None: there is no formula.
        made: the formula itself, for what it tells besides; None: not known.
        inventory: what was counted; None: nothing yet.
        old: the inventory is of another spec.
    """
    groups = inventory.groups if inventory else {}
    heading = ("inventory ~" if old else "inventory") if inventory else "not counted"
    found = [Part("parameters", "formula", heading, "dim")]
    alike = {_kind(name): name for name in groups} if old else {}
    for name in formula:  # of another spec "12 blocks" stand beside "13 blocks"
        beside = name if name in groups else alike.get(_kind(name), name)
        found.append(Part(name, _count(formula, name), _count(groups, beside)))
    named = {_kind(name) for name in formula} if old else set(formula)
    for name in groups:
        if name not in formula and (_kind(name) if old else name) not in named:
            found.append(Part(name, "-", _count(groups, name)))
    unique = f"{inventory.unique_parameters:,}" if inventory else "-"
    found.append(Part("= unique", "n/a" if total is None else f"{total:,}", unique, "strong"))
    active = inventory.active_parameters if inventory else None
    if made is not None and made.active not in (None, made.total):
        found.append(Part("  active a token", f"{made.active:,}", "-" if active is None else f"{active:,}"))
    elif active is not None and inventory and active != inventory.unique_parameters:
        found.append(Part("  active a token", "-", f"{active:,}"))
    return found


def _kind(name: str) -> str:
    return name.lstrip("0123456789 ")


def _count(table: dict[str, int], name: str) -> str:
    if name not in table:
        return "-"
    return f"{table[name]:,}" if table[name] else "shared"


def beside(text: Text, part: Part, column: int, old: bool) -> Text:
    """``text`` with a line of the table from ``column`` on; an old inventory is dim."""
    name, role = part.name, part.role
    at(text, column, fit(name, 18), role)
    ending(text, column + 30, part.formula, role or "dim")
    return ending(text, column + 42, part.inventory, "dim" if old or role == "dim" else "strong")


def rows(inventory: Inventory, made: Formula | None, width: int, scale: Scale) -> tuple[Row, ...]:
    """What the count found besides, the most telling first.

    Args:
        inventory: the count.
        made: the formula, which tells tables from the rest; None: not known.
        width: columns.
        scale: of bytes.
    """
    unit = "B" if scale.exact else scale.unit
    said: list[Text] = []
    if inventory.difference and inventory.unique_parameters != inventory.formula_parameters:
        said += [line((f" {one}", "amber")) for one in wrap(f"! {inventory.difference}", width - 2)]
    said.append(_entries(inventory, scale, unit))
    said += [line(f" shared: {fit(one, width - 24)}, counted once") for one in inventory.shared[:3]]
    if len(inventory.shared) > 3:
        said.append(line(f" and {len(inventory.shared) - 3} more shared names"))
    if made is not None and made.embedding:
        said.append(
            line(f" embedding {made.embedding:,}, the rest {made.total - made.embedding:,}, by formula")
        )
    said += [line(" " + one) for one in _more(inventory, scale, unit)]
    received = inventory.gradient_receiving
    if received is not None and received != inventory.trainable_parameters:
        missing = inventory.trainable_parameters - received
        said.append(line((f" ! {missing:,} trainable parameters received no gradient", "amber")))
    for name, why in inventory.unknown.items():
        said += [line((f" {one}", "dim")) for one in wrap(f"{name} n/a: {why}", width - 2)]
    return tuple(Row(cut(one, width), pick=True) for one in said)


def _entries(inventory: Inventory, scale: Scale, unit: str) -> Text:
    frozen = inventory.unique_parameters - inventory.trainable_parameters
    dtypes = ", ".join(inventory.dtypes) or "n/a"
    return line(
        f" {inventory.state_entries:,} state entries  {inventory.state_entry_elements:,} elements  ",
        ("all trainable", "strong") if not frozen else (f"{frozen:,} frozen", "strong"),
        f"  {sized(inventory.parameter_bytes, scale)} {unit} in {dtypes}",
    )


def _more(inventory: Inventory, scale: Scale, unit: str) -> list[str]:
    said: list[str] = []
    if inventory.buffer_elements:
        kept = inventory.persistent_buffer_elements
        told = "" if kept is None else f", {kept:,} of them in a checkpoint"
        said.append(f"buffers: {inventory.buffer_elements:,} elements, {inventory.buffer_bytes:,} B{told}")
    if inventory.storage_bytes is not None and inventory.storage_bytes != inventory.parameter_bytes:
        said.append(
            f"storage: {sized(inventory.storage_bytes, scale)} {unit} behind parameters of "
            f"{sized(inventory.parameter_bytes, scale)} {unit}"
        )
    if inventory.packed_parameters:
        payload, metadata = inventory.packed_payload_bytes, inventory.packed_metadata_bytes
        said.append(
            f"packed: {inventory.packed_parameters:,} parameters in {sized(payload, scale)} {unit}, "
            f"scales and zero points {sized(metadata, scale)} {unit}"
        )
    if inventory.rank_parameters is not None and inventory.ranks > 1:
        padding = f", {inventory.rank_padding:,} of them padding" if inventory.rank_padding else ""
        size = "" if inventory.rank_bytes is None else f", {sized(inventory.rank_bytes, scale)} {unit}"
        said.append(
            f"per rank: {inventory.rank_parameters:,} elements on the fullest of {inventory.ranks}"
            f"{padding}{size}"
        )
    if inventory.modules:
        said.append(
            f"{inventory.modules:,} modules with {inventory.tensors:,} tensors: t shows them as a tree"
        )
    return said
