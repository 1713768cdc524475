"""The parameters as text: formula, inventory, what the difference comes from, and one word."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tui import units
from tui.budget.checked import formula_of
from tui.budget.params import Formula
from tui.project.measured import Inventory, Measured
from tui.project.model import Spec
from tui.project.modules import Modules
from tui.report import sentences
from tui.report.lines import clean, closing, hanging, joined, labelled, wrap

LABEL = 20
FIGURE = 13
NAMED = 3
"""Names of parameters that are said at most."""

_NOTES = {"meta": "device", "packed_parameters": "packed", "state_entries": "entries", "modules": "tree"}
"""Words for what is told of at the end, by the key of its reason."""

_CAUSE = re.compile(r"([+-][0-9,]+): (.*)", re.DOTALL)
_SET = re.compile(r"\b(?:set|what) ([a-z_0-9]+ = \S+?)(?=[;,]| or | changes|$)")


def params_lines(
    spec: Spec,
    measured: Measured,
    *,
    project: str,
    width: int = 80,
    formula: Formula | None = None,
    tree: Modules | None = None,
    between: Sequence[str] = (),
) -> list[str]:
    """Formula against unique inventory; the last line begins with AGREE, DISAGREE or UNKNOWN.

    Args:
        spec: of the project.
        measured: of the project.
        project: its path as a command names it.
        width: columns.
        formula: of the spec as it is now; None: what can be told from the spec alone.
        tree: of the last count, None: not at hand, so no names are said.
        between: lines to put before the verdict.
    """
    inventory = measured.inventory
    formula = formula or spec_formula(spec)
    lines = joined([sentences.title(spec), spec.workload.source], width)
    if inventory is None:
        if formula:
            lines += _aligned(f"formula {formula.family}", formula.total, formula.text, width)
            lines += _of_formula(formula, width)
        lines += labelled("inventory (unique)", "n/a: not counted yet", LABEL, width)
        return [
            *lines,
            *between,
            *closing(f"UNKNOWN: nothing was counted. Next: peakmark run {project} --steps params", width),
        ]
    if inventory.formula_parameters is not None:
        family, total = f"formula {inventory.formula}", inventory.formula_parameters
        lines += _aligned(family, total, inventory.formula_text, width)
        if formula and formula.total == total:
            lines += _of_formula(formula, width)
    else:
        lines += labelled("formula", f"n/a: {no_formula(inventory)}", LABEL, width)
    size = f"{inventory.tensors:,} tensor{'' if inventory.tensors == 1 else 's'}, {inventory.parameter_bytes:,} B"
    lines += _aligned("inventory (unique)", inventory.unique_parameters, size, width)
    lines += _difference(inventory, width)
    lines += [*_stored(inventory, width), *_ranks(spec, inventory, width), *_active(inventory, width)]
    lines += [
        *_trainable(inventory, tree, width),
        *_entries(inventory, tree, width),
        *_notes(inventory, width),
    ]
    return [*lines, *between, *closing(_verdict(spec, inventory), width)]


def spec_formula(spec: Spec) -> Formula | None:
    """The formula that the spec by itself asks to check; None: none, its arguments are wrong, or a file says them."""
    try:
        return formula_of(spec)
    except ValueError:
        return None


def no_formula(inventory: Inventory) -> str:
    """Why no formula was checked."""
    return inventory.unknown.get("formula_parameters") or "this source has none; set workload.formula"


def params_word(inventory: Inventory | None) -> str:
    """AGREE, DISAGREE, or UNKNOWN when one side is not there."""
    if inventory is None or inventory.formula_parameters is None:
        return "UNKNOWN"
    return "AGREE" if inventory.formula_parameters == inventory.unique_parameters else "DISAGREE"


def causes(difference: str) -> list[tuple[str, str]]:
    """(count or label, text) of every part of ``Inventory.difference``, in order.

    >>> causes("explained 2 of 5: +2: a head")
    [('explained', '2 of 5'), ('+2', 'a head')]
    """
    found: list[tuple[str, str]] = []
    rest = difference
    if rest.startswith("explained "):
        head, _, rest = rest.removeprefix("explained ").partition(": ")
        found.append(("explained", head))
    for part in rest.split("; ") if rest else ():
        cause = _CAUSE.fullmatch(part)
        found.append((cause[1], cause[2]) if cause else ("", part))
    return found


def without_gradient(tree: Modules | None) -> list[str]:
    """Names of trainable parameters that a backward gave no gradient, in the model's order."""
    if tree is None:
        return []
    return [one.name for one in tree.parameters if one.trainable and one.received is False]


