"""1 Spec: is this the workload that is meant, and is every parameter counted?"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from rich.text import Text

from tui.app.editing import Counted, Editing, FormState
from tui.app.fields import MORE, Field, lookup, model_groups, plain, training_groups
from tui.app.lines import at, cut, fit, line
from tui.app.page import BLANK, Cursor, Page, Row, Scene, Section, answer
from tui.app.values import text_of
from tui.app.views import counted
from tui.app.views.figures import scale_of
from tui.app.views.form import FormLine, Look, lay
from tui.budget.checked import formula_of
from tui.project.measured import Inventory
from tui.project.model import ENTERED_ROWS, Spec, WorkloadSpec

OUTSIDE = (
    "workload.batch.length_of",
    "workload.step.compile",
    "workload.step.checkpoint",
    "placement.shard_each",
    "placement.gradient_as_bucket_view",
    "placement.reshard_after_forward",
    "placement.param_dtype",
    "placement.reduce_dtype",
    "placement.reduce_bucket",
    "placement.master_weights",
    "placement.tensor_parallel",
    "placement.pipeline_parallel",
    "placement.expert_parallel",
    "placement.weights",
    "placement.gradients",
    "placement.optimizer",
    "placement.activations",
    "precision.seeds",
    "precision.steps",
    "budget.reserve_parts",
    *(f"ledger.{key}" for key in (*ENTERED_ROWS, "other_processes", "device_total", "expert_parameters")),
    "ledger.host.workers",
    "ledger.host.prefetch",
    "ledger.host.pin_memory",
    "environment.device",
    "environment.python",
    "environment.launch",
    "notes.brief",
    "notes.recovery",
    "notes.handoff",
)
"""Keys without a field: shown when they are not their default, changed in the file."""


def page(scene: Scene, width: int, height: int, cursor: Cursor) -> Page:
    """The form on the left, formula against inventory on the right, what else was counted below."""
    if cursor.pane == 1:
        from tui.app.views import modules

        return modules.page(scene, width, height, cursor)
    form = scene.form if scene.form is not None else _plain(scene)
    inventory: Inventory | None = scene.project.measured.inventory
    first, then = laid(scene, form, width, cursor)
    formula, total = _said(scene, form, inventory)
    table = counted.parts(formula, total, form.now.formula, inventory, form.old)
    wide = width >= 76
    middle = width - counted.WIDE
    pairs = zip_longest(first, table) if wide else ((one, None) for one in first)
    rows = [_row(one, part, middle, form) for one, part in pairs]
    training = [_row(one, None, middle, form) for one in then]
    space = [BLANK] if len(rows) + len(training) + 3 < height - 5 else []  # air, where nothing goes for it
    sections = [Section("", (*rows, *space, *training))]
    if not wide:
        lines = (counted.beside(line(""), part, 1, form.old) for part in table)
        sections.append(Section("formula against inventory", tuple(Row(one, pick=True) for one in lines)))
    scale = scale_of(scene.exact, inventory.parameter_bytes if inventory else None)
    if inventory is not None:
        where = f"inventory{' ~' if form.old else ''}, on the {inventory.device} device"
        sections.append(Section(where, counted.rows(inventory, form.now.formula, width, scale)))
    rest = outside(scene.project.spec)
    if rest:
        sections.append(Section("without a field: e edits it in the file", _outside(rest, width)))
    return Page(
        _answer(scene, form, inventory, total, width),
        tuple(sections),
        _detail(scene, form, cursor, width),
        _keys(form, cursor),
        typing=form.editing is not None,
    )


def laid(scene: Scene, form: FormState, width: int, cursor: Cursor) -> tuple[list[FormLine], list[FormLine]]:
    """The lines of the form: of the model, which stand beside the table, and of the rest."""
    spec = scene.project.spec
    draft = form.editing.draft.spec if form.editing is not None and form.editing.draft is not None else spec
    look = Look(spec, cursor.field, form.editing, scene.exact)
    beside = width - counted.WIDE - 1 if width >= 76 else width
    return (
        lay(model_groups(spec, MORE in cursor.turned), beside, look),
        lay(training_groups(spec, draft), width, look),
    )


def _plain(scene: Scene) -> FormState:
    """The form of a scene that says nothing about it."""
    try:
        made = Counted(formula_of(scene.project.spec))
    except ValueError as error:
        made = Counted(None, str(error))
    return FormState(made, old="spec" in scene.stale)


def _said(scene: Scene, form: FormState, inventory: Inventory | None) -> tuple[dict[str, int], int | None]:
    """Parts and total by formula: those of the count itself as long as it is of what is shown."""
    typed = form.editing is not None and bool(form.editing.changes)
    if inventory is not None and not form.old and not typed and inventory.formula_parameters is not None:
        return inventory.formula_parts, inventory.formula_parameters
    made = form.now.formula
    return (dict(made.parts), made.total) if made is not None else ({}, None)


def _answer(
    scene: Scene, form: FormState, inventory: Inventory | None, total: int | None, width: int
) -> Text:
    by_formula = "n/a" if total is None else f"{total:,}"
    if form.editing is not None:
        return _edited(form, form.editing, by_formula, width)
    if scene.live and scene.live.step == "predict":
        from tui.app.views.predicting import going_on  # with the table of GPUs: not for the first paint

        return going_on(scene, width) or answer(width, "»", "PREDICTING")
    if scene.live and scene.live.step == "params":
        return answer(width, "»", "RUNNING", "building the model to count its parameters")
    if inventory is None:
        if total is None:
            why = f"formula n/a: {form.now.why}" if form.now.why else "r builds the model and counts them"
            return answer(width, "○", "EMPTY", f"parameters not counted: {why}")
        return answer(
            width, "○", "EMPTY", (by_formula, "strong"), " by formula, not counted: r builds the model"
        )
    found = inventory.unique_parameters
    if form.old and total is None and form.now.why:  # what r would refuse, said before it is pressed
        return answer(width, "~", "STALE", f"formula n/a: {form.now.why}", good=False)
    if form.old:
        why = scene.stale.get("spec", "the spec has changed since")
        return answer(width, "~", "STALE", f"{why}: r counts again", good=False)
    count = (f"{found:,}", "strong")
    if total is None:
        why = inventory.unknown.get("formula_parameters", form.now.why or "no formula named")
        return answer(width, "●", "COUNTED", count, f" parameters in the inventory; formula n/a: {why}")
    if total == found:
        return answer(width, "●", "AGREES", count, " parameters by formula and by inventory, difference 0")
    said = f" in the inventory, {by_formula} by formula: {found - total:+,}"
    return answer(width, "×", "DISAGREES", count, said, good=False)


def _edited(form: FormState, editing: Editing, by_formula: str, width: int) -> Text:
    """What the formula says of what is typed, and how far that is from what is saved."""
    if editing.fault:
        return answer(width, "!", "INVALID", "nothing is saved before it is mended", good=False)
    now, was = editing.counted.formula, form.counted.formula
    if now is None:
        return answer(width, "»", "EDITING", "no formula for it")
    more = f", {now.total - was.total:+,}" if was is not None and now.total != was.total else ""
    return answer(width, "»", "EDITING", (by_formula, "strong"), f" parameters by formula{more}")


def _row(one: FormLine | None, part: counted.Part | None, middle: int, form: FormState) -> Row:
    text = line("") if one is None else one.text.copy()
    if part is not None:
        counted.beside(text, part, middle, form.old)
    return Row(text, pick=one is not None, marked=one is not None)


def outside(spec: Spec) -> list[tuple[str, str]]:
    """(key, value) of what the file says and no field shows."""
    blank = Spec(WorkloadSpec(""))
    found: list[tuple[str, str]] = []
    for key in OUTSIDE:
        value = lookup(spec, key)
        if value != lookup(blank, key):
            shown = value if not isinstance(value, Mapping) else [f"{k} {plain(v)}" for k, v in value.items()]
            found.append((key, plain(shown)))
    return found


def _outside(rest: list[tuple[str, str]], width: int) -> tuple[Row, ...]:
    made = []
    for key, value in rest:
        text = line((f" {key}", "dim"))
        at(text, max(26, text.cell_len + 2), fit(value, max(8, width - max(26, text.cell_len + 2) - 1)))
        made.append(
            Row(cut(text, width), pick=True, detail=line((f" {key}", "dim"), " is edited in the file: e"))
        )
    return tuple(made)


def _detail(scene: Scene, form: FormState, cursor: Cursor, width: int) -> Text:
    """What the field under the cursor means; without one what the project is, and when it was counted."""
    spec: Spec = scene.project.spec
    if form.editing is not None:
        return _told(form.editing.field, None, width)
    first, then = laid(scene, form, width, cursor)
    here = next((one for row in (*first, *then) for one in row.fields if one.key == cursor.field), None)
    if here is not None and cursor.field:
        return _told(here, spec, width)
    inventory = scene.project.measured.inventory
    told = line((f" {fit(spec.title, width - 30)}", "dim"))
    if inventory is not None:
        at(told, max(38, told.cell_len + 3), f"counted for spec {inventory.spec[7:15]}", "dim")
    return told


def _told(one: Field, spec: Spec | None, width: int) -> Text:
    """Key, value and meaning; while it is typed (no ``spec``) the choices, as the value stands above."""
    if one.kind == "fold":
        return line((f" {one.meaning}", "dim"))
    text = line((f" {one.key}{'.' if one.kind == 'pair' else ''}", "dim"))
    value = text_of(one, spec) if spec is not None else ""
    text.append(f" = {fit(value, width // 2)}" if value else "", "strong")
    room = max(8, width - text.cell_len - 3)
    choices = "  ".join(choice for choice in one.choices if choice)
    told = choices if spec is None and choices and len(choices) <= room else one.meaning
    return text.append("  " + fit(told, room), "dim")


def _keys(form: FormState, cursor: Cursor) -> tuple[tuple[str, str], ...]:
    if form.editing is not None:
        return _typing_keys(form.editing)
    count, change = ("r", "run inventory"), ("Enter", "fold" if cursor.field == MORE else "change")
    undo = (("u", "undo"),) if form.undo else ()
    return (
        count,
        change,
        ("t", "tree"),
        ("e", "edit file"),
        ("p", "predict"),
        *undo,
        ("b", "bytes"),
        ("c", "copy"),
    )


def _typing_keys(editing: Editing) -> tuple[tuple[str, str], ...]:
    if editing.fault:
        return (("Esc", "give up"), ("ctrl+u", "clear"))
    way = (("←→", "choose"),) if editing.field.closed else (("ctrl+u", "clear"),)
    return (("Enter", "save" if editing.changes else "leave"), ("Esc", "give up"), *way)
