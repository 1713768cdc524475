"""Rotary positions: pairs of channels turned by an angle that grows with the position (Su et al. 2021).

Shapes: B samples, H heads, T tokens, D head_dim.
"""

from __future__ import annotations

from typing import Tuple

import torch


def angles(steps: int, head_dim: int, base: float, like: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines, (T, D / 2) each, on the device and in the dtype of ``like``; computed in fp32."""
    half = head_dim // 2
    places = torch.arange(steps, device=like.device, dtype=torch.float32)
    speeds = base ** (-torch.arange(half, device=like.device, dtype=torch.float32) / half)
    turned = torch.outer(places, speeds)
    return turned.cos().to(like.dtype), turned.sin().to(like.dtype)


def rotate(x_BHTD: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """``x`` with channel i and channel i + D / 2 turned together."""
    first, second = x_BHTD.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
