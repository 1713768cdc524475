"""Transformer encoders: tokens (BERT, Devlin et al. 2018) or patches of an image (ViT, Dosovitskiy et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.budget import layers
from tui.budget.arguments import Argument, Arguments
from tui.budget.family import LORA_ARGUMENTS, Formula, adapters, result

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


def formula(args: Mapping[str, Any]) -> Formula:
    """Embeddings, blocks and head; raises ValueError with a sentence for wrong arguments."""
    given = Arguments("encoder", args, ARGUMENTS)
    tokens = given.word("inputs") == "tokens"
    count, width = given.whole("layers"), given.whole("width")
    norm_first = given.flag("norm_first", not tokens)
    parts = _token_parts(given, width) if tokens else _patch_parts(given, width)
    embedding = sum(size for name, size in parts.items() if name in EMBEDDINGS)
    if given.flag("embedding_norm", tokens):
        parts["embedding norm"] = layers.layer_norm(width)
    block = _block(given, width)
    parts[f"{count} blocks"] = count * block
    if norm_first:
        parts["final norm"] = layers.layer_norm(width)
    if given.flag("pooler"):
        parts["pooler"] = layers.dense(width, width)
    parts["output head"], table = _head(given, width, tokens)
    others = [(1, size) for name, size in parts.items() if not name.endswith(" blocks")]
    return result("encoder", parts, [(count, block), *others], embedding=embedding + table)


EMBEDDINGS = ("token embedding", "position embedding", "segment embedding")


def _token_parts(given: Arguments, width: int) -> dict[str, int]:
    parts = {
        "token embedding": layers.embedding(given.whole("vocab"), width),
        "position embedding": layers.embedding(given.whole("context"), width),
    }
    if segments := given.whole("segments"):
        parts["segment embedding"] = layers.embedding(segments, width)
    return parts


def _patch_parts(given: Arguments, width: int) -> dict[str, int]:
    size, patch, class_token = given.whole("size"), given.whole("patch"), given.flag("class_token")
    if size % patch:
        raise ValueError(f"patch = {patch} must divide size = {size}")
    parts = {"patch embedding": layers.conv(given.whole("in_channels"), width, patch)}
    if class_token:
        parts["class token"] = width
    parts["position embedding"] = layers.embedding((size // patch) ** 2 + class_token, width)
    return parts


def _block(given: Arguments, width: int) -> int:
    heads = given.whole("heads")
    if width % heads:
        raise ValueError(f"heads = {heads} must divide width = {width}")
    adapted = adapters(given, gated=False)
    attention = adapted.dense("qkv", width, 3 * width) + adapted.dense("proj", width, width)
    mlp = adapted.mlp(width, given.whole("hidden", 4 * width), gated=False, bias=True)
    return attention + mlp + 2 * layers.layer_norm(width)


def _head(given: Arguments, width: int, tokens: bool) -> tuple[int, int]:
    """Elements of the head, and of these the ones that are a table of the vocabulary."""
    if given.word("head", "mlm" if tokens else "classify") == "classify":
        return layers.dense(width, given.whole("classes")), 0
    if not tokens:
        raise ValueError('head = "mlm" predicts tokens and needs inputs = "tokens"')
    vocab = given.whole("vocab")
    table = 0 if given.flag("tied") else layers.embedding(vocab, width)
    transform = layers.dense(width, width) + layers.layer_norm(width)
    return transform + table + vocab, table
