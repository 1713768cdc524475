"""Transformer encoders: tokens (BERT, Devlin et al. 2018) or patches of an image (ViT, Dosovitskiy et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.budget import layers
from tui.budget.arguments import Argument, Arguments
from tui.budget.family import LORA_ARGUMENTS, Formula, adapters, mlp_terms, result, total
from tui.budget.worked import Term, term

ARGUMENTS = (
    Argument("inputs", "choice", "tokens", "what it reads", choices=("tokens", "patches")),
    Argument("layers", "whole", 4, "blocks"),
    Argument("heads", "whole", 4, "attention heads"),
    Argument("width", "whole", 128, "channels between blocks"),
    Argument("hidden", "whole", None, "channels inside the MLP", "4 x width"),
    Argument("vocab", "whole", 256, "tokens"),
    Argument("context", "whole", 128, "positions of tokens"),
    Argument("segments", "whole", 2, "kinds of segment of tokens, 0: none", least=0),
    Argument("size", "whole", 32, "side of an image"),
    Argument("patch", "whole", 4, "side of a patch"),
    Argument("in_channels", "whole", 3, "channels of an image"),
    Argument("class_token", "flag", True, "one more position, of patches only"),
    Argument(
        "norm_first", "flag", None, "norm before attention and MLP, and a final one", "true for patches"
    ),
    Argument("embedding_norm", "flag", None, "norm of the embeddings", "true for tokens"),
    Argument("pooler", "flag", False, "a linear layer on the first position"),
    Argument(
        "head", "choice", None, "what it answers", "mlm for tokens, classify for patches", ("mlm", "classify")
    ),
    Argument("classes", "whole", 10, "outputs of a classifier"),
    Argument("tied", "flag", True, "the mlm head shares the token embedding"),
    Argument("dropout", "share", 0.0, "without parameters"),
    Argument("attention", "choice", "sdpa", "without parameters", choices=("sdpa", "eager")),
    *LORA_ARGUMENTS,
)


EMBEDDINGS = ("token embedding", "position embedding", "segment embedding")


def formula(args: Mapping[str, Any]) -> Formula:
    """Embeddings, blocks and head; raises ValueError with a sentence for wrong arguments."""
    given = Arguments("encoder", args, ARGUMENTS)
    tokens = given.word("inputs") == "tokens"
    count, width = given.whole("layers"), given.whole("width")
    before = _token_parts(given, width) if tokens else _patch_parts(given, width)
    if given.flag("embedding_norm", tokens):
        before.append(_norm("embedding norm", width))
    block = _block(given, width)
    size = total(block)
    blocks = term(f"{count} blocks", "layers x block", count * size, tuple(block), layers=count, block=size)
    after = [_norm("final norm", width)] if given.flag("norm_first", not tokens) else []
    if given.flag("pooler"):
        after.append(term("pooler", "width x width + width", layers.dense(width, width), width=width))
    head, table = _head(given, width, tokens)
    others = [*before, *after, head]
    return result(
        "encoder",
        [*before, blocks, *after, head],
        [blocks.numbers, *(one.value for one in others)],
        embedding=table + sum(one.value for one in before if one.name in EMBEDDINGS),
    )


def _norm(name: str, width: int) -> Term:
    return term(name, "2 x width", layers.layer_norm(width), width=width)


def _token_parts(given: Arguments, width: int) -> list[Term]:
    return [
        term(
            f"{name} embedding",
            f"{count} x width",
            given.whole(count) * width,
            **{count: given.whole(count)},
            width=width,
        )
        for name, count in (("token", "vocab"), ("position", "context"), ("segment", "segments"))
        if given.whole(count)
    ]


def _patch_parts(given: Arguments, width: int) -> list[Term]:
    size, patch, channels = given.whole("size"), given.whole("patch"), given.whole("in_channels")
    if size % patch:
        raise ValueError(f"patch = {patch} must divide size = {size}")
    text = "width x in_channels x patch x patch + width"
    convolution = layers.conv(channels, width, patch)
    parts = [term("patch embedding", text, convolution, width=width, in_channels=channels, patch=patch)]
    more = ""
    if given.flag("class_token"):
        parts.append(term("class token", "width", width, width=width))
        more = " + 1"
    side = size // patch
    places = side * side + bool(more)
    text = f"(side x side{more}) x width"
    parts.append(term("position embedding", text, layers.embedding(places, width), side=side, width=width))
    return parts


def _block(given: Arguments, width: int) -> list[Term]:
    heads, hidden = given.whole("heads"), given.whole("hidden", 4 * width)
    if width % heads:
        raise ValueError(f"heads = {heads} must divide width = {width}")
    adapted = adapters(given)
    attention = layers.attention(width, heads)
    return [
        term("attention", "4 x width x width + 4 x width", attention, width=width),
        *adapted.attention(width, 3 * width, width),
        *mlp_terms("MLP", width, hidden, gated=False, bias=True, adapted=adapted),
        term("norms", "2 x 2 x width", 2 * layers.layer_norm(width), width=width),
    ]


def _head(given: Arguments, width: int, tokens: bool) -> tuple[Term, int]:
    """The head, and of its elements the ones that are a table of the vocabulary."""
    if given.word("head", "mlm" if tokens else "classify") == "classify":
        classes = given.whole("classes")
        size = layers.dense(width, classes)
        return term("output head", "width x classes + classes", size, width=width, classes=classes), 0
    if not tokens:
        raise ValueError('head = "mlm" predicts tokens and needs inputs = "tokens"')
    vocab = given.whole("vocab")
    table = 0 if given.flag("tied") else layers.embedding(vocab, width)
    text = "width x width + width + 2 x width + vocab" + (" + vocab x width" if table else "")
    size = layers.dense(width, width) + layers.layer_norm(width) + vocab + table
    return term("output head", text, size, width=width, vocab=vocab), table
