"""Parameters, Verify and the restore rehearsal as text: lines of evidence, then one word."""

from __future__ import annotations

from collections.abc import Mapping

from tui import units
from tui.budget.params import FAMILIES, Formula, formula
from tui.project.measured import Check, Inventory, Measured
from tui.project.model import Spec
from tui.report import sentences
from tui.report.lines import clean, closing, hanging, joined, labelled, wrap

LABEL = 20
LONGEST_TITLE = 30
WORDS = {"pass": "ok", "fail": "FAIL", "note": "note", "n/a": "n/a"}


def params_lines(spec: Spec, measured: Measured, *, project: str, width: int = 80) -> list[str]:
    """Formula against unique inventory; the last line begins with AGREE, DISAGREE or UNKNOWN."""
    inventory = measured.inventory
    lines = joined([sentences.title(spec), spec.workload.source], width)
    if inventory is None:
        declared = spec_formula(spec)
        if declared:
            lines += _aligned(f"formula {declared.family}", f"{declared.total:,}", declared.text, width)
        lines += labelled("inventory (unique)", "n/a: not counted yet", LABEL, width)
        return [
            *lines,
            *closing(f"UNKNOWN: nothing was counted. Next: peakmark run {project} --steps params", width),
        ]
    if inventory.formula_parameters is not None:
        lines += _aligned(
            f"formula {inventory.formula}", f"{inventory.formula_parameters:,}", inventory.formula_text, width
        )
    else:
        lines += labelled("formula", f"n/a: {no_formula(inventory)}", LABEL, width)
    size = f"{inventory.tensors:,} tensors, {inventory.parameter_bytes:,} B"
    lines += _aligned("inventory (unique)", f"{inventory.unique_parameters:,}", size, width)
    lines += [*_parts(inventory, width), *_trainable(inventory, width), *_entries(inventory, width)]
    return [*lines, *closing(_params_verdict(inventory), width)]


def spec_formula(spec: Spec) -> Formula | None:
    """The formula that the spec asks to check, None when it asks for none or its arguments are wrong."""
    family = spec.workload.formula or spec.workload.source
    if family not in FAMILIES:
        return None
    try:
        return formula(family, spec.workload.args)
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


def _aligned(label: str, figure: str, text: str, width: int) -> list[str]:
    head = f"{clean(label).ljust(LABEL)}{figure:>13}  "
    return wrap(text, width, len(head), head)


def _parts(inventory: Inventory, width: int) -> list[str]:
    if inventory.formula_parameters is None or params_word(inventory) == "AGREE":
        return []
    difference = inventory.unique_parameters - inventory.formula_parameters
    lines = _aligned("difference", f"{difference:+,}", "", width)
    for part in dict.fromkeys([*inventory.formula_parts, *inventory.groups]):
        asked, counted = inventory.formula_parts.get(part), inventory.groups.get(part)
        if asked != counted:
            text = f"formula {units.count(asked)}, inventory {units.count(counted)}"
            lines += labelled(f"  {part}", text, LABEL, width)
    return lines


def _trainable(inventory: Inventory, width: int) -> list[str]:
    total, trained = inventory.unique_parameters, inventory.trainable_parameters
    text = "all trainable" if trained == total else f"{trained:,} trainable, {total - trained:,} frozen"
    received = inventory.gradient_receiving
    if received is None:
        text += "; gradients n/a: no backward was run yet"
    elif received == trained:
        text += ", all of these received a gradient in a real backward"
    else:
        text += f"; {trained - received:,} received no gradient in a real backward"
    return wrap(text, width)


def _entries(inventory: Inventory, width: int) -> list[str]:
    text = f"checkpoint: {inventory.state_entries:,} entries, {inventory.state_entry_elements:,} elements"
    if inventory.buffer_elements:
        text += f", of them {inventory.buffer_elements:,} of buffers ({inventory.buffer_bytes:,} B)"
    lines = wrap(text, width)
    for names in inventory.shared:
        lines += hanging(f"shared, counted once: {names}", width)
    return lines


