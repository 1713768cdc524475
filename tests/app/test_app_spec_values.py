"""Between the values of a project and what is typed for them, without a terminal."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import replace

import pytest

from app import sample
from app.fakes import FakeSource
from tui.app import editing as e
from tui.app.fields import MORE, Field, argument, model_groups, training_groups
from tui.app.values import changes, shown, text_of
from tui.app.views.spec import OUTSIDE
from tui.budget.params import ARGUMENTS
from tui.project.model import LengthSpec, SchedulerSpec, Spec, WorkloadSpec
from tui.units import parse_bytes


def full() -> Spec:
    found = sample.cuda_spec()
    scheduler = SchedulerSpec("torch.optim.lr_scheduler.CosineAnnealingLR", {"T_max": 2000})
    return replace(found, workload=replace(found.workload, scheduler=scheduler))


def fields(spec: Spec) -> dict[str, Field]:
    groups = (*model_groups(spec, True), *training_groups(spec, spec))
    return {one.key: one for group in groups for one in group.fields}


def _leaves(cls: type, key: str = "") -> set[str]:
    found: set[str] = set()
    instance = Spec(WorkloadSpec("", scheduler=SchedulerSpec(""))) if cls is Spec else cls
    for one in dataclasses.fields(instance):
        value = getattr(instance, one.name)
        name = f"{key}.{one.name}" if key else one.name
        found |= _leaves(value, name) if dataclasses.is_dataclass(value) else {name}
    return found


def test_every_key_of_a_project_has_a_field_or_is_shown_for_the_file():
    own = replace(full().workload, frozen=("wte.*",), formula_args={"layers": 12})
    shown = set(fields(replace(full(), workload=own))) | set(OUTSIDE)
    assert _leaves(Spec) - shown - {"schema"} == set()


@pytest.mark.parametrize("spec", [full(), sample.cuda().spec, sample.cpu().spec], ids=["full", "cuda", "cpu"])
def test_typing_what_stands_there_changes_nothing(spec):
    project = replace(sample.cuda(), spec=spec)
    source = FakeSource(project)
    for one in fields(spec).values():
        begun = e.begin(one, project, e.Counted())
        made = e.checked(replace(begun, before="\0"), project, source.check, lambda _: e.Counted())
        if one.kind in ("pair", "fold"):
            continue
        assert made.fault == "", one.key
        assert made.draft.spec == spec, one.key
        assert made.changes == {}, one.key


def test_every_argument_of_every_family_can_be_typed_as_its_default_is_shown():
    for family, declared in ARGUMENTS.items():
        for one in declared:
            spec = Spec(WorkloadSpec(family, {one.name: one.default}))
            field = argument(one.name, one.default, one)
            if one.default is None:
                continue
            plain = list(one.default) if isinstance(one.default, tuple) else one.default
            assert changes(field, text_of(field, spec), spec, {}) == {f"workload.args.{one.name}": plain}


def field(key: str, spec: Spec | None = None) -> Field:
    return fields(spec or full())[key]


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("workload.batch.micro", "16", 16),
        ("workload.batch.micro", "1,024", 1024),
        ("workload.batch.micro", " 1_000 ", 1000),
        ("workload.batch.global_batch", "", None),
        ("workload.optimizer.args.lr", "3e-4", 3e-4),
        ("workload.optimizer.clip_norm", "1", 1),
        ("workload.optimizer.clip_norm", "", None),
        ("budget.job", "60 GiB", "60 GiB"),
        ("precision.compare", "fp32, tf32 bf16", ["fp32", "tf32", "bf16"]),
        ("precision.compare", '["fp32", "tf32"]', ["fp32", "tf32"]),
        ("workload.args.gated", "true", True),
        ("workload.args.lora_targets", "qkv, up", ["qkv", "up"]),
        ("workload.args.dropout", "0.1", 0.1),
        ("title", 'a "title" # of mine', 'a "title" # of mine'),
    ],
)
def test_text_becomes_the_value_of_the_fields_kind(key, text, value):
    assert changes(field(key), text, full(), {}) == {key: value}


def own(**args) -> Spec:
    return Spec(WorkloadSpec("net.py", args))


@pytest.mark.parametrize(
    ("now", "text", "value"),
    [
        ("gelu", "relu", "relu"),
        ("gelu", "./a b#c", "./a b#c"),
        ("many", "4", 4),
        ("many", "1e-3", 1e-3),
        ("many", '"4"', "4"),
        (4, '"many"', "many"),
        ([1, 2], "none", "none"),
    ],
)
def test_an_argument_of_an_own_source_is_of_the_kind_that_is_typed(now, text, value):
    spec = own(width=now)
    assert changes(fields(spec)["workload.args.width"], text, spec, {}) == {"workload.args.width": value}


@pytest.mark.parametrize(("now", "kind"), [(4, "a whole number"), (0.5, "a number")])
def test_a_bare_word_in_the_place_of_an_own_number_is_refused(now, kind):
    spec = own(width=now)
    with pytest.raises(ValueError, match=f"width is {kind}, got many; write one such as {now}, or"):
        changes(fields(spec)["workload.args.width"], "many", spec, {})


def test_a_text_that_reads_like_a_number_keeps_its_quotes():
    spec = own(width="4", depth=4)
    assert [shown(fields(spec)[f"workload.args.{name}"], spec) for name in ("width", "depth")] == ['"4"', "4"]


@pytest.mark.parametrize("size", ["60 GiB", "1536 MiB", "12 GB", "500 MB", "3 KiB", "7 B"])
def test_a_size_is_typed_in_the_unit_that_it_was_written_in(size):
    spec = replace(full(), budget=replace(full().budget, job=parse_bytes(size)))
    assert text_of(fields(spec)["budget.job"], spec) == size


def test_schedulers_in_a_row_are_read_as_classes_with_their_arguments():
    lr = "torch.optim.lr_scheduler."
    warm_up = {"name": f"{lr}LinearLR", "args": {"start_factor": 0.1, "total_iters": 5}}
    args = {"schedulers": [warm_up, {"name": f"{lr}ConstantLR"}], "milestones": [5]}
    spec = full()
    spec = replace(spec, workload=replace(spec.workload, scheduler=SchedulerSpec(f"{lr}SequentialLR", args)))
    said = shown(fields(spec)["workload.scheduler.args.schedulers"], spec)
    assert said == "LinearLR (start_factor 0.1, total_iters 5) then ConstantLR"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1024", 1024),
        ("128..1024", {"min": 128, "max": 1024}),
        ("128..900..1024", {"min": 128, "typical": 900, "max": 1024}),
        ("128 900 1,024", {"min": 128, "typical": 900, "max": 1024}),
        ("128 to 900 to 1024", {"min": 128, "typical": 900, "max": 1024}),
        ("..900..1024", {"typical": 900, "max": 1024}),
    ],
)
def test_a_length_is_a_number_or_two_or_three(text, value):
    assert changes(field("workload.batch.length"), text, full(), {}) == {"workload.batch.length": value}


def test_a_length_that_is_a_table_in_the_file_is_changed_key_by_key():
    said = {"workload.batch.length": 9, "workload.batch.length.max": 10}
    made = changes(field("workload.batch.length"), "128..512", full(), said)
    assert made == {
        "workload.batch.length.min": 128,
        "workload.batch.length.typical": None,
        "workload.batch.length.max": 512,
    }


@pytest.mark.parametrize(
    "length", [LengthSpec(9), LengthSpec(9, 1), LengthSpec(9, 1, 3), LengthSpec(9, None, 3)]
)
def test_a_length_is_shown_as_it_is_typed(length):
    spec = full()
    work = replace(spec.workload, batch=replace(spec.workload.batch, length=length))
    spec = replace(spec, workload=work)
    one = field("workload.batch.length")
    made = changes(one, text_of(one, spec), spec, {"workload.batch.length.max": 1})
    assert LengthSpec(**{key.rpartition(".")[2]: value for key, value in made.items()}) == length


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("weight_decay = 0.1", {"weight_decay": 0.1}),
        ("betas = [0.9, 0.95]", {"betas": [0.9, 0.95]}),
        ("nesterov=true", {"nesterov": True}),
        ("mode = min", {"mode": "min"}),
        ('"odd key" = "x"', {'"odd key"': "x"}),
    ],
)
def test_an_argument_is_added_by_its_name_and_value(text, value):
    made = changes(field("workload.optimizer.args"), text, full(), {})
    assert made == {f"workload.optimizer.args.{name}": one for name, one in value.items()}


@pytest.mark.parametrize(
    ("key", "text", "sentence"),
    [
        (
            "workload.batch.micro",
            "8x",
            "workload.batch.micro must be a whole number, got 8x; write one such as 8",
        ),
        ("workload.batch.micro", "0", "workload.batch.micro must be at least 1, got 0; write 1 or more"),
        ("workload.args.layers", "0", "layers must be a whole number of at least 1, got 0"),
        ("workload.args.layers", "9" * 5000, "layers has too many digits"),
        ("workload.args.dropout", "1", "dropout must be a number from 0 up to but not 1, got 1"),
        ("workload.args.lora_targets", "qkw", 'did you mean "qkv"?'),
        ("workload.optimizer.clip_norm", "-1", "clip_norm must be greater than 0"),
        ("workload.optimizer.clip_norm", "nan", "must be finite"),
        ("workload.optimizer.name", "Adam W", "is not the name of a class"),
        ("workload.source", "decodre", "did you mean decoder?"),
        ("workload.source", "", "workload.source"),
        ("precision.compare", "fp23, bf16", "did you mean fp32?"),
        ("budget.job", "60", "60"),
        ("budget.job", "3 GiB", "is not smaller than budget.job"),
        ("workload.batch.length", "9..1", "is larger than max"),
        ("workload.batch.length", "1..2..3..4", "has too many parts"),
        ("workload.optimizer.args", "0.1", "write name = value"),
        ("workload.optimizer.args", "x = [1", "[1 is not a value"),
        ("quality.target", "low", "quality.target must be a number, got low"),
    ],
)
def test_what_may_not_be_is_said_in_a_sentence_and_changes_nothing(key, text, sentence):
    project = replace(sample.cuda(), spec=full())
    begun = e.pasted(e.begin(replace(field(key)), project, e.Counted()), "")
    made = replace(begun, line=begun.line.of(text))
    made = e.checked(made, project, FakeSource(project).check, lambda _: e.Counted())
    assert sentence in made.fault
    assert made.changes == {}
    assert made.draft is None


def test_a_closed_list_is_stepped_through_by_keys_and_by_its_letters():
    project = sample.cuda()
    begun = e.begin(field("precision.use"), project, e.Counted())
    assert begun.line.text == "bf16-autocast"
    stepped = e.pressed(begun, "right", None)
    assert stepped.line.text == "fp16-autocast"
    assert e.pressed(stepped, "left", None).line.text == "bf16-autocast"
    assert e.pressed(begun, "t", "t").line.text == "tf32"
    assert e.pressed(begun, "z", "z") is None
    flag = e.begin(field("workload.args.tied"), project, e.Counted())
    assert [e.pressed(flag, "space", " ").line.text, e.pressed(flag, "f", "f").line.text] == ["true", "false"]


def test_the_fold_of_arguments_names_how_many_are_left():
    spec = sample.cuda_spec()
    left = len(ARGUMENTS["decoder"]) - 5
    more = next(one for one in model_groups(spec, False)[1].fields if one.key == MORE)
    assert more.unset == f"► {left} more"
    assert len(model_groups(spec, True)) == len(model_groups(spec, False)) + left


def test_the_inverse_of_an_edit_brings_back_value_absence_and_tables():
    written = tomllib.loads('a = 1\n[b]\nc = "60 GiB"')
    assert e.inverse(written, {"a": 2, "b.c": "1 GiB", "b.d": 3, "e.f.g": 4}) == {
        "a": 1,
        "b.c": "60 GiB",
        "b.d": None,
        "e": None,
    }
