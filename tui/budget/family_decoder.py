"""Decoder-only transformers: GPT- and Llama-like by their arguments, with experts where asked for.

Sources: Radford et al. 2019, Touvron et al. 2023 (gate, RMS norm, rotary), Ainslie et al. 2023 (grouped queries),
Jiang et al. 2024 (experts), Dai et al. 2024 (shared experts, first layers without any).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.budget import layers
from tui.budget.arguments import Argument, Arguments
from tui.budget.family import LORA_ARGUMENTS, Adapters, Formula, adapters, result

ARGUMENTS = (
    Argument("layers", "whole", 4, "blocks"),
    Argument("heads", "whole", 4, "query heads"),
    Argument("width", "whole", 128, "channels between blocks"),
    Argument("vocab", "whole", 256, "tokens"),
    Argument("context", "whole", 128, "positions"),
    Argument("kv_heads", "whole", None, "key and value heads", "heads"),
    Argument("head_dim", "whole", None, "channels of a head", "width / heads"),
    Argument("hidden", "whole", None, "channels inside the MLP", "4 x width"),
    Argument("gated", "flag", False, "a third matrix gates the MLP"),
    Argument("norm", "choice", "layernorm", "kind of norm", choices=("layernorm", "rmsnorm")),
    Argument("positions", "choice", "learned", "rotary ones have no table", choices=("learned", "rotary")),
    Argument("bias", "flag", True, "biases in linear layers and layer norms"),
    Argument("qkv_bias", "flag", None, "biases of query, key and value", "bias"),
    Argument("tied", "flag", True, "the head shares the token embedding"),
    Argument("dropout", "share", 0.0, "without parameters"),
    Argument("attention", "choice", "sdpa", "without parameters", choices=("sdpa", "eager")),
    Argument("qk_norm", "flag", False, "RMS norm over head_dim of queries and of keys"),
    Argument("post_norms", "flag", False, "a norm after attention and after the MLP too"),
    Argument("experts", "whole", 0, "experts of a layer, 0: a dense MLP", least=0),
    Argument("top_k", "whole", 2, "experts that a token is sent to"),
    Argument("expert_hidden", "whole", None, "channels inside an expert", "hidden"),
    Argument("shared_experts", "whole", 0, "experts that every token is sent to", least=0),
    Argument("shared_gate", "flag", False, "a gate on the shared experts"),
    Argument("dense_layers", "whole", 0, "first layers without experts", least=0),
    Argument("rope_base", "positive", 10000.0, "of rotary positions, without parameters"),
    *LORA_ARGUMENTS,
)


def formula(args: Mapping[str, Any]) -> Formula:
    """Embeddings, blocks, norm and head; raises ValueError with a sentence for wrong arguments."""
    given = Arguments("decoder", args, ARGUMENTS)
    count, width = given.whole("layers"), given.whole("width")
    vocab, learned = given.whole("vocab"), given.word("positions") == "learned"
    dense, sparse, inactive = _blocks(given, width)
    first = min(count, given.whole("dense_layers")) if given.whole("experts") else count
    head = 0 if given.flag("tied") else layers.dense(width, vocab, bias=False)
    parts = {"token embedding": layers.embedding(vocab, width)}
    if learned:
        parts["position embedding"] = layers.embedding(given.whole("context"), width)
    embedding = sum(parts.values()) + head
    parts[f"{count} blocks"] = first * dense + (count - first) * sparse
    parts["final norm"] = _norm(given, width)
    parts["output head"] = head
    others = [(1, size) for name, size in parts.items() if not name.endswith(" blocks")]
    blocks = [(times, size) for times, size in ((first, dense), (count - first, sparse)) if times]
    inactive *= count - first
    return result("decoder", parts, [*blocks, *others], inactive=inactive, embedding=embedding)


def _blocks(given: Arguments, width: int) -> tuple[int, int, int]:
    """Elements of a dense block, of one with experts, and of the latter's that one token leaves out."""
    gated, bias = given.flag("gated"), given.flag("bias")
    hidden = given.whole("hidden", 4 * width)
    adapted = adapters(given, gated)
    norms = (4 if given.flag("post_norms") else 2) * _norm(given, width)
    around = _attention(given, width, adapted) + norms
    dense = around + adapted.mlp(width, hidden, gated, bias)
    experts, shared = given.whole("experts"), given.whole("shared_experts")
    if not experts:
        if shared:
            raise ValueError(f"shared_experts = {shared} needs experts, which are 0")
        return dense, 0, 0
    top_k, expert_hidden = given.whole("top_k"), given.whole("expert_hidden", hidden)
    if top_k > experts:
        raise ValueError(f"top_k = {top_k} must be at most experts = {experts}")
    expert = adapted.mlp(width, expert_hidden, gated, bias)
    sparse = around + layers.dense(width, experts, bias=False) + experts * expert
    if shared:
        sparse += adapted.mlp(width, shared * expert_hidden, gated, bias)
        sparse += width if given.flag("shared_gate") else 0
    return dense, sparse, (experts - top_k) * expert


def _attention(given: Arguments, width: int, adapted: Adapters) -> int:
    heads = given.whole("heads")
    kv_heads = given.whole("kv_heads", heads)
    if heads % kv_heads:
        raise ValueError(f"kv_heads = {kv_heads} must divide heads = {heads}")
    head_dim = given.whole("head_dim", width // heads or 1)
    if head_dim * heads != width and "head_dim" not in given:
        raise ValueError(f"heads = {heads} must divide width = {width}, or head_dim must be given")
    if given.word("positions") == "rotary" and head_dim % 2:
        raise ValueError(f'head_dim = {head_dim} must be even for positions = "rotary"')
    bias = given.flag("bias")
    rows = (heads + 2 * kv_heads) * head_dim
    projections = adapted.dense("qkv", width, rows, given.flag("qkv_bias", bias))
    projections += adapted.dense("proj", heads * head_dim, width, bias)
    return projections + (2 * layers.rms_norm(head_dim) if given.flag("qk_norm") else 0)


def _norm(given: Arguments, width: int) -> int:
    if given.word("norm") == "rmsnorm":
        return layers.rms_norm(width)
    return layers.layer_norm(width, given.flag("bias"))
