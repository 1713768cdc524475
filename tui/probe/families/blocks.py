"""The block of a transformer: attention, then an MLP or experts, each normed and added to its input.

Shapes: B samples, T tokens, C width.
"""

from __future__ import annotations

from typing import Any, Dict

import torch
import torch.nn.functional as F
from torch import nn

from . import norms
from .attention import Attention


class MLP(nn.Module):
    """(..., C) to (..., C): two matrices with GELU, or three with a SiLU gate.

    Args:
        cfg: width, gated, bias.
        hidden: columns between the matrices.
    """

    def __init__(self, cfg: Dict[str, Any], hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(cfg["width"], hidden, bias=cfg["bias"]) if cfg["gated"] else None
        self.up = nn.Linear(cfg["width"], hidden, bias=cfg["bias"])
        self.down = nn.Linear(hidden, cfg["width"], bias=cfg["bias"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        if self.gate is None:
            return self.down(F.gelu(self.up(x)))
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """(B, T, C) to (B, T, C).

    Args:
        cfg: what Attention and the norms take, and norm_first and post_norms.  Norms stand before attention and MLP
            (norm_first), after them too (post_norms), or after the sum with the input (neither, as in BERT).
        mlp: the second half.
        causal: see Attention.
    """

    def __init__(self, cfg: Dict[str, Any], mlp: nn.Module, causal: bool) -> None:
        super().__init__()
        self.norm_first = cfg["norm_first"]
        self.norm1, self.attn = norms.make(cfg), Attention(cfg, causal)
        self.norm2, self.mlp = norms.make(cfg), mlp
        self.post_norm1 = norms.make(cfg) if cfg["post_norms"] else None
        self.post_norm2 = norms.make(cfg) if cfg["post_norms"] else None
        self.drop = nn.Dropout(cfg["dropout"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        if not self.norm_first:
            x = self.norm1(x + self.drop(self.attn(x)))
            return self.norm2(x + self.drop(self.mlp(x)))
        seen = self.attn(self.norm1(x))
        x = x + self.drop(seen if self.post_norm1 is None else self.post_norm1(seen))
        made = self.mlp(self.norm2(x))
        return x + self.drop(made if self.post_norm2 is None else self.post_norm2(made))


def initialise(module: nn.Module) -> None:
    """Normal weights of standard deviation 0.02 and zero biases, as GPT-2 and BERT; to be given to ``apply``."""
    if any(one.is_meta for one in module.parameters(recurse=False)):
        return  # no values to set, and thousands of experts would take seconds
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
