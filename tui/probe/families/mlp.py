"""A multilayer perceptron and a regression problem with a known answer.

Shapes: B samples, I inputs, O outputs.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Dict, Optional

import torch
import torch.nn.functional as F
from torch import nn

from .arguments import Arguments, refuse

DEFAULTS = {
    "inputs": 64,
    "hidden": [256, 256],
    "outputs": 8,
    "bias": True,
    "norm": "none",
    "activation": "relu",
    "dropout": 0.0,
}
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "tanh": torch.tanh}
NORMS = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}
ARGUMENTS = Arguments(
    "mlp",
    DEFAULTS,
    optional={},
    choices={"norm": ("none", *NORMS), "activation": tuple(ACTIVATIONS)},
)


class Perceptron(nn.Module):
    """(B, I) and targets (B, O) to the mean squared error; a hidden layer is linear, norm, activation, dropout."""

    def __init__(self, cfg: Dict[str, Any]) -> None:
        super().__init__()
        widths = [cfg["inputs"], *cfg["hidden"], cfg["outputs"]]
        layers = [nn.Linear(a, b, bias=cfg["bias"]) for a, b in zip(widths[:-1], widths[1:])]
        self.layers = nn.ModuleList([*(_normed(one, cfg["norm"]) for one in layers[:-1]), layers[-1]])
        self.activation = ACTIVATIONS[cfg["activation"]]
        self.dropout = cfg["dropout"]

    def forward(self, x: torch.Tensor, target: Optional[torch.Tensor] = None) -> torch.Tensor:
        """See the class; without a target the outputs (B, O)."""
        for layer in self.layers[:-1]:
            x = F.dropout(self.activation(layer(x)), self.dropout, self.training)
        x = self.layers[-1](x)
        return x if target is None else F.mse_loss(x.float(), target)


def _normed(layer: nn.Linear, norm: str) -> nn.Module:
    if norm == "none":
        return layer
    return nn.Sequential(OrderedDict(linear=layer, norm=NORMS[norm](layer.out_features)))


def resolve(cfg: Dict[str, Any]) -> Dict[str, Any]:
    """``cfg``: nothing follows from other arguments."""
    return cfg


def build(cfg: Dict[str, Any]) -> Perceptron:
    """The model."""
    return Perceptron(cfg)


def batch(
    n: int, index: int, split: str, length: Optional[int], cfg: Dict[str, Any]
) -> Dict[str, torch.Tensor]:
    """Inputs (n, I) and the outputs (n, O) of a fixed random map with a bend."""
    if n == 1 and cfg["norm"] == "batch":
        refuse("batch norm needs 2 samples or more", 'raise workload.batch.micro, or set norm = "layer"')
    fixed = torch.Generator().manual_seed(99)
    weight = torch.randn(cfg["inputs"], cfg["outputs"], generator=fixed) / cfg["inputs"] ** 0.5
    draw = torch.Generator().manual_seed(7919 * index + (104729 if split == "valid" else 0) + 3)
    x = torch.randn(n, cfg["inputs"], generator=draw)
    return {"x": x, "target": torch.tanh(x @ weight)}


GROUPS = {"layers": "{n} layers"}
