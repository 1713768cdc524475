"""Decoder-only transformers: GPT- and Llama-like by their arguments, with experts where asked for.

Sources: Radford et al. 2019, Touvron et al. 2023 (gate, RMS norm, rotary), Ainslie et al. 2023 (grouped queries),
Jiang et al. 2024 (experts), Dai et al. 2024 (shared experts, first layers without any).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.budget import layers
from tui.budget.arguments import Argument, Arguments
from tui.budget.family import (
    LORA_ARGUMENTS,
    Adapters,
    Formula,
    adapters,
    attention_term,
    mlp_terms,
    result,
    total,
)
from tui.budget.worked import Term, term

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
    _check(given)
    vocab, width = given.whole("vocab"), given.whole("width")
    tables = [term("token embedding", "vocab x width", vocab * width, vocab=vocab, width=width)]
    if given.word("positions") == "learned":
        context = given.whole("context")
        size = layers.embedding(context, width)
        tables.append(term("position embedding", "context x width", size, context=context, width=width))
    blocks, inactive = _blocks(given, width)
    norm = _norms("final norm", 1, given, width)
    if given.flag("tied"):
        head = Term("output head", "tied: is the token embedding", "", 0)
    else:
        size = layers.dense(width, vocab, bias=False)
        head = term("output head", "width x vocab", size, width=width, vocab=vocab)
    return result(
        "decoder",
        [*tables, blocks, norm, head],
        [blocks.numbers, *(one.value for one in (*tables, norm, head))],
        inactive=inactive,
        embedding=total(tables) + head.value,
    )


def _check(given: Arguments) -> None:
    experts, shared, top_k = given.whole("experts"), given.whole("shared_experts"), given.whole("top_k")
    count, first = given.whole("layers"), given.whole("dense_layers")
    if experts and top_k > experts:
        raise ValueError(f"top_k = {top_k} must be at most experts = {experts}")
    if shared and not experts:
        raise ValueError(f"shared_experts = {shared} needs experts, which are 0")
    if given.flag("shared_gate") and not shared:
        raise ValueError("shared_gate = true needs shared_experts, which are 0")
    if first > count:
        raise ValueError(f"dense_layers = {first} must be at most layers = {count}")


def _blocks(given: Arguments, width: int) -> tuple[Term, int]:
    """All blocks, and of their elements those of experts that one token is not sent to."""
    count, experts = given.whole("layers"), given.whole("experts")
    first = given.whole("dense_layers") if experts else count
    gated, bias = given.flag("gated"), given.flag("bias")
    hidden = given.whole("hidden", 4 * width)
    adapted = adapters(given)
    attention = _attention(given, width, adapted)
    norms = _norms("norms", 4 if given.flag("post_norms") else 2, given, width)
    around = total(attention) + norms.value
    mlp = mlp_terms("dense MLP" if experts else "MLP", width, hidden, gated=gated, bias=bias, adapted=adapted)
    routed, inactive = _experts(given, width, hidden, adapted) if experts else ([], 0)
    dense, sparse = around + total(mlp), around + total(routed)
    kinds = [(first, dense, mlp, "block"), (count - first, sparse, routed, "block with experts")]
    if experts and first:
        kinds[0] = (first, dense, mlp, "dense block")
    present = [kind for kind in kinds if kind[0]]
    inner = (*attention, *(one for kind in present for one in kind[2]), norms)
    symbols = " + ".join(f"layers x {word}" for _, _, _, word in present)
    numbers = " + ".join(f"{times} x {size:,}" for times, size, _, _ in present)
    size = first * dense + (count - first) * sparse
    return Term(f"{count} blocks", symbols, numbers, size, inner), (count - first) * inactive


def _attention(given: Arguments, width: int, adapted: Adapters) -> list[Term]:
    heads = given.whole("heads")
    kv_heads = given.whole("kv_heads", heads)
    head_dim = given.whole("head_dim", width // heads or 1)
    if head_dim * heads != width and "head_dim" not in given:
        raise ValueError(f"heads = {heads} must divide width = {width}, or head_dim must be given")
    attention = attention_term(
        width,
        heads,
        kv_heads,
        head_dim,
        qkv_bias=given.flag("qkv_bias", given.flag("bias")),
        out_bias=given.flag("bias"),
        qk_norm=given.flag("qk_norm"),
    )
    if given.word("positions") == "rotary" and head_dim % 2:
        raise ValueError(f'head_dim = {head_dim} must be even for positions = "rotary"')
    rows = (heads + 2 * kv_heads) * head_dim
    return [attention, *adapted.attention(width, rows, heads * head_dim)]


def _experts(given: Arguments, width: int, hidden: int, adapted: Adapters) -> tuple[list[Term], int]:
    """Router, experts and shared ones of a layer, and the elements that one token leaves out."""
    experts, shared = given.whole("experts"), given.whole("shared_experts")
    gated, bias = given.flag("gated"), given.flag("bias")
    inner = given.whole("expert_hidden", hidden)
    routed = mlp_terms("experts", width, inner, gated=gated, bias=bias, adapted=adapted, experts=experts)
    size = layers.dense(width, experts, bias=False)
    found = [term("router", "width x experts", size, width=width, experts=experts), *routed]
    if shared:
        found += mlp_terms("shared experts", width, shared * inner, gated=gated, bias=bias, adapted=adapted)
    if given.flag("shared_gate"):
        found.append(term("shared gate", "width", width, width=width))
    return found, total(routed) // experts * (experts - given.whole("top_k"))


def _norms(name: str, count: int, given: Arguments, width: int) -> Term:
    rms = given.word("norm") == "rmsnorm"
    one = layers.rms_norm(width) if rms else layers.layer_norm(width, given.flag("bias"))
    factors = ([str(count)] if count > 1 else []) + (["2"] if one > width else [])
    return term(name, " x ".join([*factors, "width"]), count * one, width=width)
