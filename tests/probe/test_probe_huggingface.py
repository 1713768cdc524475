import json

import pytest
import torch

from tui.probe import workload
from tui.probe.faults import TaskError
from tui.probe.protocol import ResultReady

from .helpers import run_here

pytest.importorskip("transformers")

ROUTED = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
SEQUENCES = {"vocab_size": 50, "d_model": 16, "d_ff": 32, "d_kv": 8, "num_layers": 2, "num_heads": 2}
TEXT = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL = {
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 16,
        "n_head": 2,
        "n_layer": 2,
        "n_positions": 32,
        "vocab_size": 50,
    },
    "llama": {
        "model_type": "llama",
        "num_key_value_heads": 1,
        "vocab_size": 50,
        "max_position_embeddings": 32,
        **TEXT,
    },
    "bert": {"model_type": "bert", "vocab_size": 50, "max_position_embeddings": 32, **TEXT},
    "roberta": {
        "model_type": "roberta",
        "vocab_size": 50,
        "max_position_embeddings": 34,
        "pad_token_id": 1,
        **TEXT,
    },
    **{
        kind: {
            "model_type": kind,
            "num_key_value_heads": 1,
            "vocab_size": 50,
            "max_position_embeddings": 32,
            "head_dim": 8,
            **TEXT,
            **more,
        }
        for kind, more in {
            "gemma": {},
            "qwen2": {},
            "qwen3": {},
            "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
            "qwen2_moe": {**ROUTED, "num_experts": 4, "shared_expert_intermediate_size": 16},
            "deepseek_v3": {
                **ROUTED,
                "n_routed_experts": 8,
                "n_group": 2,
                "topk_group": 1,
                "first_k_dense_replace": 1,
                "num_key_value_heads": 2,
                "q_lora_rank": 8,
                "kv_lora_rank": 8,
                "qk_rope_head_dim": 4,
                "qk_nope_head_dim": 4,
                "v_head_dim": 4,
            },
        }.items()
    },
    "t5": {"model_type": "t5", **SEQUENCES},
    "mobilenet_v2": {"model_type": "mobilenet_v2", "depth_multiplier": 0.35, "image_size": 32},
    "vit": {"model_type": "vit", "image_size": 16, "patch_size": 8, **TEXT},
    "resnet": {
        "model_type": "resnet",
        "embedding_size": 8,
        "hidden_sizes": [8, 16],
        "depths": [1, 1],
        "layer_type": "basic",
    },
    "convnext": {
        "model_type": "convnext",
        "hidden_sizes": [8, 16, 16, 16],
        "depths": [1, 1, 1, 1],
        "image_size": [32, 64],
    },
}


def load(folder, kind, args=None, **more):
    (folder / "config.json").write_text(json.dumps({**SMALL.get(kind, {"model_type": kind}), **more}))
    return workload.load("config.json", args or {}, str(folder))


def refused(folder, kind, args=None, **more):
    with pytest.raises(TaskError) as caught:
        load(folder, kind, args, **more).build()
    assert caught.value.kind == "workload"
    return caught.value


@pytest.mark.parametrize(
    ("kind", "more", "cls", "shapes"),
    [
        (
            "gpt2",
            {"architectures": ["GPT2LMHeadModel"]},
            "GPT2LMHeadModel",
            {"input_ids": (2, 32), "labels": (2, 32)},
        ),
        (
            "gpt2",
            {"architectures": ["GPT2Model"]},
            "GPT2LMHeadModel",
            {"input_ids": (2, 32), "labels": (2, 32)},
        ),
        ("llama", {}, "LlamaForCausalLM", {"input_ids": (2, 32), "labels": (2, 32)}),
        ("bert", {}, "BertForMaskedLM", {"input_ids": (2, 32), "labels": (2, 32)}),
        (
            "bert",
            {"architectures": ["BertForSequenceClassification"], "num_labels": 3},
            "BertForSequenceClassification",
            {"input_ids": (2, 32), "labels": (2,)},
        ),
        (
            "gpt2",
            {"architectures": ["GPT2ForSequenceClassification"], "num_labels": 1},
            "GPT2ForSequenceClassification",
            {"input_ids": (2, 32), "labels": (2,)},
        ),
        ("vit", {}, "ViTForImageClassification", {"pixel_values": (2, 3, 16, 16), "labels": (2,)}),
        (
            "resnet",
            {"num_labels": 5},
            "ResNetForImageClassification",
            {"pixel_values": (2, 3, 224, 224), "labels": (2,)},
        ),
        ("convnext", {}, "ConvNextForImageClassification", {"pixel_values": (2, 3, 32, 64), "labels": (2,)}),
        (
            "mobilenet_v2",
            {},
            "MobileNetV2ForImageClassification",
            {"pixel_values": (2, 3, 32, 32), "labels": (2,)},
        ),
        ("gemma", {}, "GemmaForCausalLM", {"input_ids": (2, 32), "labels": (2, 32)}),
        ("qwen2", {}, "Qwen2ForCausalLM", {"input_ids": (2, 32), "labels": (2, 32)}),
        ("qwen3", {}, "Qwen3ForCausalLM", {"input_ids": (2, 32), "labels": (2, 32)}),
        ("mixtral", {}, "MixtralForCausalLM", {"input_ids": (2, 32), "labels": (2, 32)}),
        ("t5", {}, "T5ForConditionalGeneration", {"input_ids": (2, 128), "labels": (2, 128)}),
        (
            "t5",
            {"architectures": ["T5ForConditionalGeneration"]},
            "T5ForConditionalGeneration",
            {"input_ids": (2, 128), "labels": (2, 128)},
        ),
        # 34 rows of positions, of which the padding token's id and the one before it are not for use.
        ("roberta", {}, "RobertaForMaskedLM", {"input_ids": (2, 32), "labels": (2, 32)}),
    ],
)
def test_a_configuration_gives_a_model_a_batch_and_a_loss(tmp_path, kind, more, cls, shapes):
    found = load(tmp_path, kind, **more)
    model, batch = found.build(), found.batch(2, 0, "train", None)
    assert type(model).__name__ == cls
    assert {key: tuple(value.shape) for key, value in batch.items()} == shapes
    loss = found.loss(model, batch)
    loss.backward()
    assert 0 <= float(loss.detach()) < 10


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("mixtral", {"modules": "model.layers.*.mlp.experts", "total": 4, "used": 2}),
        ("qwen2_moe", {"modules": "model.layers.*.mlp.experts", "total": 4, "used": 2}),
        ("deepseek_v3", {"modules": "model.layers.*.mlp.experts", "total": 8, "used": 2}),
        ("qwen3", None),
    ],
)
def test_experts_are_said_once_the_model_is_built(tmp_path, kind, expected):
    found = load(tmp_path, kind)
    assert found.experts is None
    found.build()
    assert found.experts == expected


