"""A mixture of experts: a router sends every token to a few of many MLPs (Shazeer et al. 2017; Jiang et al. 2024).

Shapes: N tokens, C width, E experts, K experts a token.
"""

from __future__ import annotations

from typing import Any, Dict, Tuple

import torch
from torch import nn

from .blocks import MLP


class Experts(nn.Module):
    """(..., C) to (..., C): the sum of the chosen experts, weighted, and of the shared expert.

    An expert that no token chose still takes part, with no rows: its gradient is zero rather than absent, so that all
    ranks of a distributed run agree on who has one.

    Args:
        cfg: width, gated, bias, experts, top_k, expert_hidden, shared_experts, shared_gate.
    """

    def __init__(self, cfg: Dict[str, Any]) -> None:
        super().__init__()
        width, hidden = cfg["width"], cfg["expert_hidden"]
        self.top_k = cfg["top_k"]
        self.router = nn.Linear(width, cfg["experts"], bias=False)
        self.experts = nn.ModuleList(MLP(cfg, hidden) for _ in range(cfg["experts"]))
        self.shared = MLP(cfg, cfg["shared_experts"] * hidden) if cfg["shared_experts"] else None
        self.shared_gate = nn.Linear(width, 1, bias=False) if cfg["shared_gate"] else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        flat_NC = x.reshape(-1, x.shape[-1])
        weight_NK, chosen_NK = self.route(flat_NC)
        out = self._dispatch(flat_NC, weight_NK, chosen_NK)
        if self.shared is not None:
            shared = self.shared(flat_NC)
            if self.shared_gate is not None:
                shared = shared * self.shared_gate(flat_NC).sigmoid()
            out = out + shared
        return out.view(x.shape)

    def route(self, flat_NC: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """Weights (N, K), which sum to 1 for every token, and the experts that are chosen, int64 (N, K)."""
        logits_NK, chosen_NK = self.router(flat_NC).topk(self.top_k, dim=-1)
        exact = torch.promote_types(logits_NK.dtype, torch.float32)  # of bf16, not of an fp64 reference
        return logits_NK.softmax(dim=-1, dtype=exact), chosen_NK

    def _dispatch(
        self, flat_NC: torch.Tensor, weight_NK: torch.Tensor, chosen_NK: torch.Tensor
    ) -> torch.Tensor:
        """Each expert on its own tokens: rows are sorted by expert, and put back in the tokens' order."""
        count = len(self.experts)
        ordered, order = chosen_NK.flatten().sort(stable=True)
        edges = torch.searchsorted(ordered, torch.arange(count + 1, device=ordered.device))
        rows = flat_NC[order // self.top_k].split(edges.diff().tolist())
        made = torch.cat([expert(part) for expert, part in zip(self.experts, rows)])
        made_NKC = made[order.argsort()].view(*chosen_NK.shape, -1)
        return (made_NKC * weight_NK.to(made.dtype).unsqueeze(-1)).sum(dim=1)
