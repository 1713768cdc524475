"""``peakmark what-if``: a real prediction of several batches, asked again, accepted; and what is bad usage."""

from argparse import Namespace

import pytest
from cli_shell import TINY

from tui.budget import what_if
from tui.cli import main
from tui.commands.what_if import scenarios_of
from tui.project.load import load

GPU = ("--gpu", "H100 80GB HBM3")


def test_batches_are_predicted_in_one_child_shown_beside_now_and_one_is_accepted(shell):
    path = shell.write(TINY.replace('job = "4 GiB"', 'job = "1 GiB"'))
    done = shell("what-if", "tiny.toml", *GPU, "--each", "batch=8,1_000_000", "--json")
    assert done.code == 1  # the last one does not fit
    small, large = done.document["scenarios"]
    rows = {row["row"]: row for row in small["rows"]}
    # four samples more of 16 inputs and 4 outputs in fp32; two micro-batches, of which one is there at a time
    assert rows["input_batch"]["difference_bytes"] == 4 * (16 + 4) * 4
    assert rows["weights"]["now"] == {"bytes": 676 * 4, "from": "predicted", "formula": ""}
    assert (small["verdict"]["word"], large["verdict"]["word"]) == ("fits", "does not fit")
    children = [
        line
        for line in done.err.splitlines()
        if line.startswith("  what-if: prediction for NVIDIA H100 80GB HBM3  ")
    ]
    assert len(children) == 1
    assert path.read_text() == TINY.replace('job = "4 GiB"', 'job = "1 GiB"')
    again = shell("what-if", "tiny.toml", "batch=8", *GPU, "--accept")
    assert (again.code, again.err) == (0, "")
    assert "verdict   FITS, as now, by prediction" in again.out
    assert "Written to tiny.toml: workload.batch.micro 4 -> 8." in again.out
    assert max(map(len, again.out.splitlines())) <= 80
    assert load(path).spec.workload.batch.micro == 8
    assert "# A tiny project, with a comment that stays." in path.read_text()
    assert load(path).measured.prediction == {}


def test_what_cannot_be_predicted_is_told_after_the_declared_rows(shell, monkeypatch, capsys):
    shell.write(TINY.replace("[workload.batch]", "[workload.step]\ncompile = true\n\n[workload.batch]"))
    monkeypatch.chdir(shell.folder)
    monkeypatch.setenv("PEAKMARK_STATE", str(shell.state))
    assert main(["what-if", "tiny.toml", "batch=8", *GPU]) == 4
    told = capsys.readouterr()
    assert told.err.startswith("peakmark: cannot predict: workload.step.compile = true")
    assert "declared rows alone" in told.out
    assert "input batch" in told.out


def test_each_then_adds_to_what_stands_before_it_and_may_take_it_back(shell):
    spec = load(shell.write(TINY)).spec
    given = Namespace(
        changes=["batch=8", "checkpoint=Linear"], then=[["length="], ["checkpoint=none"]], each=None
    )
    found = [[what_if.word(one) for one in scenario] for scenario in scenarios_of(given, spec)]
    assert found[0] == ["batch=8", "checkpoint=Linear"]
    assert found[2] == ["batch=8"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bacth=16",), "bacth is not a key of the spec; did you mean batch?"),
        (("batch=0",), "batch=0: workload.batch.micro must be at least 1, got 0"),
        ((), "what-if needs a change; peakmark what-if tiny.toml batch=16"),
        (("--each", "batch=4,8", "--accept"), "--each names several scenarios, --accept takes one"),
        (("--each", "batch=4,8", "--then", "batch=2"), "--each and --then are two ways to name scenarios"),
        (("batch=8", "--gpu", "H101"), 'GPU "H101" is not in the table'),
    ],
)
def test_what_nothing_can_be_shown_of_is_bad_usage(shell, monkeypatch, capsys, words, said):
    shell.write(TINY)
    monkeypatch.chdir(shell.folder)
    monkeypatch.setenv("PEAKMARK_STATE", str(shell.state))
    assert main(["what-if", "tiny.toml", *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"peakmark: {said}")


def test_changes_may_stand_between_options(shell, monkeypatch, capsys):
    shell.write(TINY.replace("[workload.batch]", "[workload.step]\ncompile = true\n\n[workload.batch]"))
    monkeypatch.chdir(shell.folder)
    monkeypatch.setenv("PEAKMARK_STATE", str(shell.state))
    words = ["what-if", *GPU, "tiny.toml", "--plain", "batch=8", "-q", "--then", "precision=bf16", "--ascii"]
    assert main(words) == 4
    told = capsys.readouterr()
    assert "scenarios.1.changes.workload.batch.micro.becomes 8" in told.out.splitlines()
    assert "scenarios.1.changes.precision.use.becomes bf16" in told.out.splitlines()
    assert told.err.startswith("peakmark: cannot predict: workload.step.compile = true")
