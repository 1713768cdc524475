"""A decoder-only transformer, GPT- or Llama-like by its arguments, and a token stream to train it on.

Shapes: B samples, T tokens, C width, V vocabulary.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch
import torch.nn.functional as F
from torch import nn

from . import lora, norms, tokens
from .arguments import Arguments, refuse
from .blocks import MLP, Block, initialise
from .mixture import Experts

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
    "qk_norm": False,
    "post_norms": False,
    "experts": 0,
    "top_k": 2,
    "expert_hidden": None,
    "shared_experts": 0,
    "shared_gate": False,
    "dense_layers": 0,
    "rope_base": 10000.0,
    "lora_rank": 0,
    "lora_targets": ["qkv", "proj"],
}
ARGUMENTS = Arguments(
    "decoder",
    DEFAULTS,
    optional={"kv_heads": int, "head_dim": int, "hidden": int, "qkv_bias": bool, "expert_hidden": int},
    choices={
        "norm": ("layernorm", "rmsnorm"),
        "positions": ("learned", "rotary"),
        "attention": ("sdpa", "eager"),
        "lora_targets": lora.TARGETS,
    },
)


class Decoder(nn.Module):
    """Token ids (B, T) and labels (B, T) to the mean cross-entropy; without labels to logits (B, T, V)."""

    def __init__(self, cfg: Dict[str, Any]) -> None:
        super().__init__()
        self.wte = nn.Embedding(cfg["vocab"], cfg["width"])
        self.wpe = nn.Embedding(cfg["context"], cfg["width"]) if cfg["positions"] == "learned" else None
        self.drop = nn.Dropout(cfg["dropout"])
        self.blocks = nn.ModuleList(_block(cfg, place) for place in range(cfg["layers"]))
        self.norm = norms.make(cfg)
        self.head = nn.Linear(cfg["width"], cfg["vocab"], bias=False)
        self.apply(initialise)
        if cfg["tied"]:
            self.head.weight = self.wte.weight

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
        return F.cross_entropy(
            logits_BTV.flatten(0, 1).float(), labels_BT.flatten(), ignore_index=tokens.NO_LABEL
        )


def _block(cfg: Dict[str, Any], place: int) -> Block:
    routed = cfg["experts"] and place >= cfg["dense_layers"]
    mlp = Experts(cfg) if routed else MLP(cfg, cfg["hidden"])
    return Block({**cfg, "norm_first": True}, mlp, causal=True)


def resolve(cfg: Dict[str, Any]) -> Dict[str, Any]:
    """``cfg`` with the defaults that depend on other arguments filled in; impossible shapes are refused.

    Raises:
        TaskError: arguments that contradict one another.
    """
    cfg = dict(cfg)
    cfg["kv_heads"] = cfg["kv_heads"] or cfg["heads"]
    if cfg["head_dim"] is None and cfg["width"] % cfg["heads"]:
        refuse(
            "workload.args.width (%d) is not a multiple of heads (%d)" % (cfg["width"], cfg["heads"]),
            "change one of them, or set head_dim",
        )
    cfg["head_dim"] = cfg["head_dim"] or cfg["width"] // cfg["heads"]
    cfg["hidden"] = cfg["hidden"] or 4 * cfg["width"]
    cfg["expert_hidden"] = cfg["expert_hidden"] or cfg["hidden"]
    cfg["qkv_bias"] = cfg["bias"] if cfg["qkv_bias"] is None else cfg["qkv_bias"]
    if cfg["heads"] % cfg["kv_heads"]:
        refuse(
            "workload.args.heads (%d) is not a multiple of kv_heads (%d)" % (cfg["heads"], cfg["kv_heads"])
        )
    if cfg["positions"] == "rotary" and cfg["head_dim"] % 2:
        refuse(
            "workload.args.head_dim (%d) is odd, and rotary positions turn channels in pairs"
            % cfg["head_dim"],
            "set an even head_dim, or width to an even multiple of heads",
        )
    _check_experts(cfg)
    return cfg


def _check_experts(cfg: Dict[str, Any]) -> None:
    if cfg["experts"] and cfg["top_k"] > cfg["experts"]:
        refuse(
            "workload.args.top_k (%d) is more than experts (%d)" % (cfg["top_k"], cfg["experts"]),
            "a token cannot use more experts than there are: lower top_k",
        )
    if cfg["shared_experts"] and not cfg["experts"]:
        refuse(
            "workload.args.shared_experts (%d) stand beside routed experts, and experts is 0"
            % cfg["shared_experts"],
            "set experts, or hidden for a plain MLP",
        )
    if cfg["shared_gate"] and not cfg["shared_experts"]:
        refuse("workload.args.shared_gate needs shared_experts", "set shared_experts to 1 or more")
    if cfg["dense_layers"] > cfg["layers"]:
        refuse(
            "workload.args.dense_layers (%d) is more than layers (%d)" % (cfg["dense_layers"], cfg["layers"])
        )


def build(cfg: Dict[str, Any]) -> Decoder:
    """The model of a resolved ``cfg``; with lora_rank only its adapters are trained."""
    model = Decoder(cfg)
    if cfg["lora_rank"]:
        lora.adapt(model, cfg["lora_rank"], cfg["lora_targets"])
    return model


def experts(cfg: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """See ``families.routed``."""
    if not cfg["experts"] or cfg["dense_layers"] >= cfg["layers"]:
        return None
    return {"modules": "blocks.*.mlp.experts", "total": cfg["experts"], "used": cfg["top_k"]}


def batch(
    n: int, index: int, split: str, length: Optional[int], cfg: Dict[str, Any]
) -> Dict[str, torch.Tensor]:
    """ids and labels, int64 (n, length) each; length defaults to the context."""
    steps: int = length or cfg["context"]
    if cfg["positions"] == "learned" and steps > cfg["context"]:
        refuse(
            "length %d is longer than workload.args.context (%d)" % (steps, cfg["context"]),
            "lower workload.batch.length or raise the context",
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
