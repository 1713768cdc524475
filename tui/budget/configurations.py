"""Hugging Face configurations as arguments of a family, for the kinds of model whose parameters we can write down.

A key that a configuration leaves out has the value of the kind's own default, as in ``transformers``: saved
configurations often hold only what differs.  A configuration that says something a family cannot express, or
refuses, has no arguments, rather than wrong ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from tui.budget import params

Args = dict[str, Any]
Found = tuple[str, Args]


class Unlike(Exception):
    """The configuration says something that no argument of the family does."""


def arguments_of(configuration: Mapping[str, Any]) -> Found | None:
    """(family, arguments) of a configuration by its ``model_type``; None for a kind or a variant that is not known.

    >>> arguments_of({"model_type": "gpt2", "n_layer": 24})[1]["layers"]
    24
    """
    kind = str(configuration.get("model_type"))
    known = KINDS.get(kind)
    if known is None:
        return None
    try:
        family, args = known(Keys(configuration, OTHER_NAMES.get(kind, {})))
        params.formula(family, args)
    except (Unlike, TypeError, ValueError, ArithmeticError, LookupError):
        return None  # values of wrong types are for whoever builds the model to refuse
    return family, args


class Keys:
    """Takes values out of a configuration; null counts as left out.

    Args:
        table: the configuration.
        other_names: {name: another one that means the same}.
    """

    def __init__(self, table: Mapping[str, Any], other_names: Mapping[str, str]) -> None:
        self._table = table
        self._other_names = other_names

    def get(self, name: str, default: Any) -> Any:
        """The value of ``name``.

        Raises:
            Unlike: its other name has another value.
        """
        value, other = self._table.get(name), self._table.get(self._other_names.get(name, ""))
        if value is not None and other is not None and value != other:
            raise Unlike
        value = other if value is None else value
        return default if value is None else value

    def must(self, name: str, wanted: Any) -> None:
        """Go on only when ``name`` is left out or is ``wanted``.

        Raises:
            Unlike: it is something else.
        """
        if self.get(name, wanted) != wanted:
            raise Unlike

    def head(self, *ends: str) -> str:
        """The end, of ``ends``, of the class that ``architectures`` names; the first one for none or a bare model.

        Raises:
            Unlike: the class is another one.
        """
        named = self.get("architectures", None)
        name = str(cast("list[Any]", named)[0]) if isinstance(named, list) and named else ends[0]
        if name.endswith("Model") and not name.endswith(ends):
            return ends[0]
        for end in ends:
            if name.endswith(end):
                return end
        raise Unlike

    def classes(self) -> int:
        """How many classes a classifier has."""
        labels = self.get("id2label", None)
        return len(cast("dict[str, Any]", labels)) if isinstance(labels, dict) else self.get("num_labels", 2)


def _gpt2(keys: Keys) -> Found:
    keys.head("LMHeadModel")
    keys.must("add_cross_attention", False)
    width = keys.get("n_embd", 768)
    return "decoder", {
        "layers": keys.get("n_layer", 12),
        "heads": keys.get("n_head", 12),
        "width": width,
        "hidden": keys.get("n_inner", 4 * width),
        "vocab": keys.get("vocab_size", 50257),
        "context": keys.get("n_positions", 1024),
        "tied": keys.get("tie_word_embeddings", True),
    }


def _opt(keys: Keys) -> Found:
    keys.head("ForCausalLM")
    keys.must("do_layer_norm_before", True)
    keys.must("enable_bias", True)
    keys.must("layer_norm_elementwise_affine", True)
    keys.must("_remove_final_layer_norm", False)
    width = keys.get("hidden_size", 768)
    keys.must("word_embed_proj_dim", width)
    return "decoder", {
        "layers": keys.get("num_hidden_layers", 12),
        "heads": keys.get("num_attention_heads", 12),
        "width": width,
        "hidden": keys.get("ffn_dim", 3072),
        "vocab": keys.get("vocab_size", 50272),
        "context": keys.get("max_position_embeddings", 2048) + 2,  # positions are counted from 2
        "tied": keys.get("tie_word_embeddings", True),
    }


def _gpt_neox(keys: Keys) -> Found:
    keys.head("ForCausalLM")
    keys.must("attention_bias", True)
    return "decoder", {
        "layers": keys.get("num_hidden_layers", 44),
        "heads": keys.get("num_attention_heads", 64),
        "width": keys.get("hidden_size", 6144),
        "hidden": keys.get("intermediate_size", 24576),
        "vocab": keys.get("vocab_size", 50432),
        "positions": "rotary",
        "tied": keys.get("tie_word_embeddings", False),
    }


def _llama_like(
    *,
    kv_heads: int,
    shape: tuple[int, int, int, int, int],
    tied: bool = False,
    head_dim: int | None = None,
    more: Callable[[Keys], Args] = lambda keys: {},
) -> Callable[[Keys], Found]:
    """A reader for the kinds that differ from Llama in little.

    Args:
        kv_heads: default of ``num_key_value_heads``; 0: as many as heads.
        shape: defaults of vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads.
        tied: default of ``tie_word_embeddings``.
        head_dim: default of ``head_dim``; None: width over heads.
        more: arguments that Llama has not.
    """
    vocab, width, hidden, layers, heads = shape

    def read(keys: Keys) -> Found:
        keys.head("ForCausalLM")
        keys.must("attention_bias", False)  # it would give the output projection a bias too
        keys.must("mlp_bias", False)
        own_width, own_heads = keys.get("hidden_size", width), keys.get("num_attention_heads", heads)
        return "decoder", {
            "layers": keys.get("num_hidden_layers", layers),
            "heads": own_heads,
            "kv_heads": keys.get("num_key_value_heads", kv_heads or own_heads),
            "head_dim": keys.get("head_dim", head_dim or own_width // own_heads),
            "width": own_width,
            "hidden": keys.get("intermediate_size", hidden),
            "vocab": keys.get("vocab_size", vocab),
            "gated": True,
            "norm": "rmsnorm",
            "positions": "rotary",
            "bias": False,
            "tied": keys.get("tie_word_embeddings", tied),
            **more(keys),
        }

    return read


def _mixtral(keys: Keys) -> Args:
    return {"experts": keys.get("num_local_experts", 8), "top_k": keys.get("num_experts_per_tok", 2)}


def _qwen_experts(keys: Keys, experts: int, used: int, hidden: int) -> Args:
    keys.must("decoder_sparse_step", 1)
    keys.must("mlp_only_layers", [])
    return {
        "experts": keys.get("num_experts", keys.get("num_local_experts", experts)),
        "top_k": keys.get("num_experts_per_tok", used),
        "expert_hidden": keys.get("moe_intermediate_size", hidden),
    }


def _qwen2_moe(keys: Keys) -> Args:
    routed = _qwen_experts(keys, 60, 4, 1408)
    count, left = divmod(keys.get("shared_expert_intermediate_size", 5632), routed["expert_hidden"])
    if left:
        raise Unlike
    bias = keys.get("qkv_bias", True)
    return {**routed, "qkv_bias": bias, "shared_experts": count, "shared_gate": True}


def _qwen3_moe(keys: Keys) -> Args:
    return {**_qwen_experts(keys, 128, 8, 768), "qk_norm": True}


def _bert(positions: int, segments: int, vocab: int) -> Callable[[Keys], Found]:
    def read(keys: Keys) -> Found:
        end = keys.head("ForMaskedLM", "BertForSequenceClassification")
        keys.must("is_decoder", False)
        keys.must("add_cross_attention", False)
        if end == "ForMaskedLM":
            keys.must("tie_word_embeddings", True)  # an output layer of its own has a bias of its own besides
        return "encoder", {
            "layers": keys.get("num_hidden_layers", 12),
            "heads": keys.get("num_attention_heads", 12),
            "width": keys.get("hidden_size", 768),
            "hidden": keys.get("intermediate_size", 3072),
            "vocab": keys.get("vocab_size", vocab),
            "context": keys.get("max_position_embeddings", positions),
            "segments": keys.get("type_vocab_size", segments),
            "tied": keys.get("tie_word_embeddings", True),
            **_encoder_head(keys, end),
        }

    return read


def _encoder_head(keys: Keys, end: str) -> Args:
    if end == "ForMaskedLM":
        return {"head": "mlm"}
    return {"head": "classify", "pooler": True, "classes": keys.classes()}


def _distilbert(keys: Keys) -> Found:
    keys.head("ForMaskedLM")
    return "encoder", {
        "layers": keys.get("n_layers", 6),
        "heads": keys.get("n_heads", 12),
        "width": keys.get("dim", 768),
        "hidden": keys.get("hidden_dim", 3072),
        "vocab": keys.get("vocab_size", 30522),
        "context": keys.get("max_position_embeddings", 512),
        "segments": 0,
        "tied": keys.get("tie_word_embeddings", True),
        "head": "mlm",
    }


def _vit(keys: Keys) -> Found:
    keys.head("ForImageClassification")
    keys.must("qkv_bias", True)
    return "encoder", {
        "inputs": "patches",
        "layers": keys.get("num_hidden_layers", 12),
        "heads": keys.get("num_attention_heads", 12),
        "width": keys.get("hidden_size", 768),
        "hidden": keys.get("intermediate_size", 3072),
        "size": keys.get("image_size", 224),
        "patch": keys.get("patch_size", 16),
        "in_channels": keys.get("num_channels", 3),
        "head": "classify",
        "classes": keys.classes(),
    }


def _resnet(keys: Keys) -> Found:
    keys.head("ForImageClassification")
    keys.must("downsample_in_first_stage", False)
    return "convnet", {
        "block": keys.get("layer_type", "bottleneck"),
        "stem": keys.get("embedding_size", 64),
        "channels": keys.get("hidden_sizes", [256, 512, 1024, 2048]),
        "depths": keys.get("depths", [3, 4, 6, 3]),
        "in_channels": keys.get("num_channels", 3),
        "classes": keys.classes(),
    }


def _convnext(keys: Keys) -> Found:
    keys.head("ForImageClassification")
    if keys.get("layer_scale_init_value", 1e-6) <= 0:
        raise Unlike  # no layer scale then
    channels = keys.get("hidden_sizes", [96, 192, 384, 768])
    return "convnet", {
        "block": "convnext",
        "stem": channels[0],
        "stem_kernel": keys.get("patch_size", 4),
        "channels": channels,
        "depths": keys.get("depths", [3, 3, 9, 3]),
        "in_channels": keys.get("num_channels", 3),
        "classes": keys.classes(),
    }


def _mobilenet_v2(keys: Keys) -> Found:
    keys.head("ForImageClassification")
    keys.must("depth_multiplier", 1.0)  # others round channel counts
    keys.must("depth_divisible_by", 8)
    keys.must("min_depth", 8)
    keys.must("expand_ratio", 6.0)
    keys.must("first_layer_is_expansion", True)
    return "convnet", {
        "block": "inverted",
        "stem": 32,
        "stem_kernel": 3,
        "channels": [16, 24, 32, 64, 96, 160, 320],
        "depths": [1, 2, 3, 4, 3, 3, 1],
        "strides": [1, 2, 2, 2, 1, 2, 1],
        "expansion": [1, 6, 6, 6, 6, 6, 6],
        "last": 1280,
        "in_channels": keys.get("num_channels", 3),
        "classes": keys.classes(),
    }


OTHER_NAMES: Mapping[str, Mapping[str, str]] = {
    "gpt2": {
        "n_embd": "hidden_size",
        "n_positions": "max_position_embeddings",
        "n_head": "num_attention_heads",
        "n_layer": "num_hidden_layers",
    },
    "mixtral": {"num_local_experts": "num_experts"},
    "distilbert": {"dim": "hidden_size", "n_heads": "num_attention_heads", "n_layers": "num_hidden_layers"},
}
"""By ``model_type``: what ``transformers`` reads as another key (``attribute_map`` of the configuration's class)."""

KINDS: Mapping[str, Callable[[Keys], Found]] = {
    "gpt2": _gpt2,
    "opt": _opt,
    "gpt_neox": _gpt_neox,
    "llama": _llama_like(kv_heads=0, shape=(32000, 4096, 11008, 32, 32)),
    "mistral": _llama_like(kv_heads=8, shape=(32000, 4096, 14336, 32, 32)),
    "mixtral": _llama_like(kv_heads=8, shape=(32000, 4096, 14336, 32, 32), more=_mixtral),
    "qwen2": _llama_like(
        kv_heads=32, shape=(151936, 4096, 22016, 32, 32), more=lambda keys: {"qkv_bias": True}
    ),
    "qwen2_moe": _llama_like(kv_heads=16, shape=(151936, 2048, 5632, 24, 16), more=_qwen2_moe),
    "qwen3": _llama_like(
        kv_heads=32, shape=(151936, 4096, 22016, 32, 32), head_dim=128, more=lambda keys: {"qk_norm": True}
    ),
    "qwen3_moe": _llama_like(kv_heads=4, shape=(151936, 2048, 6144, 24, 32), more=_qwen3_moe),
    "gemma": _llama_like(kv_heads=16, shape=(256000, 3072, 24576, 28, 16), tied=True, head_dim=256),
    "gemma2": _llama_like(
        kv_heads=4,
        shape=(256000, 2304, 9216, 26, 8),
        tied=True,
        head_dim=256,
        more=lambda keys: {"post_norms": True},
    ),
    "gemma3_text": _llama_like(
        kv_heads=4,
        shape=(262208, 2304, 9216, 26, 8),
        tied=True,
        head_dim=256,
        more=lambda keys: {"post_norms": True, "qk_norm": True},
    ),
    "bert": _bert(512, 2, 30522),
    "roberta": _bert(512, 2, 50265),
    "distilbert": _distilbert,
    "vit": _vit,
    "resnet": _resnet,
    "convnext": _convnext,
    "mobilenet_v2": _mobilenet_v2,
}
"""Readers by ``model_type``."""
