"""Models that people bring: a single-file GPT script, a Hugging Face configuration, and the README's example."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
README = (HERE.parent / "README.md").read_text()
QUICK = ("--trust", "--iterations", "2", "--warmup", "2", "--json", "-q")


def measured(shell, source: str, **changes: str) -> dict:
    """Make a project for ``source``, change lines of it, measure one batch; the JSON document."""
    assert shell("new", "own.toml", "--from", source).code == 0
    text = (shell.folder / "own.toml").read_text()
    for key, value in changes.items():
        text, count = re.subn(rf"(?m)^#? ?{key} = .*$", f"{key} = {value}", text, count=1)
        assert count == 1, key
    shell.write(text, "own.toml")
    done = shell("probe", "own.toml", *QUICK)
    assert done.code == 0, done.err
    return done.document


def unattributed(document: dict) -> float:
    """The largest share of unattributed bytes in any phase of an iteration."""
    phases = [one for one in document["memory"]["phases"] if one["phase"] not in ("build", "optimizer")]
    return max(one["rows"]["unattributed"] / one["requested_bytes"] for one in phases)


def test_a_single_file_script_becomes_a_workload(shell):
    shell.write((HERE / "workloads" / "single_file_gpt.py").read_text(), "gpt.py")
    document = measured(shell, "gpt.py", length="32", micro="2")
    assert document["outcome"] == "fits"
    assert document["batch"]["micro"] == 2
    assert unattributed(document) < 0.01


def test_a_configuration_is_measured_with_random_weights(shell):
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    table = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_embd": 32,
        "n_head": 2,
        "n_layer": 2,
    }
    shell.write(json.dumps({**table, "n_positions": 64, "vocab_size": 101}), "config.json")
    document = measured(shell, "config.json", length="16", micro="2")
    assert document["outcome"] == "fits"
    assert unattributed(document) < 0.01


def test_the_example_of_the_readme_is_complete(shell):
    example = next(
        code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "def build" in code
    )
    shell.write(example, "workload.py")
    assert measured(shell, "workload.py")["outcome"] == "fits"
