"""Parameter formulas of the built-in families, part by part, as a person would write them down.

Elements of unique parameters: a tensor that two names share is counted once, buffers are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from tui.budget import family_convnet, family_decoder, family_encoder, family_mlp
from tui.budget.arguments import Argument, nearest
from tui.budget.family import Formula

__all__ = ["ARGUMENTS", "FAMILIES", "Formula", "defaults", "formula"]

FAMILIES: dict[str, Callable[[Mapping[str, Any]], Formula]] = {
    "decoder": family_decoder.formula,
    "encoder": family_encoder.formula,
    "mlp": family_mlp.formula,
    "convnet": family_convnet.formula,
}
"""Families that have a formula."""

ARGUMENTS: dict[str, tuple[Argument, ...]] = {
    "decoder": family_decoder.ARGUMENTS,
    "encoder": family_encoder.ARGUMENTS,
    "mlp": family_mlp.ARGUMENTS,
    "convnet": family_convnet.ARGUMENTS,
}
"""What each family may be given, in the order in which it is shown."""


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


def defaults(family: str) -> dict[str, Any]:
    """The arguments of ``family`` and their defaults; None: it follows from the others.

    >>> defaults("mlp")["hidden"]
    [256, 256]
    """
    found: dict[str, Any] = {}
    for one in ARGUMENTS[family]:
        value: Any = one.default
        found[one.name] = list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
    return found
