"""Changes of a spec: what their words mean, what is refused and how, and what becomes of the file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import mlp_project
import predictions as made
import pytest
from predictions import GIB, MIB

from tui.budget import what_if
from tui.budget.what_if import Change
from tui.budget.what_if_rows import APART, Case, compare
from tui.errors import UsageError
from tui.project.inventory import Inventory
from tui.project.load import Project, parse

TEXT = """\
# A comment that stays.
schema = 1
[workload]
source = "decoder"
args = { layers = 1, heads = 1, width = 8, vocab = 16, context = 64 }
[workload.batch]
micro = 4   # samples
length = 32
[budget]
job = "60 GiB"
reserve = "4 GiB"
"""


def project(text: str = TEXT) -> Project:
    return parse(Path("small.toml"), text.encode())


def changed(*words: str, text: str = TEXT) -> Project:
    found = project(text)
    return what_if.apply(found, [what_if.parse(word, found.spec) for word in words])


@pytest.mark.parametrize(
    ("word", "key", "value"),
    [
        ("batch=16", "workload.batch.micro", 16),
        ("accumulate=8", "workload.batch.accumulate", 8),
        ("length=2_048", "workload.batch.length.max", 2048),
        ("seq_len=64", "workload.batch.length.max", 64),
        ("precision=bf16-autocast", "precision.use", "bf16-autocast"),
        ("optimizer=adamw", "workload.optimizer.name", "torch.optim.AdamW"),
        ("optimizer=mine:Lion", "workload.optimizer.name", "mine:Lion"),
        ("implementation=fused", "workload.optimizer.implementation", "fused"),
        ("checkpoint=Block,Head", "workload.step.checkpoint", ["Block", "Head"]),
        ("checkpoint=none", "workload.step.checkpoint", []),
        ("ranks=8", "placement.ranks", 8),
        ("strategy=fsdp2", "placement.strategy", "fsdp2"),
        ("offload=host-pinned", "placement.activations", "host-pinned"),
        ("attention=eager", "workload.args.attention", "eager"),
        ("momentum=0.9", "workload.optimizer.args.momentum", 0.9),
        ("gradient_checkpointing=Block", "workload.step.checkpoint", ["Block"]),
        ("placement.reshard_after_forward=false", "placement.reshard_after_forward", False),
        ("workload.args.hidden=[8, 16]", "workload.args.hidden", [8, 16]),
        ("budget.job=24 GiB", "budget.job", "24 GiB"),
        ("workload.optimizer.args.betas=", "workload.optimizer.args.betas", None),
    ],
)
def test_a_word_means_one_key_and_its_value(word, key, value):
    found = what_if.parse(word)
    assert (found.key, found.becomes) == (key, value)
    assert type(found.becomes) is type(value)
    assert what_if.parse(what_if.word(found)) == found


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("bacth=16", "bacth is not a key of the spec; did you mean batch?"),
        (
            "workload.batch.micr=3",
            "workload.batch.micr is not a key of the spec; did you mean workload.batch.micro?",
        ),
        ("placement.gpus=3", "placement.gpus is not a key of the spec; did you mean placement.ranks?"),
        ("workload.batch=3", "workload.batch is a table; name one of its keys: micro, accumulate,"),
        ("placement.ranks.x=3", "placement.ranks.x is not a key of the spec, placement.ranks is no table"),
        ("optimizer=adamm", "optimizer=adamm is no class of torch.optim; did you mean Adam?"),
        ("batch", '"batch" is not a change; write name=value, such as batch=16'),
        ("=4", '"=4" is not a change'),
        ("a..b=4", "a..b is not a key of the spec"),
    ],
)
def test_a_word_that_means_nothing_is_refused_with_the_nearest(word, said):
    with pytest.raises(UsageError) as caught:
        what_if.parse(word)
    assert caught.value.sentence().startswith(said)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("batch=0", "batch=0: workload.batch.micro must be at least 1, got 0"),
        ("batch=many", 'batch=many: workload.batch.micro must be a whole number, got the text "many"'),
        (
            "precision=bf17",
            'precision=bf17: precision.use must be fp32, tf32, .* got "bf17"; did you mean bf16',
        ),
        ("attention=flash", 'attention=flash: attention must be one of "sdpa", "eager"'),
        ("workload.args.layerz=3", "layerz is not an argument of decoder; did you mean layers"),
        ("placement.param_dtype=bf16", "placement.param_dtype is an option of fsdp2, placement.strategy is"),
        ("clip=-1", "clip=-1: workload.optimizer.clip_norm must be greater than 0, got -1"),
        ("environment.python=/bin/sh", "environment.python belongs to this machine alone"),
    ],
)
def test_a_value_that_the_spec_cannot_have_is_refused_with_the_change_and_the_mend(word, said):
    with pytest.raises(UsageError, match=said):
        changed(word)


def test_what_the_workload_does_not_have_is_refused():
    mlp = mlp_project.text(8, "60 GiB")
    with pytest.raises(
        UsageError, match="attention: mlp has no choice of attention kernels; decoder or encoder have"
    ):
        changed("attention=eager", text=mlp)
    with pytest.raises(UsageError, match="length: this project's samples have no length"):
        changed("length=8", text=mlp)


def test_changes_apply_together_so_that_one_may_need_the_other():
    spec = changed("strategy=fsdp2", "ranks=2", "placement.param_dtype=bf16").spec
    assert (spec.placement.strategy, spec.placement.ranks, spec.placement.param_dtype) == ("fsdp2", 2, "bf16")


def test_the_present_spec_and_its_text_stay_as_they_are():
    before = project()
    after = what_if.apply(before, [what_if.parse("batch=16")])
    assert (before.spec.workload.batch.micro, after.spec.workload.batch.micro) == (4, 16)
    assert before.text == TEXT


def test_the_difference_is_of_the_lines_that_change_and_keeps_comments():
    lines = what_if.difference(project(), changed("batch=16", "length=64"), lines=0).splitlines()
    assert [line for line in lines if line[0] in "+-"][2:] == [
        "-micro = 4   # samples",
        "-length = 32",
        "+micro = 16   # samples",
        "+length = 64",
    ]


@pytest.mark.parametrize("length", ["length = 32", "length = { max = 32, min = 8 }", "length.max = 32"])
def test_a_length_is_changed_in_the_form_that_the_file_has(length):
    found = changed("length=64", text=TEXT.replace("length = 32", length))
    assert found.spec.workload.batch.length is not None
    assert found.spec.workload.batch.length.max == 64
    assert length.replace("32", "64") in found.text


def test_a_change_knows_what_was():
    found = project()
    assert str(what_if.parse("batch=16", found.spec)) == "workload.batch.micro 4 -> 16"
    assert str(what_if.parse("clip=1.0", found.spec)) == "workload.optimizer.clip_norm not set -> 1.0"
    assert what_if.parse("workload.args.width=16", found.spec).was == 8


def test_values_of_a_list_are_divided_outside_brackets_alone():
    assert [one.becomes for one in what_if.several("workload.args.hidden=[8, 8],[16]")] == [[8, 8], [16]]
    with pytest.raises(UsageError, match='"batch=4," is not a list of values'):
        what_if.several("batch=4,")


def test_a_later_scenario_takes_back_what_an_earlier_one_changed():
    spec = project().spec
    first = [what_if.parse("checkpoint=Block", spec), what_if.parse("batch=8", spec)]
    assert [what_if.word(one) for one in what_if.merged(first, [what_if.parse("checkpoint=none", spec)])] == [
        "batch=8"
    ]
    same = [what_if.parse("batch=4", spec)]
    assert what_if.merged([], same) == same


# --- side by side --------------------------------------------------------------------------------

COUNTED = Inventory("s", 1000, 10, 4000, 1000, 0, 0, 10, 1000, {"float32": 1000})


def case(spec: Project, micro: int | None = None, **more) -> Case:
    """A case of the H100, predicted where ``micro`` is given: FIXED + EACH x micro in the backward."""
    found = None
    if micro is not None:
        requested = made.FIXED + made.EACH * micro
        found = made.prediction("s", micro_batch=micro)
        peak = dataclasses.replace(
            found.phases["backward"],
            requested_bytes=requested,
            allocated_bytes=requested + MIB,
            reserved_bytes=requested + 20 * MIB,
            rows={"weights": GIB, "gradients": GIB, "retained_activations": made.EACH * micro},
        )
        found = dataclasses.replace(found, phases={"backward": peak})
    return Case(spec, COUNTED, "cuda", found, total_bytes=80 * GIB, **more)


def rows(now: Case, then: Case):
    found = compare(now, then, (Change("workload.batch.micro", 4, 8),))
    return found, {row.key: row for row in found.rows}


def test_predicted_rows_are_compared_and_what_changes_most_comes_first():
    found, by_key = rows(case(project(), 4), case(changed("batch=8"), 8))
    assert [(row.key, row.difference) for row in found.changed] == [
        ("retained_activations", 2 * GIB),
        ("requested", 2 * GIB),
        ("tensor_allocated", 2 * GIB),
        ("allocator_reserved", 2 * GIB),
        ("process", 2 * GIB),
    ]
    assert by_key["weights"].difference == 0
    assert by_key["process"].now.range == (4 * GIB + 540 * MIB, 4 * GIB + 635 * MIB)
    assert (by_key["context"].difference, by_key["context"].is_changed) == (0, False)
    assert found.then.verdict.spare_bytes == 60 * GIB - 4 * GIB - 6 * GIB - 635 * MIB


def test_without_a_prediction_declared_rows_are_compared_with_their_arithmetic():
    found, by_key = rows(case(project()), case(changed("precision=bf16", "optimizer=SGD")))
    assert [(row.key, row.difference) for row in found.changed] == [
        ("optimizer_state", -8000),
        ("weights", -2000),
        ("gradients", -2000),
    ]
    assert by_key["weights"].now.text == "1,000 x 4 B"
    assert by_key["weights"].then.text == "1,000 x 2 B"
    assert by_key["retained_activations"].difference is None
    assert found.then.verdict.word == "UNKNOWN"


def test_a_predicted_figure_is_never_taken_from_a_declared_one():
    refused = "cannot predict: workload.step.compile = true"
    found, by_key = rows(case(project(), 4), case(changed("precision=bf16"), refused=refused))
    # both declare their weights, so these are compared, as declared
    assert (by_key["weights"].now.origin, by_key["weights"].difference) == ("declared", -2000)
    assert [row.difference for row in found.changed[:4]] == [-4000, -2000, -2000, None]
    row = by_key["retained_activations"]
    assert (row.now.origin, row.then.origin, row.difference, row.is_changed) == ("predicted", "", None, True)
    assert (found.then.verdict.word, found.then.verdict.why) == ("UNKNOWN", refused)


def test_a_row_that_one_side_only_declares_says_why_it_has_no_difference():
    uncounted = dataclasses.replace(case(project(), 4), inventory=None)
    _, by_key = rows(uncounted, case(changed("batch=8")))
    assert (by_key["weights"].difference, by_key["weights"].why) == (None, APART)


def test_each_side_is_of_its_own_worst_phase():
    then = case(changed("batch=8"), 8)
    assert then.prediction is not None
    step = dataclasses.replace(
        then.prediction, worst_phase="step", phases={"step": then.prediction.phases["backward"]}
    )
    found, _ = rows(case(project(), 4), dataclasses.replace(then, prediction=step))
    assert found.phases == ("backward", "step")


def test_a_change_of_the_budget_alone_changes_the_verdict_and_no_row_of_the_process():
    found, _ = rows(case(project(), 8), case(changed("budget=8 GiB"), 8))
    assert [row.key for row in found.changed] == []
    assert (found.now.verdict.word, found.then.verdict.word) == ("FITS", "FITS ONLY WITHOUT THE RESERVE")
