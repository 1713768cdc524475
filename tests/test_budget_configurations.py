"""Hugging Face configurations as arguments of a family, and which formula a project is checked against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tui.budget import configurations, params
from tui.budget.checked import formula_of
from tui.errors import ProjectError
from tui.project import configuration
from tui.project.load import load, parse

GPT2 = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "vocab_size": 32, "n_positions": 16}


def _project(workload: str, folder: Path | None = None) -> Any:
    text = f"schema = 1\n[workload]\n{workload}\n"
    if folder is None:
        return parse(Path("p.toml"), text.encode())
    path = folder / "p.toml"
    path.write_text(text)
    return load(path)


def _formula(workload: str, table: dict[str, Any] | None = None) -> params.Formula | None:
    return formula_of(_project(workload).spec, table)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"model_type": "deepseek_v3"}, id="an unknown kind"),
        pytest.param({"model_type": "llama", "attention_bias": True}, id="a bias on every projection"),
        pytest.param({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}, id="head"),
        pytest.param({"model_type": "qwen3_moe", "mlp_only_layers": [0]}, id="dense layers among experts"),
        pytest.param({"model_type": "opt", "word_embed_proj_dim": 512}, id="a projected embedding"),
        pytest.param({"model_type": "mobilenet_v2", "depth_multiplier": 1.4}, id="rounded channels"),
        pytest.param({"model_type": "bert", "is_decoder": True}, id="an encoder as decoder"),
        pytest.param({"model_type": "llama", "num_attention_heads": "8"}, id="text for a number"),
        pytest.param({"model_type": "llama", "num_attention_heads": 0}, id="no heads"),
        pytest.param({**GPT2, "add_cross_attention": True}, id="cross-attention"),
        pytest.param({**GPT2, "num_hidden_layers": 3}, id="two names that contradict each other"),
        pytest.param({"model_type": "opt", "_remove_final_layer_norm": True}, id="no final norm"),
        pytest.param({"model_type": "bert", "tie_word_embeddings": False}, id="two biases on the output"),
        pytest.param({"model_type": "vit", "image_size": [224, 384]}, id="images that are no squares"),
        pytest.param({"model_type": "vit", "image_size": 225}, id="pixels that are in no patch"),
        pytest.param({"model_type": "qwen2", "num_attention_heads": 4}, id="heads that do not divide"),
        pytest.param({}, id="no kind"),
    ],
)
def test_what_a_family_cannot_express_has_no_arguments(more: dict[str, Any]) -> None:
    assert configurations.arguments_of(more) is None


def test_a_bert_classifier_has_a_pooler_and_its_classes() -> None:
    family, args = configurations.arguments_of(
        {
            "model_type": "bert",
            "architectures": ["BertForSequenceClassification"],
            "id2label": {"0": "a", "1": "b"},
        }
    ) or ("", {})
    assert (family, args["pooler"], args["classes"]) == ("encoder", True, 2)
    assert params.formula(family, args).total == 109_483_778  # BERT base with a head of 2 classes


@pytest.mark.parametrize(("kind", "total"), [("gpt2", 2_546_400), ("distilbert", 2_445_594)])
def test_a_key_may_go_by_its_other_name(kind: str, total: int) -> None:
    """The totals are those of GPT2LMHeadModel and DistilBertForMaskedLM, which transformers 5.24.0 builds from it."""
    small = {"num_hidden_layers": 3, "hidden_size": 48, "num_attention_heads": 4}
    mapped = configurations.arguments_of({"model_type": kind, **small})
    assert mapped is not None
    assert params.formula(*mapped).total == total


def test_null_counts_as_left_out() -> None:
    _, args = configurations.arguments_of({**GPT2, "n_inner": None}) or ("", {})
    assert args["hidden"] == 32


def test_a_configuration_is_checked_by_the_formula_of_its_kind() -> None:
    made = _formula('source = "config.json"', GPT2)
    assert made is not None
    assert made.family == "decoder"
    assert made.parts["token embedding"] == 32 * 8


def test_a_configuration_is_not_checked_when_none_is_asked_for() -> None:
    assert _formula('source = "config.json"\nformula = "none"', GPT2) is None


def test_a_formula_of_another_family_is_not_taken_from_the_configuration() -> None:
    with pytest.raises(ValueError, match=r"config.json does not say the arguments of mlp; write them"):
        _formula('source = "config.json"\nformula = "mlp"\nargs = { n_layer = 2 }', GPT2)


def test_arguments_for_the_formula_stand_apart_from_those_of_build() -> None:
    made = _formula(
        'source = "own.py"\nformula = "mlp"\nargs = { n = 3 }\n'
        "formula_args = { inputs = 2, hidden = [3], outputs = 1 }"
    )
    assert made is not None
    assert made.total == 2 * 3 + 3 + 3 * 1 + 1


def test_own_python_without_a_formula_is_not_checked() -> None:
    assert _formula('source = "own.py"\nargs = { anything = 1 }') is None


def test_args_override_keys_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "n_layer": 2}')
    project = _project('source = "config.json"\nargs = { n_layer = 5 }', tmp_path)
    found = configuration.of(project)
    assert found == {"model_type": "gpt2", "n_layer": 5}
    made = formula_of(project.spec, found)
    assert made is not None
    assert "5 blocks" in made.parts


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "config.json is not valid JSON"),
        (b"[1]", "config.json is not a model's configuration"),
        (b"\xff\xfe", "config.json is not valid JSON"),
        (b"[" * 100_000, "config.json is not valid JSON"),
        (b" " * 4_194_305, "config.json is larger than 4,194,304 B, so it is not a model's configuration"),
        (None, "cannot be read: no such file or directory"),
    ],
)
def test_a_file_that_is_no_configuration_is_said(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ProjectError) as caught:
        configuration.of(_project('source = "config.json"', tmp_path))
    assert said in caught.value.message
    assert "p.toml:3" in caught.value.where


def test_other_sources_have_no_configuration() -> None:
    assert configuration.of(_project('source = "decoder"')) is None
