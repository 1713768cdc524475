"""Self-attention with grouped queries, causal or not.

Shapes: B samples, T tokens, C width, H heads, K key and value heads, D head_dim.
"""

from __future__ import annotations

import math
from typing import Any, Dict

import torch
import torch.nn.functional as F
from torch import nn

from .norms import rms_norm
from .rotary import angles, rotate


class Attention(nn.Module):
    """(B, T, C) to (B, T, C).

    Args:
        cfg: width, heads, kv_heads, head_dim, qkv_bias, bias, dropout, attention, positions, rope_base, qk_norm.
        causal: whether a token sees only itself and those before it.
    """

    def __init__(self, cfg: Dict[str, Any], causal: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = cfg["heads"], cfg["kv_heads"], cfg["head_dim"]
        self.causal = causal
        self.rope_base = cfg["rope_base"] if cfg["positions"] == "rotary" else None
        self.eager = cfg["attention"] == "eager"
        self.dropout = cfg["dropout"]
        width, rows = cfg["width"], (self.heads + 2 * self.kv_heads) * self.head_dim
        self.qkv = nn.Linear(width, rows, bias=cfg["qkv_bias"])
        self.q_norm = rms_norm(self.head_dim) if cfg["qk_norm"] else None
        self.k_norm = rms_norm(self.head_dim) if cfg["qk_norm"] else None
        self.proj = nn.Linear(self.heads * self.head_dim, width, bias=cfg["bias"])

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        """See the class."""
        B, T, _ = x_BTC.shape
        parts = self.qkv(x_BTC).view(B, T, -1, self.head_dim).transpose(1, 2)
        q, k, v = parts.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rope_base is not None:
            cos, sin = angles(T, self.head_dim, self.rope_base, q)
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if self.kv_heads != self.heads:
            # Not enable_gqa: in fp32 the fused kernel of CUDA has none, and the scores would be kept whole.
            k = k.repeat_interleave(self.heads // self.kv_heads, dim=1)
            v = v.repeat_interleave(self.heads // self.kv_heads, dim=1)
        out = self._by_hand(q, k, v) if self.eager else self._fused(q, k, v)
        return self.proj(out.transpose(1, 2).reshape(B, T, -1))

    def _fused(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        drop = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=self.causal)

    def _by_hand(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        score = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        if self.causal:
            steps = q.shape[-2]
            hidden = torch.ones(steps, steps, dtype=torch.bool, device=q.device).triu(1)
            score = score.masked_fill(hidden, float("-inf"))
        return F.dropout(score.softmax(dim=-1), self.dropout, self.training) @ v