@pytest.mark.parametrize("method", ["bitsandbytes", "gptq", None])
def test_low_bit_weights_that_a_configuration_asks_for_are_not_passed_over(tmp_path, method):
    asked = {"load_in_4bit": True} | ({"quant_method": method} if method else {})
    source = load(tmp_path, "llama", quantization_config=asked)
    assert source.unpacked.startswith(f"config.json asks for {method or 'low-bit'} weights")
    events = run_here("inventory", source="config.json", folder=tmp_path)
    (table,) = (one.table for one in events if isinstance(one, ResultReady))
    assert table["packed_parameters"] is None
    assert table["unknown"]["packed_payload_bytes"] == source.unpacked
    assert load(tmp_path, "llama").unpacked == ""


def test_a_masked_language_model_has_labels_at_15_percent_of_the_places(tmp_path):
    labels = load(tmp_path, "bert").batch(8, 0, "train", 20)["labels"]
    assert [(row != -100).sum() for row in labels] == [3] * 8


def test_padding_is_not_drawn_as_a_token(tmp_path):
    ids = load(tmp_path, "roberta", pad_token_id=7).batch(64, 0, "train", None)["input_ids"]
    assert not (ids == 7).any()


def test_a_length_is_the_side_of_an_image(tmp_path):
    found = load(tmp_path, "resnet")
    assert found.batch(2, 0, "train", 40)["pixel_values"].shape == (2, 3, 40, 40)


def test_keys_and_values_are_kept_only_when_asked_for(tmp_path):
    assert load(tmp_path, "gpt2", use_cache=True).build().config.use_cache is False
    assert load(tmp_path, "gpt2", {"use_cache": True}).build().config.use_cache is True


def test_what_cannot_be_built_is_left_to_the_caller_on_the_meta_device(tmp_path):
    found = load(tmp_path, "gpt2", n_head=3)
    with pytest.raises(ValueError, match="divisible"), torch.device("meta"):
        found.build()


def test_arguments_override_the_configuration(tmp_path):
    assert load(tmp_path, "gpt2", {"n_layer": 1}).build().config.n_layer == 1


def test_a_length_is_taken_and_refused_beyond_the_positions(tmp_path):
    found = load(tmp_path, "gpt2")
    assert found.batch(2, 0, "train", 7)["input_ids"].shape == (2, 7)
    with pytest.raises(TaskError, match="length 33 is longer than the configuration's 32 positions"):
        found.batch(2, 0, "train", 33)


@pytest.mark.parametrize(
    ("kind", "args", "more", "said"),
    [
        ("gpt2", {"n_layr": 3}, {}, "workload.args.n_layr is not a key of GPT2Config"),
        ("gpt2", {}, {"n_head": 3}, "GPT2LMHeadModel cannot be built: ValueError"),
        ("gpt2", {}, {"n_layer": "two"}, "refuses it"),
        ("gpt99", {}, {}, "has no model_type 'gpt99'"),
        ("gpt2", {}, {"architectures": ["GPT2Foo"]}, "architectures names GPT2Foo, which transformers"),
        ("bert", {}, {"architectures": ["BertForQuestionAnswering"]}, "whose labels cannot be made up"),
        ("whisper", {}, {}, "WhisperConfig has no model class whose inputs and labels can be made up"),
        (
            "llava",
            {},
            {"architectures": ["LlavaForConditionalGeneration"]},
            "names LlavaForConditionalGeneration, whose labels cannot be made up",
        ),
    ],
)
def test_a_mistake_in_a_configuration_is_one_sentence(tmp_path, kind, args, more, said):
    assert said in refused(tmp_path, kind, args, **more).sentence


def test_no_classes_are_refused(tmp_path):
    found = load(tmp_path, "vit", num_labels=0)
    with pytest.raises(TaskError, match="num_labels is 0"):
        found.batch(2, 0, "train", None)


@pytest.mark.parametrize(
    ("text", "said"), [("{", "not valid JSON"), ("[]", "has no model_type"), ("{}", "has no model_type")]
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path, text, said):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(TaskError, match=said):
        workload.load("config.json", {}, str(tmp_path))


def test_nothing_is_asked_of_the_network(tmp_path, monkeypatch):
    import socket

    def refuse(*_):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    load(tmp_path, "gpt2").build()
