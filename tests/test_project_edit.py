"""Editing the hand-written part: one value changes, every other byte stays."""

import difflib
from pathlib import Path

import pytest
from project_samples import USER, adding

from tui.errors import ProjectError
from tui.project import atomic, save
from tui.project.edit import changed
from tui.project.load import load


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    found = Path("gpt.toml")
    found.write_text(USER)
    return found


def difference(before: str, after: str) -> list[str]:
    """The lines that went (-) and came (+)."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
    return [line for line in lines if not line.startswith("@@")]


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            {"workload.batch.micro": 4},
            [
                "-micro = 8                          # samples",
                "+micro = 4                          # samples",
            ],
        ),
        (
            {"workload.batch.length.typical": 20, "budget.job": "50 GiB"},
            [
                "-length = { min = 16, typical = 24, max = 32 }",
                "+length = { min = 16, typical = 20, max = 32 }",
                '-job = "60 GiB"',
                '+job = "50 GiB"',
            ],
        ),
        (
            {"workload.batch.length": 512},
            ["-length = { min = 16, typical = 24, max = 32 }", "+length = 512"],
        ),
        (
            {"workload.batch.length": {"max": 64, "min": None}},
            ["-length = { min = 16, typical = 24, max = 32 }", "+length = {max = 64}"],
        ),
        ({"precision.compare": ("fp32",)}, ['-compare = ["fp32", "bf16-autocast"]', '+compare = ["fp32"]']),
        ({"workload.optimizer.clip_norm": None}, ["-clip_norm = 1.0"]),
        ({"precision.seeds": 2}, ["+seeds = 2"]),
        ({"quality.target": 3.3, "quality.batches": 4}, ["+", "+[quality]", "+target = 3.3", "+batches = 4"]),
        ({"workload.step.compile": True}, ["+[workload.step]", "+compile = true", "+"]),
        ({"quality.target": None}, []),
    ],
)
def test_an_edit_changes_its_own_lines_and_no_other(path, changes, lines):
    project = save.edit(path, changes)
    assert difference(USER, path.read_text()) == lines
    assert project == load(path)


def test_an_edit_leaves_the_results_alone(path):
    save.record(path, adding("p-1"))
    before = path.read_text()
    assert save.edit(path, {"title": "Another"}).measured.probe
    assert difference(before, path.read_text()) == [
        '-title = "A small decoder"          # for the report',
        '+title = "Another"          # for the report',
    ]


@pytest.mark.parametrize("text", [USER.replace("\n", "\r\n"), USER.rstrip("\n").replace("\n", "\r\n")])
def test_new_lines_of_a_windows_file_end_like_the_others(path, text):
    path.write_bytes(text.encode())
    save.edit(path, {"precision.seeds": 2, "quality.target": 3.0})
    written = path.read_bytes()
    assert written.count(b"\r\n") == written.count(b"\n")
    assert load(path).spec.precision.seeds == 2


@pytest.mark.parametrize(
    "text",
    [
        "schema = 1\nworkload.source = 'mlp'\nworkload.batch.accumulate = 2",
        "schema = 1\nworkload = { source = 'mlp', batch = { micro = 1 } }   # all in one\n",
        "schema = 1\n[workload.batch]\nmicro = 1\n[budget]\njob = 1\n[workload]\nsource = 'mlp'\n",
    ],
    ids=["dotted", "inline", "out of order"],
)
def test_any_layout_of_the_tables_can_be_edited(path, text):
    path.write_text(text)
    changes = {"workload.batch.micro": 4, "workload.args.layers": 3, "workload.step.compile": True}
    workload = save.edit(path, changes).spec.workload
    assert (workload.batch.micro, workload.args, workload.step.compile) == (4, {"layers": 3}, True)
    assert load(path).spec.workload == workload


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"workload.batch.micro": 0}, "workload.batch.micro must be at least 1, got 0"),
        ({"workload.batch.micro": "8"}, "remove the quotes"),
        ({"workload.batch.micr": 8}, "did you mean micro?"),
        ({"budget.reserve": "61 GiB"}, "is not smaller than budget.job"),
        ({"workload.source": None}, "workload.source is missing"),
        ({"environment.python": "/bin/python"}, "belongs to this machine alone"),
        ({"measured.x": 1}, "stands in the hand-written part"),
        ({"workload.source.x": 1}, "workload.source is not a table"),
        ({"two words": 1}, "two words is not a key; write names with dots"),
    ],
)
def test_an_edit_that_would_be_wrong_is_not_written(path, changes, sentence):
    with pytest.raises(ProjectError) as caught:
        save.edit(path, changes)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("gpt.toml:")
    assert path.read_text() == USER


def test_an_edit_is_refused_when_the_file_is_not_what_its_author_saw(path):
    seen = load(path)
    path.write_text(USER.replace("micro = 8", "micro = 9"))
    with pytest.raises(atomic.ChangedOnDisk) as caught:
        save.edit(path, {"title": "x"}, seen=seen)
    assert str(caught.value) == "gpt.toml changed on disk since it was read; not overwritten; read it again"
    assert "micro = 9" in path.read_text()


def test_results_that_came_meanwhile_do_not_refuse_an_edit(path):
    seen = load(path)
    save.record(path, adding("p-1"))
    assert save.edit(path, {"title": "x"}, seen=seen).measured.probe


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{ x = 1 }", "{ x = 1, z = 5 }"),
        ("{ x = 1, y = 2 }", "{ x = 1, y = 2, z = 5 }"),
        ("{x = 1}", "{x = 1, z = 5}"),
        ("{x = 1,y = 2}", "{x = 1,y = 2, z = 5}"),
        ("{}", "{z = 5}"),
        ("{ }", "{ z = 5 }"),
    ],
)
def test_a_key_added_to_an_inline_table_stands_between_spaces_like_the_others(
    before: str, after: str
) -> None:
    assert changed(f"a = {before} # why\n", {"a.z": 5}, "p.toml") == f"a = {after} # why\n"


@pytest.mark.parametrize("table", ["{ a = 1, b = 2 }", "{a = 1, b = 2}", "{ a = 1 }", "{}", "{ }"])
def test_a_key_that_is_added_to_an_inline_table_and_taken_back_leaves_nothing(table):
    text = f"x = {table}  # mine\n"
    assert changed(changed(text, {"x.c": 3}, "p.toml"), {"x.c": None}, "p.toml") == text


@pytest.mark.parametrize(
    ("key", "left"),
    [("a", "{ b = 2, c = 3 }"), ("b", "{ a = 1, c = 3 }"), ("c", "{ a = 1, b = 2 }")],
)
def test_a_key_of_an_inline_table_goes_with_its_space(key, left):
    assert changed("x = { a = 1, b = 2, c = 3 }\n", {f"x.{key}": None}, "p.toml") == f"x = {left}\n"
