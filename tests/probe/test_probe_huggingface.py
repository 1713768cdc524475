import json

import pytest

from tui.probe import workload
from tui.probe.faults import TaskError

pytest.importorskip("transformers")

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
        ("gpt2", {}, {"n_head": 3}, "GPT2LMHeadModel cannot be built from it"),
        ("gpt2", {}, {"n_layer": "two"}, "refuses it"),
        ("gpt99", {}, {}, "refuses it"),
        ("gpt2", {}, {"architectures": ["GPT2Foo"]}, "architectures names GPT2Foo, which transformers"),
        ("bert", {}, {"architectures": ["BertForQuestionAnswering"]}, "whose labels cannot be made up"),
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
