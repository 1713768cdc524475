"""The Spec page as a pure function of project, cursor and what is typed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import sample
from app.fakes import FakeSource
from app.pages import laid, text
from tui.app import editing as e
from tui.app.fields import MORE, Field, model_groups, training_groups
from tui.app.page import Cursor
from tui.app.values import changes, text_of
from tui.budget.checked import formula_of

CASES = [
    (sample.cuda, (60, 16)),
    (sample.cuda, (80, 24)),
    (sample.cuda, (120, 40)),
    (sample.cpu, (79, 18)),
    (sample.empty, (64, 24)),
]


def fields(project: sample.SampleProject) -> dict[str, Field]:
    groups = (*model_groups(project.spec, True), *training_groups(project.spec, project.spec))
    return {one.key: one for group in groups for one in group.fields}


def typed(key: str, written: str, project: sample.SampleProject | None = None) -> e.FormState:
    project = project or sample.cuda()

    def count(draft) -> e.Counted:
        try:
            return e.Counted(formula_of(draft.spec))
        except ValueError as error:
            return e.Counted(None, str(error))

    begun = e.begin(fields(project)[key], project, count(project))
    made = replace(begun, line=begun.line.of(written))
    made = e.checked(made, project, FakeSource(project).check, count)
    return e.FormState(count(project), made, old=bool(made.changes))


def shown(key: str, written: str, size=(80, 24), project=None) -> list[str]:
    form = typed(key, written, project)
    project = project or sample.cuda()
    cursor = Cursor(field=key)
    cursor = replace(cursor, row=_row_of(project, key, size, cursor, form))
    made = laid(project or sample.cuda(), "spec", *size, cursor, form=form, message=form.editing.sentence)
    return [line.plain.rstrip() for line in made.lines]


def test_everything_is_seen_at_once_on_80_by_24():
    rows = text(sample.cuda(), "spec").split("\n")
    assert rows[3] == " source      workload.py  + add      parameters             formula   inventory"
    assert rows[9] == " context     1,024                   = unique           124,439,808 124,439,808"
    assert rows[10] == " batch       8 x 4 accumulated = 32 samples, global -, weighted by micro-batch"
    assert rows[11].startswith(" length      128 to 900 to 1,024, remainder drop, tokens labels")
    assert rows[12] == " optimizer   AdamW foreach, lr 0.0006, weight_decay 0.1, clip 1  + add"
    assert rows[16].startswith(" budget      60 GiB, reserve 4 GiB, for longest validation batch")
    assert rows[17] == " quality     validation loss, at most 3.3, 20 batches"
    assert rows[20] == " 149 state entries  163,037,184 elements  all trainable  474.700 MiB in float32"
    assert rows[23].startswith(" r run inventory  Enter change  t tree  e edit file ")


@pytest.mark.parametrize(("make", "size"), CASES, ids=lambda one: getattr(one, "__name__", str(one)))
def test_no_field_is_cut_away_and_the_one_under_the_cursor_is_in_sight(make, size):
    project = make()
    for key in fields(project):
        for form in (None, typed(key, "x" * 300, project)):
            cursor = Cursor(field=key, turned=frozenset({MORE}))
            found = _row_of(project, key, size, cursor, form)
            made = laid(project, "spec", *size, replace(cursor, row=found), form=form)
            assert len(made.lines) == size[1]
            assert max(line.cell_len for line in made.lines) <= size[0]
            roles = {str(span.style) for line in made.lines[3:-2] for span in line.spans}
            assert ("cursor" if form is None else "caret") in roles, key


def _row_of(project, key, size, cursor, form) -> int:
    from tui.app.page import Scene
    from tui.app.views import spec

    first, then = spec.laid(Scene(project=project), form or e.FormState(), size[0], cursor)
    return next(n for n, row in enumerate((*first, *then)) if key in [one.key for one in row.fields])


def test_the_formula_follows_what_is_typed_and_the_inventory_turns_dim():
    rows = shown("workload.args.layers", "13")
    assert rows[2] == "  » EDITING  131,527,680 parameters by formula, +7,087,872"
    assert rows[3].endswith("parameters             formula inventory ~")
    assert "13 blocks           92,142,336  85,054,464" in rows[6]
    assert rows[9].endswith("= unique           131,527,680 124,439,808")
    made = laid(sample.cuda(), "spec", cursor=Cursor(), form=typed("workload.args.layers", "13"))
    assert [str(span.style) for span in made.lines[9].spans][-1] == "dim"
    assert rows[23] == " Enter save  Esc give up  ctrl+u clear"


def test_an_invalid_value_has_a_mark_and_a_sentence_and_no_key_that_saves():
    rows = shown("workload.args.layers", "1x")
    assert rows[2] == "  ! INVALID  nothing is saved before it is mended"
    assert rows[5].startswith(" layers      1x !")
    assert rows[22] == " ! layers must be a whole number, got 1x; write one such as 8"
    assert "Enter" not in rows[23]


def test_values_that_contradict_each_other_may_be_saved_and_are_said():
    rows = shown("workload.args.heads", "10")
    assert rows[2] == "  » EDITING  no formula for it"
    assert rows[22] == " formula n/a: heads = 10 must divide width = 768, or head_dim must be given"
    assert rows[23].startswith(" Enter save")


def test_arguments_that_the_formula_refuses_are_still_said_when_they_are_saved():
    form = e.FormState(e.Counted(None, "inputs is not an argument of decoder"), old=True)
    made = laid(sample.cuda(), "spec", form=form)
    assert made.lines[2].plain == "  ~ STALE  formula n/a: inputs is not an argument of decoder"


def test_samples_of_a_step_follow_what_is_typed():
    assert "8 x 16  accumulated = 128 samples" in shown("workload.batch.accumulate", "16")[10]


def test_a_long_sentence_never_hides_what_is_typed():
    rows = shown("title", "x" * 10, (60, 16))
    assert any(row.startswith(" title       xxxxxxxxxx") for row in rows)
    rows = shown("quality.batches", "many", (60, 16))
    assert any("many !" in row for row in rows[3:13])
    assert "must be a whole number" in " ".join(rows[13:15])


def test_the_row_below_says_key_value_and_meaning_of_the_field():
    made = laid(sample.cuda(), "spec", cursor=Cursor(row=2, field="workload.args.layers"))
    assert made.lines[22].plain == " workload.args.layers = 12  blocks; default: 4"
    made = laid(sample.cuda(), "spec", cursor=Cursor(row=8, field="workload.batch.length"))
    assert made.lines[22].plain.startswith(" workload.batch.length = 128..900..1024  max, or min..max")


def test_a_closed_list_shows_its_choices_while_it_is_edited():
    rows = shown("precision.use", "fp16")
    assert rows[14].startswith(" precision   <fp16>, compared")
    assert rows[22] == " precision.use  fp32  tf32  bf16-autocast  fp16-autocast  bf16  fp16"
    assert rows[23] == " Enter save  Esc give up  ←→ choose"


def test_what_has_no_field_is_shown_and_edited_in_the_file():
    found = sample.cuda()
    step = replace(found.spec.workload.step, checkpoint=("Block",))
    work = replace(found.spec.workload, step=step)
    project = replace(found, spec=replace(found.spec, workload=work))
    shown = text(project, "spec", 80, 30)
    assert "─ without a field: e edits it in the file" in shown
    assert " workload.step.checkpoint  Block" in shown


def test_frozen_parameters_and_arguments_of_the_formula_are_fields_where_the_file_has_them():
    found = sample.cuda()
    work = replace(
        found.spec.workload, frozen=("wte.*", "wpe.*"), formula_args={"layers": 12, "vocab": 50257}
    )
    project = replace(found, spec=replace(found.spec, workload=work))
    shown = text(project, "spec", 80, 30)
    assert "without a field" not in shown
    groups = (*model_groups(project.spec, False), *training_groups(project.spec, project.spec))
    fields = {one.key: one for group in groups for one in group.fields}
    assert "workload.formula_args.layers" in fields
    frozen = fields["workload.frozen"]
    assert text_of(frozen, project.spec) == "wte.*, wpe.*"
    assert changes(frozen, "wte.*", project.spec, {}) == {"workload.frozen": ["wte.*"]}
    assert changes(frozen, "", project.spec, {}) == {"workload.frozen": None}


def test_a_difference_is_explained_and_what_else_was_counted_is_told():
    found = sample.cuda()
    inventory = replace(
        sample.inventory(),
        unique_parameters=163_037_184,
        difference="lm_head.weight has a tensor of its own: 38,597,376 elements",
        active_parameters=100_000_000,
        buffer_elements=1024,
        buffer_bytes=4096,
        persistent_buffer_elements=24,
        storage_bytes=2**29,
        packed_parameters=7,
        packed_payload_bytes=2**20,
        packed_metadata_bytes=2**19,
        ranks=4,
        rank_parameters=31_000_000,
        rank_bytes=124_000_000,
        rank_padding=3,
        modules=160,
    )
    project = replace(found, measured=replace(found.measured, inventory=inventory))
    shown = text(project, "spec", 100, 44)
    assert " ! lm_head.weight has a tensor of its own: 38,597,376 elements" in shown
    assert "active a token - 100,000,000" in " ".join(shown.split())
    assert " embedding 39,383,808, the rest 85,056,000, by formula" in shown
    assert " buffers: 1,024 elements, 4,096 B, 24 of them in a checkpoint" in shown
    assert " storage: 512.000 MiB behind parameters of 474.700 MiB" in shown
    assert " packed: 7 parameters in 1.000 MiB, scales and zero points 0.500 MiB" in shown
    assert " per rank: 31,000,000 elements on the fullest of 4, 3 of them padding, 118.256 MiB" in shown
    assert " 160 modules with 148 tensors: t shows them as a tree" in shown


def test_the_formula_of_an_uncounted_project_is_shown_before_any_run():
    rows = text(sample.empty(), "spec").split("\n")
    assert rows[2].startswith("  ○ EMPTY  124,439,808 by formula, not counted")
    assert rows[3].endswith("formula not counted")
