"""Parameter formulas of the built-in families, part by part, as a person would write them down.

Elements of unique parameters: a tensor that two names share is counted once, buffers are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tui.budget import layers
from tui.budget.arguments import Arguments, nearest


@dataclass(frozen=True, slots=True)
class Formula:
    """How many parameters a family has with given arguments."""

    family: str
    total: int
    """Elements of unique parameters."""
    parts: dict[str, int]
    """Elements by part, in the order of the data's way through the model; 0 for a part that is shared."""
    text: str
    """The arithmetic, as ``12 x 7,087,872 + 38,597,376 + 786,432 + 1,536``."""
    active: int | None = None
    """Elements that work on one token; None: all of them."""
    embedding: int = 0
    """Of total: tables that are looked up or projected onto the vocabulary (token, position, segment, untied head)."""


DECODER_ARGUMENTS = (
    "layers",
    "heads",
    "width",
    "vocab",
    "context",
    "kv_heads",
    "head_dim",
    "hidden",
    "gated",
    "norm",
    "positions",
    "bias",
    "qkv_bias",
    "tied",
    "dropout",
    "attention",
)
MLP_ARGUMENTS = ("inputs", "hidden", "outputs", "bias")
CONVNET_ARGUMENTS = ("channels", "classes", "in_channels", "kernel", "groups", "norm", "size")


def formula(family: str, args: Mapping[str, Any]) -> Formula:
    """The parameter formula of ``family`` for the arguments of ``[workload] args``.

    Arguments that are left out have the family's own defaults, so the formula is of what is built.

    Raises:
        ValueError: an unknown family or argument (the nearest known one is named), a mistyped argument,
            or arguments that contradict each other.

    >>> gpt2 = {"layers": 12, "heads": 12, "width": 768, "vocab": 50257, "context": 1024}
    >>> formula("decoder", gpt2).text
    '12 x 7,087,872 + 38,597,376 + 786,432 + 1,536'
    >>> formula("decoder", gpt2).total
    124439808
    """
    if family not in FAMILIES:
        raise ValueError(f"{family} is not a family with a formula; {nearest(family, tuple(FAMILIES))}")
    return FAMILIES[family](args)


def _decoder(args: Mapping[str, Any]) -> Formula:
    given = Arguments("decoder", args, DECODER_ARGUMENTS)
    count, width = given.whole("layers", 4), given.whole("width", 128)
    vocab, context = given.whole("vocab", 256), given.whole("context", 128)
    positions = given.choice("positions", "learned", ("learned", "rotary"))
    given.share("dropout", 0.0)
    given.choice("attention", "sdpa", ("sdpa", "eager"))
    block = _decoder_block(given, width, positions)
    head = 0 if given.flag("tied", True) else layers.dense(width, vocab, bias=False)
    parts = {"token embedding": layers.embedding(vocab, width)}
    if positions == "learned":
        parts["position embedding"] = layers.embedding(context, width)
    parts[f"{count} blocks"] = count * block
    parts["final norm"] = _norm(given, width)
    parts["output head"] = head
    others = [size for name, size in parts.items() if size and not name.endswith(" blocks")]
    text = " + ".join([f"{count} x {block:,}", *(f"{size:,}" for size in others)])
    return Formula("decoder", sum(parts.values()), parts, text)


def _decoder_block(given: Arguments, width: int, positions: str) -> int:
    heads = given.whole("heads", 4)
    kv_heads = given.whole("kv_heads", heads)
    if heads % kv_heads:
        raise ValueError(f"kv_heads = {kv_heads} must divide heads = {heads}")
    head_dim = given.whole("head_dim", width // heads or 1)
    if head_dim * heads != width and "head_dim" not in given:
        raise ValueError(f"heads = {heads} must divide width = {width}, or head_dim must be given")
    if positions == "rotary" and head_dim % 2:
        raise ValueError(f'head_dim = {head_dim} must be even for positions = "rotary"')
    bias = given.flag("bias", True)
    attention = layers.attention(width, heads, kv_heads, head_dim, given.flag("qkv_bias", bias), bias)
    mlp = layers.mlp(width, given.whole("hidden", 4 * width), given.flag("gated", False), bias)
    return attention + mlp + 2 * _norm(given, width)


def _norm(given: Arguments, width: int) -> int:
    if given.choice("norm", "layernorm", ("layernorm", "rmsnorm")) == "rmsnorm":
        return layers.rms_norm(width)
    return layers.layer_norm(width, given.flag("bias", True))


def _mlp(args: Mapping[str, Any]) -> Formula:
    given = Arguments("mlp", args, MLP_ARGUMENTS)
    widths = [given.whole("inputs", 64), *given.wholes("hidden", (256, 256)), given.whole("outputs", 8)]
    bias = given.flag("bias", True)
    sizes = [layers.dense(before, after, bias) for before, after in pairwise(widths)]
    return Formula("mlp", sum(sizes), {f"{len(sizes)} layers": sum(sizes)}, _sum_text(sizes))


def _convnet(args: Mapping[str, Any]) -> Formula:
    given = Arguments("convnet", args, CONVNET_ARGUMENTS)
    channels = given.wholes("channels", (32, 64, 128), least_items=1)
    kernel, groups = given.whole("kernel", 3), given.whole("groups", 1)
    norm = given.choice("norm", "batch", ("batch", "group", "none"))
    given.whole("size", 32)
    sizes: list[int] = []
    before = given.whole("in_channels", 3)
    for number, after in enumerate(channels, 1):
        # the first convolution sees the image's channels, which groups seldom divide
        divided = groups if number > 1 else 1
        size = layers.conv2d(before, after, kernel, divided, bias=norm == "none")
        sizes.append(size + (0 if norm == "none" else layers.layer_norm(after)))
        before = after
    head = layers.dense(before, given.whole("classes", 10))
    parts = {f"{len(sizes)} stages": sum(sizes), "output head": head}
    return Formula("convnet", sum(sizes) + head, parts, _sum_text([*sizes, head]))


def _sum_text(sizes: Sequence[int]) -> str:
    return " + ".join(f"{size:,}" for size in sizes)


FAMILIES: dict[str, Callable[[Mapping[str, Any]], Formula]] = {
    "decoder": _decoder,
    "mlp": _mlp,
    "convnet": _convnet,
}
"""Families that have a formula."""