def _params_verdict(inventory: Inventory) -> str:
    word = params_word(inventory)
    if word == "UNKNOWN":
        return f"UNKNOWN: {no_formula(inventory)}"
    if word == "AGREE":
        return "AGREE"
    more = inventory.unique_parameters - (inventory.formula_parameters or 0)
    if more > 0 and more == inventory.groups.get("output head"):
        return "DISAGREE. The output head is a tensor of its own: set tied = false, or tie it in the model."
    return "DISAGREE. Correct workload.args or workload.formula, or the model."


def verify_lines(
    spec: Spec, measured: Measured, verify_id: str | None = None, *, project: str, width: int = 80
) -> list[str]:
    """The checks of one Verify (None: the latest); the last line begins with VERIFIED, FAILED or UNKNOWN.

    Raises:
        KeyError: there is no such measurement.
    """
    verify_id = verify_id or max(measured.verify, default=None)
    if verify_id is None:
        return [
            *joined([sentences.title(spec)], width),
            *closing(f"UNKNOWN: never verified. Next: peakmark verify {project}", width),
        ]
    found = measured.verify[verify_id]
    place = sentences.device(measured.environment.get(found.environment))
    lines = joined([verify_id, place, found.precision, f"{units.long_duration(found.seconds)}"], width)
    lines += _checks(found.checks, width)
    done = f"{_count(found.checks, 'pass')} ok, {_count(found.checks, 'fail')} failed"
    word = "VERIFIED" if found.outcome == "verified" else "FAILED"
    following = (
        f"Next: peakmark probe {project}"
        if word == "VERIFIED"
        else "Figures of this model are not relied on."
    )
    return [*lines, *closing(f"{word} {verify_id}: {done}. {following}", width)]


def restore_lines(
    spec: Spec, measured: Measured, restore_id: str | None = None, *, project: str, width: int = 80
) -> list[str]:
    """One restore rehearsal (None: the latest); the last line begins with RESTORES, FAILED or UNKNOWN.

    Raises:
        KeyError: there is no such measurement.
    """
    restore_id = restore_id or max(measured.restore, default=None)
    if restore_id is None:
        never = f"UNKNOWN: never rehearsed. Next: peakmark restore {project}"
        return [*joined([sentences.title(spec)], width), *closing(never, width)]
    found = measured.restore[restore_id]
    story = f"saved after iteration {found.saved_after}, SIGKILL in {found.killed_in}, resumed"
    lines = wrap(f"{restore_id}: {story}, to {found.iterations}", width)
    lines += _checks(found.checks, width)
    peak = units.size(found.restore_peak_bytes)
    lines += labelled(
        f"peak  ({found.restore_peak_of})",
        _or_reason(peak, found.unknown.get("restore_peak_bytes")),
        LABEL,
        width,
    )
    again = found.killed_in - found.saved_after - 1
    recovery = f"{units.long_duration(found.recovery_s)}; {again} iterations ran twice"
    lines += labelled("time  to recover", _or_reason(recovery, found.unknown.get("recovery_s")), LABEL, width)
    if found.outcome == "restores":
        return [*lines, *closing(f"RESTORES. Next: peakmark report {project}", width)]
    return [*lines, *closing(f"FAILED {restore_id}: {_count(found.checks, 'fail')} checks failed.", width)]


def _or_reason(text: str, reason: str | None) -> str:
    return f"{text}: {reason}" if text.startswith("n/a") and reason else text


def _checks(checks: Mapping[str, Check], width: int) -> list[str]:
    lines: list[str] = []
    indent = min(max((len(check.title) for check in checks.values()), default=0) + 8, LONGEST_TITLE + 8)
    for check in checks.values():
        word = WORDS.get(check.outcome, check.outcome).ljust(5)
        lines += labelled(f"{word} {check.title}", check.text, indent, width)
    return lines


def _count(checks: Mapping[str, Check], outcome: str) -> int:
    return sum(check.outcome == outcome for check in checks.values())
