"""Low-rank adapters on a frozen model (Hu et al. 2021)."""

from __future__ import annotations

import math
from typing import Sequence

import torch
from torch import nn

TARGETS = ("qkv", "proj", "gate", "up", "down")


class LoRALinear(nn.Module):
    """(..., in) to (..., out): ``base(x) + B A x``; the scale alpha / rank is 1, as with alpha = rank.

    B begins with zeros, so at the start the output is the base's.
    """

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.A = nn.Linear(base.in_features, rank, bias=False, device=base.weight.device)
        self.B = nn.Linear(rank, base.out_features, bias=False, device=base.weight.device)
        nn.init.kaiming_uniform_(self.A.weight, a=math.sqrt(5))
        nn.init.zeros_(self.B.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return self.base(x) + self.B(self.A(x))


def adapt(model: nn.Module, rank: int, targets: Sequence[str]) -> None:
    """Freeze ``model``, and give its linear layers that are called one of ``targets`` adapters, which are trained."""
    model.requires_grad_(False)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if name in targets and isinstance(child, nn.Linear):
                setattr(parent, name, LoRALinear(child, rank))
