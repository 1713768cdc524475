"""1 Spec: is this the workload that is meant, and is every parameter counted?"""

from __future__ import annotations

from itertools import zip_longest

from rich.text import Text

from tui.app.lines import at, cut, ending, fit, line, wrap
from tui.app.page import BLANK, Cursor, Page, Row, Scene, Section, answer
from tui.app.views.figures import Scale, scale_of, sized
from tui.project.measured import Inventory
from tui.project.model import Spec

_VALUE = 13
_NAMES = {"vocab": "vocabulary"}


def page(scene: Scene, width: int, height: int, cursor: Cursor) -> Page:
    """The spec on the left, formula against inventory on the right, shared names below."""
    spec: Spec = scene.project.spec
    inventory: Inventory | None = scene.project.measured.inventory
    parts = _parts(inventory, "spec" in scene.stale)
    beside = width >= 76
    middle = width - 43 if beside else width
    rows = [BLANK]
    for field, part in zip_longest(_fields(spec), parts if beside else ()):
        rows.append(_row(field, part, middle, width))
    rows.append(BLANK)
    scale = scale_of(scene.exact, inventory.parameter_bytes if inventory else None)
    rows += [_row(field, None, width, width) for field in _rest(spec, scale)]
    sections = [Section("", tuple(rows))]
    if not beside:
        table = tuple(_row(None, part, 1, width) for part in parts)
        sections.append(Section("formula against inventory", table))
    if inventory is not None:
        where = f"inventory, on the {inventory.device} device"
        sections.append(Section(where, _inventory(inventory, width, scale)))
    told = line((f" {fit(spec.title, width - 30)}", "dim"))
    if inventory is not None:
        at(told, max(38, told.cell_len + 3), f"counted for spec {inventory.spec[7:15]}", "dim")
    keys = (("r", "run inventory"), ("e", "edit file"), ("b", "bytes"), ("c", "copy"))
    return Page(_answer(scene, inventory, width), tuple(sections), told, keys)


def _answer(scene: Scene, inventory: Inventory | None, width: int) -> Text:
    if scene.live and scene.live.step == "params":
        return answer(width, "»", "RUNNING", "building the model to count its parameters")
    if inventory is None:
        return answer(width, "○", "EMPTY", "not counted: r builds the model and counts its parameters")
    if "spec" in scene.stale:
        return answer(width, "~", "STALE", scene.stale["spec"] + ": r counts again", good=False)
    found, said = inventory.unique_parameters, inventory.formula_parameters
    count = (f"{found:,}", "strong")
    if said is None:
        why = inventory.unknown.get("formula_parameters", "no formula named")
        return answer(width, "●", "COUNTED", count, f" parameters in the inventory; formula n/a: {why}")
    if said == found:
        return answer(width, "●", "AGREES", count, " parameters by formula and by inventory, difference 0")
    return answer(
        width,
        "×",
        "DISAGREES",
        count,
        f" in the inventory, {said:,} by formula: {found - said:+,}",
        good=False,
    )


def _fields(spec: Spec) -> list[tuple[str, str, str]]:
    """(name, value, key in the file) of what makes the model."""
    work = spec.workload
    fields = [("source", work.source, "workload.source")]
    family = work.formula or "of the source"
    fields.append(("formula", family, "workload.formula"))
    for key, value in work.args.items():
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        fields.append((_NAMES.get(key, key), shown, f"workload.args.{key}"))
    return fields


def _rest(spec: Spec, scale: Scale) -> list[tuple[str, str, str]]:
    """(name, value, key in the file) of how it is trained and judged."""
    batch, budget, quality = spec.workload.batch, spec.budget, spec.quality
    ranks = f" x {spec.placement.ranks} ranks" if spec.placement.ranks != 1 else ""
    total = batch.micro * batch.accumulate * spec.placement.ranks
    job = "the whole device" if budget.job is None else _size(budget.job, scale)
    target = "no target"
    if quality.target is not None:
        target = f"{'at most' if quality.direction == 'min' else 'at least'} {quality.target:g}"
    return [
        (
            "micro-batch",
            f"{batch.micro} x {batch.accumulate} accumulated{ranks} = {total} samples",
            "workload.batch",
        ),
        ("length", _length(spec), "workload.batch.length"),
        ("optimizer", _optimizer(spec), "workload.optimizer"),
        ("precision", f"{spec.precision.use}, compared: {', '.join(spec.precision.compare)}", "precision"),
        ("placement", _placement(spec), "placement"),
        ("budget", f"{job}, reserve {_size(budget.reserve, scale)}", "budget"),
        ("quality", f"{quality.metric}, {target}", "quality"),
    ]


