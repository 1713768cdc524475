"""A multilayer perceptron: linear layers in a row, a norm after every hidden one where asked for."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from tui.budget import layers
from tui.budget.arguments import Argument, Arguments
from tui.budget.family import Formula, result

ARGUMENTS = (
    Argument("inputs", "whole", 64, "features of a sample"),
    Argument("hidden", "wholes", (256, 256), "outputs of each hidden layer"),
    Argument("outputs", "whole", 8, "outputs of the last layer"),
    Argument("bias", "flag", True, "biases in the linear layers"),
    Argument("norm", "choice", "none", "norm after every hidden layer", choices=("none", "batch", "layer")),
    Argument("activation", "choice", "relu", "without parameters", choices=("relu", "gelu", "tanh")),
    Argument("dropout", "share", 0.0, "without parameters"),
)


def formula(args: Mapping[str, Any]) -> Formula:
    """Layers with their norms; raises ValueError with a sentence for wrong arguments."""
    given = Arguments("mlp", args, ARGUMENTS)
    hidden, bias = given.wholes("hidden"), given.flag("bias")
    widths = [given.whole("inputs"), *hidden, given.whole("outputs")]
    sizes = [layers.dense(before, after, bias) for before, after in pairwise(widths)]
    if given.word("norm") != "none":
        sizes = [
            size + norm
            for size, norm in zip(sizes, [*(layers.layer_norm(width) for width in hidden), 0], strict=True)
        ]
    return result("mlp", {f"{len(sizes)} layers": sum(sizes)}, [(1, size) for size in sizes])
