"""A multilayer perceptron: linear layers in a row, a norm after every hidden one where asked for."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby, pairwise
from typing import Any

from tui.budget import layers
from tui.budget.arguments import Argument, Arguments
from tui.budget.family import Formula, result, total
from tui.budget.worked import Term, term

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
    hidden, bias, norm = given.wholes("hidden"), given.flag("bias"), given.word("norm") != "none"
    widths = [given.whole("inputs"), *hidden, given.whole("outputs")]
    found: list[Term] = []
    for number, (before, after) in enumerate(pairwise(widths), 1):
        normed = norm and number <= len(hidden)
        text = "inputs x outputs" + (" + outputs" if bias else "") + (" + 2 x outputs" if normed else "")
        size = layers.dense(before, after, bias) + (layers.layer_norm(after) if normed else 0)
        found.append(term(f"layer {number}", text, size, inputs=before, outputs=after))
    alike = ((value, len(list(those))) for value, those in groupby(one.value for one in found))
    sizes = " + ".join(f"{times:,} x {value:,}" if times > 1 else f"{value:,}" for value, times in alike)
    part = Term(f"{len(found)} layers", "sum of the layers", sizes, total(found), tuple(found))
    return result("mlp", [part], [sizes])
