import doctest
import importlib

import pytest

from tui.budget import layers
from tui.budget.params import formula

GPT2 = {"layers": 12, "heads": 12, "width": 768, "vocab": 50257, "context": 1024}


@pytest.mark.parametrize(
    "name",
    [
        "arguments",
        "batch",
        "compare",
        "declared_parts",
        "entered",
        "fixed_shapes",
        "layers",
        "optimizers",
        "params",
        "rows",
        "stored",
        "throughput",
        "time",
        "verdict",
        "worked",
    ],
)
def test_the_examples_in_the_docstrings_hold(name):
    result = doctest.testmod(importlib.import_module(f"tui.budget.{name}"))
    assert result.attempted
    assert not result.failed


def test_gpt2_is_the_sum_of_its_parts():
    found = formula("decoder", GPT2)
    assert found.parts == {
        "token embedding": 38_597_376,
        "position embedding": 786_432,
        "12 blocks": 12 * 7_087_872,
        "final norm": 1_536,
        "output head": 0,
    }
    assert found.total == 124_439_808
    assert found.text == "12 x 7,087,872 + 38,597,376 + 786,432 + 1,536"


def test_an_untied_head_adds_one_more_embedding_and_no_bias():
    untied = formula("decoder", GPT2 | {"tied": False})
    assert untied.total - formula("decoder", GPT2).total == 50257 * 768
    assert untied.parts["output head"] == 38_597_376


def test_qkv_biases_follow_bias_when_they_are_not_given():
    assert formula("decoder", {"bias": False}) == formula("decoder", {"bias": False, "qkv_bias": False})


def test_one_convolution_counts_once_however_often_it_is_called():
    assert layers.conv(1, 1, 3) == 10


def test_a_batch_norm_has_two_parameters_a_channel_and_no_running_means():
    assert layers.layer_norm(10) == 20


def test_six_linear_layers_that_share_an_activation_have_120_parameters():
    assert 6 * layers.dense(4, 4) == 120


def test_an_mlp_is_a_chain_of_linear_layers():
    found = formula("mlp", {"inputs": 3, "hidden": [4], "outputs": 2})
    assert (found.total, found.text) == (3 * 4 + 4 + 4 * 2 + 2, "16 + 10")
    assert found.parts == {"2 layers": 26}
    assert formula("mlp", {"inputs": 3, "hidden": [], "outputs": 2, "bias": False}).total == 6


def test_equal_layers_that_follow_each_other_are_one_summand() -> None:
    found = formula("mlp", {"inputs": 3, "hidden": [4] * 2_000, "outputs": 2})
    assert (found.total, found.text) == (16 + 1_999 * 20 + 10, "16 + 1,999 x 20 + 10")


def test_a_convnet_has_a_convolution_bias_only_without_a_norm():
    args = {"channels": [4, 8], "classes": 10, "in_channels": 3}
    batch = formula("convnet", args)
    # 3 x 4 x 9 + 2 x 4, 4 x 8 x 9 + 2 x 8, 8 x 10 + 10
    assert batch.text == "116 + 304 + 90"
    assert batch.parts == {"2 stages": 420, "output head": 90}
    assert formula("convnet", args | {"norm": "group"}).total == batch.total
    assert formula("convnet", args | {"norm": "none"}).total == batch.total - 4 - 8
    assert formula("convnet", args | {"groups": 4}).text == "116 + 88 + 90"


@pytest.mark.parametrize(
    ("family", "args", "sentence"),
    [
        ("decodr", {}, "decodr is not a family with a formula; did you mean decoder?"),
        ("decoder", {"layer": 2}, "layer is not an argument of decoder; did you mean layers?"),
        (
            "mlp",
            {"zzz": 2},
            "zzz is not an argument of mlp; it has inputs, hidden, outputs, bias, norm, activation, dropout",
        ),
        ("decoder", {"layers": "12"}, 'layers must be a whole number of at least 1, got the text "12"'),
        ("decoder", {"layers": True}, "layers must be a whole number of at least 1, got true"),
        ("decoder", {"width": 0}, "width must be a whole number of at least 1, got 0"),
        ("decoder", {"tied": 1}, "tied must be true or false, got 1"),
        (
            "decoder",
            {"norm": "rmsnor"},
            'norm must be one of "layernorm", "rmsnorm", got the text "rmsnor"; did you mean "rmsnorm"?',
        ),
        ("decoder", {"dropout": 1}, "dropout must be a number from 0 up to but not 1, got 1"),
        ("decoder", {"heads": 3}, "heads = 3 must divide width = 128, or head_dim must be given"),
        ("decoder", {"kv_heads": 3}, "kv_heads = 3 must divide heads = 4"),
        (
            "decoder",
            {"head_dim": 3, "positions": "rotary"},
            'head_dim = 3 must be even for positions = "rotary"',
        ),
        ("mlp", {"hidden": 4}, "hidden must be a list of whole numbers, got 4"),
        ("mlp", {"hidden": [4, 0]}, "hidden must hold whole numbers of at least 1, got 0"),
        ("convnet", {"channels": []}, "channels must hold at least 1 number, got an empty list"),
        ("convnet", {"groups": 5}, "groups = 5 must divide both 32 and 64 channels"),
        ("convnet", {"depths": [1, 2]}, "depths must have one number for each of 3 stages, got 2"),
        (
            "convnet",
            {"block": "inverted", "expansion": [1, 6]},
            "expansion must have one number for each of 3 stages, got 2",
        ),
        (
            "convnet",
            {"expansion": "6"},
            'expansion must be a whole number or a list of them, of at least 1, got the text "6"',
        ),
        ("convnet", {"block": "bottleneck", "expansion": 5}, "expansion = 5 must divide 32 channels"),
        ("convnet", {"norm": "group", "norm_groups": 3}, "norm_groups = 3 must divide 32 channels"),
        (
            "convnet",
            {"block": "inverted", "groups": 2},
            "groups = 2 is for plain, basic, bottleneck blocks, and block is inverted",
        ),
        ("convnet", {"block": "basic", "kernel": 2}, "kernel = 2 must be odd for basic blocks"),
        (
            "convnet",
            {"block": "convnext", "stem": 32, "size": 16},
            "size = 16 must be at least 28, by which stem and stages divide it",
        ),
        ("encoder", {"heads": 3}, "heads = 3 must divide width = 128"),
        ("encoder", {"inputs": "patches", "size": 33}, "patch = 4 must divide size = 33"),
        (
            "encoder",
            {"inputs": "patches", "head": "mlm"},
            'head = "mlm" predicts tokens and needs inputs = "tokens"',
        ),
        (
            "encoder",
            {"lora_targets": ["qkv", "pro"]},
            'lora_targets must hold names out of "qkv", "proj", "gate", "up", "down", got the text "pro"; '
            'did you mean "proj"?',
        ),
        ("decoder", {"experts": 2, "top_k": 3}, "top_k = 3 must be at most experts = 2"),
        ("decoder", {"shared_experts": 1}, "shared_experts = 1 needs experts, which are 0"),
        ("decoder", {"shared_gate": True}, "shared_gate = true needs shared_experts, which are 0"),
        ("decoder", {"dense_layers": 5}, "dense_layers = 5 must be at most layers = 4"),
        ("decoder", {"rope_base": 0}, "rope_base must be a number above 0, got 0"),
        ("decoder", {"layers": None}, "layers must be a whole number of at least 1, got nothing"),
    ],
)
def test_a_wrong_argument_is_one_sentence_that_names_it(family, args, sentence):
    with pytest.raises(ValueError) as raised:
        formula(family, args)
    assert str(raised.value) == sentence
