"""A multilayer perceptron and a regression problem with a known answer.

Shapes: B samples, I inputs, O outputs.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch
import torch.nn.functional as F
from torch import nn

DEFAULTS = {"inputs": 64, "hidden": [256, 256], "outputs": 8, "bias": True}


class Perceptron(nn.Module):
    """(B, I) and targets (B, O) to the mean squared error."""

    def __init__(self, cfg: Dict[str, Any]) -> None:
        super().__init__()
        widths = [cfg["inputs"], *cfg["hidden"], cfg["outputs"]]
        self.layers = nn.ModuleList(
            nn.Linear(a, b, bias=cfg["bias"]) for a, b in zip(widths[:-1], widths[1:])
        )

    def forward(self, x: torch.Tensor, target: Optional[torch.Tensor] = None) -> torch.Tensor:
        """See the class; without a target the outputs (B, O)."""
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        x = self.layers[-1](x)
        return x if target is None else F.mse_loss(x.float(), target)


def build(cfg: Dict[str, Any]) -> Perceptron:
    """The model."""
    return Perceptron(cfg)


def batch(
    n: int, index: int, split: str, length: Optional[int], cfg: Dict[str, Any]
) -> Dict[str, torch.Tensor]:
    """Inputs (n, I) and the outputs (n, O) of a fixed random map with a bend."""
    fixed = torch.Generator().manual_seed(99)
    weight = torch.randn(cfg["inputs"], cfg["outputs"], generator=fixed) / cfg["inputs"] ** 0.5
    draw = torch.Generator().manual_seed(7919 * index + (104729 if split == "valid" else 0) + 3)
    x = torch.randn(n, cfg["inputs"], generator=draw)
    return {"x": x, "target": torch.tanh(x @ weight)}


GROUPS = {"layers": "{n} layers"}