def shared_elements(tree: Modules | None) -> dict[str, int]:
    """Elements of each tensor that has several names, by these as ``Inventory.shared`` has them."""
    found = () if tree is None else tree.parameters
    return {" = ".join(reversed([one.name, *one.also])): one.elements for one in found if one.also}


def _aligned(label: str, figure: int, text: str, width: int, *, signed: bool = False) -> list[str]:
    number = f"{figure:+,}" if signed else f"{figure:,}"
    head = f"{clean(label).ljust(LABEL)}{number:>{FIGURE}}  "
    return wrap(text, width, len(head), head)


def _of_formula(formula: Formula, width: int) -> list[str]:
    """Which of the formula's elements are tables, and which work on one token where not all do."""
    lines: list[str] = []
    if formula.embedding:
        text = f"non-embedding {formula.total - formula.embedding:,}"
        lines += _aligned("  of it embedding", formula.embedding, text, width)
    if formula.active is not None and formula.active != formula.total:
        lines += _aligned("  of it active", formula.active, "work on one token", width)
    return lines


def _difference(inventory: Inventory, width: int) -> list[str]:
    if inventory.formula_parameters is None or params_word(inventory) == "AGREE":
        return []
    more = inventory.unique_parameters - inventory.formula_parameters
    lines = _aligned("difference", more, "", width, signed=True)
    told = causes(inventory.difference)
    for count, text in told:
        lines += labelled(f"  {count}", text, LABEL, width)
    if told and told[0][0] != "explained":  # all of it: what else has other names is no difference
        return lines
    if set(inventory.formula_parts) & set(inventory.groups):
        for part in dict.fromkeys([*inventory.formula_parts, *inventory.groups]):
            asked, counted = inventory.formula_parts.get(part), inventory.groups.get(part)
            if (asked or 0) != (counted or 0):
                text = f"formula {units.count(asked)}, inventory {units.count(counted)}"
                lines += labelled(f"  {part}", text, LABEL, width)
    return lines


def _stored(inventory: Inventory, width: int) -> list[str]:
    lines: list[str] = []
    stored, size = inventory.stored_elements, inventory.storage_bytes
    if stored is not None and stored != inventory.unique_parameters:
        word = "held here" if inventory.state == "partitioned" else "as stored"
        text = f"elements ({inventory.state}), {inventory.parameter_bytes:,} B"
        lines += _aligned(f"  {word}", stored, text, width)
    if inventory.packed_parameters:
        text = f"elements low-bit: payload {inventory.packed_payload_bytes or 0:,} B, "
        text += f"scales, zero points and code books {inventory.packed_metadata_bytes or 0:,} B"
        lines += _aligned("  packed", inventory.packed_parameters, text, width)
    if size is not None and size != inventory.parameter_bytes:
        text = f"{size:,} B, {_side(size - inventory.parameter_bytes)}"
        lines += labelled("  storage", text, LABEL, width)
    return lines


def _side(more: int) -> str:
    if more < 0:
        return f"{-more:,} B less than the tensors: some are views of one storage"
    return f"{more:,} B more than the tensors use of it"


