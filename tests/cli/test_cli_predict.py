"""``peakmark predict``: codes, the document, the ledger that is of a prediction, and the table of GPUs."""

import json

import pytest
from cli_shell import TINY

from tui.project.load import load


def test_a_prediction_for_a_named_gpu_is_printed_saved_and_shown_by_the_ledger(shell):
    shell.write(TINY.replace('job = "4 GiB"', 'job = "500 MiB"'))
    done = shell("predict", "tiny.toml", "--gpu", "H100 80GB HBM3", "--json")
    assert done.code == 1  # the context alone takes 520 MiB
    made = json.loads(done.out)
    assert (made["document"], made["semantics"], made["verdict"]["word"]) == (
        "predict",
        "cuda",
        "does not fit",
    )
    assert made["target"]["sm_count"] == 132
    (id,) = load(shell.folder / "tiny.toml").measured.prediction
    assert made["id"] == id
    # two handles of 32 MiB each on an H100
    peak = next(one for one in made["phases"] if one["phase"] == "backward")
    assert {row["row"]: row["bytes"] for row in peak["rows"]}["library_workspaces"] == 2 * 32 * 2**20
    ledger = shell("ledger", "tiny.toml")
    assert ledger.code == 1
    assert f"PREDICTED {id}, NVIDIA H100 80GB HBM3" in ledger.out
    assert "DOES NOT FIT, by prediction" in ledger.out
    assert max(len(line) for line in ledger.out.splitlines()) <= 80


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("predict", "tiny.toml", "--gpu", "H101"), 'GPU "H101" is not in the table; nearest: '),
        (("predict", "tiny.toml", "--gpu", "a100"), 'GPU "a100" could be NVIDIA A100-SXM4-40GB'),
        (
            ("predict", "tiny.toml", "--gpu", "L4", "--device", "cpu"),
            "--gpu names a GPU, --device cpu does not",
        ),
        (("predict", "tiny.toml", "--length", "8"), "--length: this project's samples have no length"),
        (("predict",), "predict needs a project"),
    ],
)
def test_what_nothing_can_be_predicted_for_is_bad_usage(shell, words, said):
    shell.write(TINY)
    done = shell(*words)
    assert done.code == 2
    assert said in done.sentence


def test_the_gpus_that_are_known_are_listed_with_their_sources(shell):
    done = shell("predict", "--gpus")
    assert done.code == 0
    assert "NVIDIA H100 80GB HBM3              79.647    90   132" in done.out
    assert max(len(line) for line in done.out.splitlines()) <= 80
