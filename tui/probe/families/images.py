"""Images whose class can be seen, made from a fixed seed."""

from __future__ import annotations

from typing import Dict, Tuple

import torch
import torch.nn.functional as F

PATTERN = 4
"""Cells a side of a class's pattern."""


def labelled(
    n: int, channels: int, side: Tuple[int, int], classes: int, index: int, split: str
) -> Dict[str, torch.Tensor]:
    """Images (n, channels, *side), noise over one of ``classes`` fixed patterns, and labels int64 (n,)."""
    fixed = torch.Generator().manual_seed(5)
    patterns = torch.randn(classes, channels, PATTERN, PATTERN, generator=fixed)
    draw = torch.Generator().manual_seed(7919 * index + (104729 if split == "valid" else 0) + 11)
    labels = torch.randint(0, classes, (n,), generator=draw)
    images = F.interpolate(patterns[labels], size=side) + torch.randn(n, channels, *side, generator=draw)
    return {"images": images, "labels": labels}