def _ranks(spec: Spec, inventory: Inventory, width: int) -> list[str]:
    if inventory.ranks == 1:
        return []
    strategy = spec.placement.strategy
    if inventory.rank_parameters is None:
        why = inventory.unknown.get("rank_parameters", "not recorded")
        return labelled("  a rank", f"n/a: {why}", LABEL, width)
    text = f"on each of {inventory.ranks} ranks ({strategy}), {inventory.rank_bytes or 0:,} B"
    if strategy == "fsdp2":
        text = f"on the fullest of {inventory.ranks} ranks (fsdp2, rows of each parameter), "
        text += f"{inventory.rank_bytes or 0:,} B"
        if inventory.rank_padding is not None:
            text += f"; padding {inventory.rank_padding:,} elements over all ranks"
    if inventory.rank_gathered_bytes:
        text += f"; at most {inventory.rank_gathered_bytes:,} B of whole weights at once"
    return _aligned("  a rank", inventory.rank_parameters, text, width)


def _active(inventory: Inventory, width: int) -> list[str]:
    active = inventory.active_parameters
    if active is None:
        why = inventory.unknown.get("active_parameters")
        return labelled("  active a token", f"n/a: {why}", LABEL, width) if why else []
    if active == inventory.unique_parameters:
        return []
    return _aligned("  active a token", active, "without the experts that it is not sent to", width)


def _trainable(inventory: Inventory, tree: Modules | None, width: int) -> list[str]:
    total, trained = inventory.unique_parameters, inventory.trainable_parameters
    text = "all trainable" if trained == total else f"{trained:,} trainable, {total - trained:,} frozen"
    received = inventory.gradient_receiving
    if received is None:
        text += f"; gradients n/a: {inventory.unknown.get('gradient_receiving') or 'no backward was run yet'}"
    elif received == trained:
        text += ", all of these received a gradient in a real backward"
    else:
        text += f"; {trained - received:,} received no gradient in a real backward"
        if names := without_gradient(tree):
            text += f": {', '.join(names[:NAMED])}"
            text += f" and {len(names) - NAMED:,} more tensors" if len(names) > NAMED else ""
    return wrap(text, width)


def _entries(inventory: Inventory, tree: Modules | None, width: int) -> list[str]:
    text = f"checkpoint: {inventory.state_entries:,} entries, {inventory.state_entry_elements:,} elements"
    if inventory.buffer_elements:
        text += f"; buffers: {inventory.buffer_elements:,} elements ({inventory.buffer_bytes:,} B)"
        kept = inventory.persistent_buffer_elements
        if kept is not None:
            some = f"{kept:,} of them" if kept else "none of them"
            text += f", {'all' if kept == inventory.buffer_elements else some} in it"
    lines = wrap(text, width)
    sizes = shared_elements(tree)
    for names in inventory.shared:
        size = f" ({sizes[names]:,} elements)" if names in sizes else ""
        lines += hanging(f"shared, counted once: {names}{size}", width)
    return lines


def _notes(inventory: Inventory, width: int) -> list[str]:
    """What else could not be told as it is told elsewhere."""
    lines: list[str] = []
    for key, word in _NOTES.items():
        if key in inventory.unknown:
            lines += hanging(f"{word}: {inventory.unknown[key]}", width)
    return lines


def _verdict(spec: Spec, inventory: Inventory) -> str:
    word = params_word(inventory)
    if word == "UNKNOWN":
        return f"UNKNOWN: {no_formula(inventory)}"
    if word == "AGREE":
        return "AGREE"
    changes = list(dict.fromkeys(_SET.findall(inventory.difference)))
    if changes:
        return f"DISAGREE. Set {' and '.join(changes)}, or change the model."
    more = inventory.unique_parameters - (inventory.formula_parameters or 0)
    if not inventory.difference and more > 0 and more == inventory.groups.get("output head"):
        return "DISAGREE. The output head is a tensor of its own: set tied = false, or tie it in the model."
    work = spec.workload
    if work.source.endswith(".py") and not work.args and not work.formula_args:
        return (
            f"DISAGREE. The {work.formula} formula has all arguments at their defaults: write this model's in "
            f"workload.formula_args (peakmark calc params --list {work.formula})."
        )
    return "DISAGREE. Correct workload.formula or its arguments (formula_args, else args), or the model."