def _size(value: int, scale: Scale) -> str:
    return f"{value:,} B" if scale.exact else f"{value / 2**30:.4g} GiB"


def _length(spec: Spec) -> str:
    length = spec.workload.batch.length
    if length is None:
        return "a fixed shape that the workload knows"
    steps = [one for one in (length.min, length.typical, length.max) if one is not None]
    return " to ".join(f"{one:,}" for one in steps) + ", measured at max"


def _optimizer(spec: Spec) -> str:
    made = spec.workload.optimizer
    how = "" if made.implementation == "default" else f" {made.implementation}"
    said = [made.name.rpartition(".")[2] + how]
    said += [
        f"{key} {value}" for key, value in made.args.items() if key in ("lr", "momentum", "weight_decay")
    ]
    if made.clip_norm is not None:
        said.append(f"clip {made.clip_norm:g}")
    return ", ".join(said)


def _placement(spec: Spec) -> str:
    place = spec.placement
    moved = [
        f"{name} on {where}"
        for name, where in (
            ("weights", place.weights),
            ("gradients", place.gradients),
            ("optimizer", place.optimizer),
            ("activations", place.activations),
        )
        if where != "device"
    ]
    ranks = "1 rank" if place.ranks == 1 else f"{place.ranks} ranks, {place.strategy}"
    return f"{ranks}, {', '.join(moved) if moved else 'everything on the device'}"


def _parts(inventory: Inventory | None, old: bool) -> list[tuple[str, str, str, str]]:
    """(name, by formula, by inventory, role) of the table on the right, heading first."""
    if inventory is None:
        return [("parameters", "formula", "inventory", "dim"), ("not counted yet", "-", "-", "dim")]
    formula, groups = inventory.formula_parts, inventory.groups
    parts = [("parameters", "formula", "inventory ~" if old else "inventory", "dim")]
    for name in [*formula, *(one for one in groups if one not in formula)]:
        parts.append((name, _count(formula, name), _count(groups, name), ""))
    said = inventory.formula_parameters
    total = "n/a" if said is None else f"{said:,}"
    return [*parts, ("= unique", total, f"{inventory.unique_parameters:,}", "strong")]


def _count(table: dict[str, int], name: str) -> str:
    if name not in table:
        return "-"
    return f"{table[name]:,}" if table[name] else "shared"


def _row(
    field: tuple[str, str, str] | None, part: tuple[str, str, str, str] | None, middle: int, width: int
) -> Row:
    text = line("")
    if field is not None:
        at(text, 1, fit(field[0], _VALUE - 2), "dim")
        at(text, _VALUE, fit(field[1], middle - _VALUE - 2))
    if part is not None:
        name, formula, found, role = part
        at(text, middle, fit(name, 18), role)
        ending(text, middle + 30, formula, role or "dim")
        ending(text, middle + 42, found, role if role == "dim" else "strong")
    detail = line((f" {field[2]} = ", "dim"), field[1]) if field else None
    return Row(cut(text, width), pick=field is not None, detail=detail, name=field[2] if field else "")


def _inventory(inventory: Inventory, width: int, scale: Scale) -> tuple[Row, ...]:
    frozen = inventory.unique_parameters - inventory.trainable_parameters
    dtypes = ", ".join(inventory.dtypes) or "n/a"
    told = line(
        f" {inventory.state_entries:,} state entries   {inventory.state_entry_elements:,} elements   ",
        ("all trainable", "strong") if not frozen else (f"{frozen:,} frozen", "strong"),
        f"   {sized(inventory.parameter_bytes, scale)} {'B' if scale.exact else scale.unit} in {dtypes}",
    )
    rows = [Row(cut(told, width))]
    if inventory.buffer_elements:
        rows.append(
            Row(line(f" buffers: {inventory.buffer_elements:,} elements, {inventory.buffer_bytes:,} B"))
        )
    rows += [Row(line(f" shared: {fit(one, width - 24)}, counted once")) for one in inventory.shared[:3]]
    if len(inventory.shared) > 3:
        rows.append(Row(line(f" and {len(inventory.shared) - 3} more shared names")))
    if (
        inventory.gradient_receiving is not None
        and inventory.gradient_receiving != inventory.trainable_parameters
    ):
        missing = inventory.trainable_parameters - inventory.gradient_receiving
        rows.append(Row(line((f" ! {missing:,} trainable parameters received no gradient", "amber"))))
    for name, why in inventory.unknown.items():
        rows += [Row(line((f" {one}", "dim"))) for one in wrap(f"{name} n/a: {why}", width - 2)]
    return tuple(rows)
