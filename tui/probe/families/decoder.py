"""A decoder-only transformer, GPT- or Llama-like by its arguments, and a token stream to train it on.

Shapes: B samples, T tokens, C width, V vocabulary, H heads, K key and value heads, D head_dim.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Optional

import torch
import torch.nn.functional as F
from torch import nn

from ..faults import TaskError
from . import tokens

DEFAULTS = {
    "layers": 4,
    "heads": 4,
    "width": 128,
    "vocab": 256,
    "context": 128,
    "kv_heads": None,
    "head_dim": None,
    "hidden": None,
    "gated": False,
    "norm": "layernorm",
    "positions": "learned",
    "bias": True,
    "qkv_bias": None,
    "tied": True,
    "dropout": 0.0,
    "attention": "sdpa",
}


def _norm(cfg: Dict[str, Any], width: int) -> nn.Module:
    if cfg["norm"] == "rmsnorm":
        return nn.RMSNorm(width)
    return nn.LayerNorm(width, bias=cfg["bias"])


def rotate(x_BHTD: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Rotary positions: pairs of channels turned by an angle that grows with the position."""
    half = x_BHTD.shape[-1] // 2
    places = torch.arange(x_BHTD.shape[-2], device=x_BHTD.device, dtype=torch.float32)
    speeds = base ** (-torch.arange(half, device=x_BHTD.device, dtype=torch.float32) / half)
    angles = torch.outer(places, speeds)
    cos, sin = angles.cos().to(x_BHTD.dtype), angles.sin().to(x_BHTD.dtype)
    first, second = x_BHTD[..., :half], x_BHTD[..., half:]
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


class Attention(nn.Module):
    """Causal self-attention with grouped queries."""

    def __init__(self, cfg: Dict[str, Any]) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = cfg["heads"], cfg["kv_heads"], cfg["head_dim"]
        self.rotary = cfg["positions"] == "rotary"
        self.eager = cfg["attention"] == "eager"
        self.dropout = cfg["dropout"]
        width, rows = cfg["width"], (self.heads + 2 * self.kv_heads) * self.head_dim
        self.qkv = nn.Linear(width, rows, bias=cfg["qkv_bias"])
        self.proj = nn.Linear(self.heads * self.head_dim, width, bias=cfg["bias"])

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        """(B, T, C) to (B, T, C)."""
        B, T, _ = x_BTC.shape
        parts = self.qkv(x_BTC).view(B, T, -1, self.head_dim).transpose(1, 2)
        q, k, v = parts.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        if self.rotary:
            q, k = rotate(q), rotate(k)
        if self.kv_heads != self.heads:
            k = k.repeat_interleave(self.heads // self.kv_heads, dim=1)
            v = v.repeat_interleave(self.heads // self.kv_heads, dim=1)
        drop = self.dropout if self.training else 0.0
        if self.eager:
            score = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
            hidden = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)
            score = score.masked_fill(hidden, float("-inf")).softmax(dim=-1)
            out = F.dropout(score, drop, self.training) @ v
        else:
            out = F.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=True)
        return self.proj(out.transpose(1, 2).reshape(B, T, -1))


