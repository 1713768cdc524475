"""What [ledger] and the parts of a reserve may say, and that neither makes a measurement stale."""

from pathlib import Path

import pytest
from project_samples import USER, with_measured

from tui.errors import ProjectError
from tui.project.fingerprint import model_hash, spec_hash
from tui.project.load import parse

GIB = 2**30


def project(lines="", user=USER):
    return parse(Path("gpt.toml"), f"{user}{lines}".encode())


def said(lines, user=USER):
    with pytest.raises(ProjectError) as caught:
        project(lines, user)
    return str(caught.value)


PLAIN = USER.replace('reserve = "4 GiB"\n', "")


def test_entered_sizes_are_read_by_row_of_the_ledger():
    found = project(
        '[ledger]\nretained_activations = "3 GiB"\ncontext = "500 MiB"\nother_processes = "2 GiB"\n'
        'device_total = "80 GiB"\n[ledger.host]\nworkers = 4\npin_memory = true\n'
    ).spec.ledger
    assert found.entered == {
        "retained_activations": 3 * GIB,
        "context": 500 * 2**20,
        "others": 2 * GIB,
        "device_total": 80 * GIB,
    }
    assert (found.device_total, found.other_processes) == (80 * GIB, 2 * GIB)
    assert (found.host.workers, found.host.prefetch, found.host.pin_memory) == (4, 2, True)


def test_nothing_is_entered_by_default_and_0_is_something():
    assert project().spec.ledger.entered == {}
    assert project("[ledger]\ncached = 0\n").spec.ledger.entered == {"cached": 0}


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ('[ledger]\ncached = "3"', 'ledger.cached = "3"'),
        ('[ledger]\ncached = "-3 GiB"', 'ledger.cached = "-3 GiB" is negative'),
        ('[ledger]\nretained_activation = "3 GiB"', "did you mean retained_activations?"),
        ("[ledger]\ndevice_total = 0", "ledger.device_total must be at least 1, got 0"),
        ("[ledger.host]\nworkers = -1", "ledger.host.workers must be at least 0, got -1"),
        ("[ledger.host]\nprefetch = 0", "ledger.host.prefetch must be at least 1, got 0"),
        (
            '[ledger]\ndevice_total = "2 GiB"\nother_processes = "1 GiB"\ndriver_reserved = "1 GiB"',
            "ledger.device_total (2 GiB) is not larger than what others and the driver hold of it (2 GiB)",
        ),
        ("[ledger]\nexpert_parameters = 5", "placement.expert_parallel divides, which is 1"),
    ],
)
def test_what_cannot_be_entered_is_one_sentence_with_its_line(lines, sentence):
    assert sentence in said(lines)
    assert "gpt.toml:" in said(lines)


def test_parts_of_a_reserve_add_up_to_it_and_say_what_it_is_for():
    budget = project(
        'reserve_parts = { "longest batch" = "1 GiB", checkpoint = "2 GiB" }\n', PLAIN
    ).spec.budget
    assert (budget.reserve, budget.reserve_for) == (3 * GIB, "longest batch 1 GiB, checkpoint 2 GiB")
    assert budget.reserve_parts == {"longest batch": GIB, "checkpoint": 2 * GIB}


def test_a_reserve_beside_its_parts_must_be_their_sum():
    parts = '[budget.reserve_parts]\nvalidation = "1 GiB"\n"fragmentation growth" = "{}"\n'
    assert project(parts.format("3 GiB")).spec.budget.reserve == 4 * GIB
    assert "budget.reserve (4 GiB) is not the sum of budget.reserve_parts (3 GiB)" in said(
        parts.format("2 GiB")
    )


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ('reserve_parts = { validation = "1" }', 'budget.reserve_parts.validation = "1"'),
        ('reserve_parts = { " " = "1 GiB" }', "has a part without a name"),
        ('reserve_parts = { checkpoint = "60 GiB" }', "is not smaller than budget.job (60 GiB, line"),
    ],
)
def test_parts_that_no_reserve_has_are_refused_where_they_stand(lines, sentence):
    assert sentence in said(lines, PLAIN)
    line = 1 + PLAIN.count("\n")
    assert f"gpt.toml:{line}" in said(lines, PLAIN)


@pytest.mark.parametrize(
    "lines",
    [
        '[ledger]\nretained_activations = "3 GiB"\nother_processes = "2 GiB"\ndevice_total = "80 GiB"\n',
        "[ledger.host]\nworkers = 8\n",
        '[budget.reserve_parts]\nvalidation = "4 GiB"\n',
    ],
)
def test_entered_sizes_and_budgets_change_nothing_of_what_was_measured(lines):
    before, after = project(), project(lines)
    assert before.spec != after.spec
    assert spec_hash(before) == spec_hash(after)
    assert model_hash(before) == model_hash(after)


INVENTORY = """
[measured.inventory]
spec = "sha256:4be1aaaa"
unique_parameters = 12
tensors = 1
parameter_bytes = 48
trainable_parameters = 12
buffer_elements = 0
buffer_bytes = 0
state_entries = 1
state_entry_elements = 12

[measured.inventory.shapes]
"""


@pytest.mark.parametrize(
    "line", ['"3x4 float32" = 0', '"3xfour float32" = 1', '"3x4" = 1', '"3x4 float32 cold" = 1']
)
def test_a_list_of_shapes_that_somebody_edited_is_refused(line):
    good = with_measured(INVENTORY + '"3x4 float32" = 1\n"scalar bfloat16 frozen" = 2\n')
    assert parse(Path("gpt.toml"), good.encode()).measured.inventory.shapes["3x4 float32"] == 1
    with pytest.raises(ProjectError, match="is not a number of tensors of one shape"):
        parse(Path("gpt.toml"), with_measured(INVENTORY + line + "\n").encode())
