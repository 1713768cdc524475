"""Norms over the last dimension, with the same epsilon in every dtype."""

from __future__ import annotations

from typing import Any, Dict

from torch import nn

EPSILON = 1e-6
"""torch's default for RMSNorm is the dtype's own: 0.008 in bf16, which is no norm any more."""


def rms_norm(width: int) -> nn.Module:
    """Root mean square norm with a weight (Zhang and Sennrich 2019)."""
    return nn.RMSNorm(width, eps=EPSILON)


def make(cfg: Dict[str, Any]) -> nn.Module:
    """The norm that ``cfg`` (norm, width, bias) asks for."""
    return (
        rms_norm(cfg["width"]) if cfg["norm"] == "rmsnorm" else nn.LayerNorm(cfg["width"], bias=cfg["bias"])
    )