class MLP(nn.Module):
    """Two matrices with GELU, or three with a SiLU gate."""

    def __init__(self, cfg: Dict[str, Any]) -> None:
        super().__init__()
        self.gate = nn.Linear(cfg["width"], cfg["hidden"], bias=cfg["bias"]) if cfg["gated"] else None
        self.up = nn.Linear(cfg["width"], cfg["hidden"], bias=cfg["bias"])
        self.down = nn.Linear(cfg["hidden"], cfg["width"], bias=cfg["bias"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, C) to (B, T, C)."""
        if self.gate is None:
            return self.down(F.gelu(self.up(x)))
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Attention and MLP, each after a norm and added to its input."""

    def __init__(self, cfg: Dict[str, Any]) -> None:
        super().__init__()
        self.norm1, self.attn = _norm(cfg, cfg["width"]), Attention(cfg)
        self.norm2, self.mlp = _norm(cfg, cfg["width"]), MLP(cfg)
        self.drop = nn.Dropout(cfg["dropout"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, C) to (B, T, C)."""
        x = x + self.drop(self.attn(self.norm1(x)))
        return x + self.drop(self.mlp(self.norm2(x)))


class Decoder(nn.Module):
    """Token ids (B, T) and labels (B, T) to the mean cross-entropy; without labels to logits (B, T, V)."""

    def __init__(self, cfg: Dict[str, Any]) -> None:
        super().__init__()
        self.wte = nn.Embedding(cfg["vocab"], cfg["width"])
        self.wpe = nn.Embedding(cfg["context"], cfg["width"]) if cfg["positions"] == "learned" else None
        self.drop = nn.Dropout(cfg["dropout"])
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg["layers"]))
        self.norm = _norm(cfg, cfg["width"])
        self.head = nn.Linear(cfg["width"], cfg["vocab"], bias=False)
        self.apply(self._initialise)
        if cfg["tied"]:
            self.head.weight = self.wte.weight

    @staticmethod
    def _initialise(module: torch.nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, ids_BT: torch.Tensor, labels_BT: Optional[torch.Tensor] = None) -> torch.Tensor:
        """See the class."""
        x = self.wte(ids_BT)
        if self.wpe is not None:
            x = x + self.wpe(torch.arange(ids_BT.shape[1], device=ids_BT.device))
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        logits_BTV = self.head(self.norm(x))
        if labels_BT is None:
            return logits_BTV
        return F.cross_entropy(logits_BTV.flatten(0, 1).float(), labels_BT.flatten(), ignore_index=-100)


def resolve(cfg: Dict[str, Any]) -> Dict[str, Any]:
    """``cfg`` with the defaults that depend on other arguments filled in; impossible shapes are refused."""
    cfg = dict(cfg)
    cfg["kv_heads"] = cfg["kv_heads"] or cfg["heads"]
    if cfg["head_dim"] is None and cfg["width"] % cfg["heads"]:
        raise TaskError(
            "workload",
            "workload.args.width (%d) is not a multiple of heads (%d)" % (cfg["width"], cfg["heads"]),
            hint="change one of them, or set head_dim",
        )
    cfg["head_dim"] = cfg["head_dim"] or cfg["width"] // cfg["heads"]
    cfg["hidden"] = cfg["hidden"] or 4 * cfg["width"]
    cfg["qkv_bias"] = cfg["bias"] if cfg["qkv_bias"] is None else cfg["qkv_bias"]
    for key, choices in (
        ("norm", ("layernorm", "rmsnorm")),
        ("positions", ("learned", "rotary")),
        ("attention", ("sdpa", "eager")),
    ):
        if cfg[key] not in choices:
            raise TaskError(
                "workload", "workload.args.%s must be %s, got %r" % (key, " or ".join(choices), cfg[key])
            )
    if cfg["heads"] % cfg["kv_heads"]:
        raise TaskError(
            "workload",
            "workload.args.heads (%d) is not a multiple of kv_heads (%d)" % (cfg["heads"], cfg["kv_heads"]),
        )
    return cfg


def build(cfg: Dict[str, Any]) -> Decoder:
    """The model."""
    return Decoder(resolve(cfg))


def batch(
    n: int, index: int, split: str, length: Optional[int], cfg: Dict[str, Any]
) -> Dict[str, torch.Tensor]:
    """ids and labels, int64 (n, length) each; length defaults to the context."""
    steps: int = length or cfg["context"]
    if cfg["positions"] == "learned" and steps > cfg["context"]:
        raise TaskError(
            "workload",
            "length %d is longer than workload.args.context (%d)" % (steps, cfg["context"]),
            hint="lower workload.batch.length or raise the context",
        )
    stream = tokens.sequences(n, steps, cfg["vocab"], index, split)
    return {"ids_BT": stream[:, :-1].contiguous(), "labels_BT": stream[:, 1:].contiguous()}


GROUPS = {
    "wte": "token embedding",
    "wpe": "position embedding",
    "blocks": "{n} blocks",
    "norm": "final norm",
    "head": "output head",
}
