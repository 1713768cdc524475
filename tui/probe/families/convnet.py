"""A plain convolutional classifier and images whose class can be seen.

Shapes: B images, C channels, S side.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch
import torch.nn.functional as F
from torch import nn

from ..faults import TaskError

DEFAULTS = {
    "channels": [32, 64, 128],
    "in_channels": 3,
    "classes": 10,
    "kernel": 3,
    "groups": 1,
    "norm": "batch",
    "size": 32,
}


class Stage(nn.Module):
    """Convolution, norm, ReLU; ``groups`` divides the channels, ``stride`` the side."""

    def __init__(self, inp: int, out: int, kernel: int, groups: int, stride: int, norm: str) -> None:
        super().__init__()
        self.conv = nn.Conv2d(
            inp, out, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=norm == "none"
        )
        if norm == "batch":
            self.norm = nn.BatchNorm2d(out)
        elif norm == "group":
            self.norm = nn.GroupNorm(1, out)
        else:
            self.norm = nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, inp, S, S) to (B, out, S / stride, S / stride)."""
        return F.relu(self.norm(self.conv(x)))


class ConvNet(nn.Module):
    """Images (B, C, S, S) and labels (B,) to the mean cross-entropy."""

    def __init__(self, cfg: Dict[str, Any]) -> None:
        super().__init__()
        stages, inp = [], cfg["in_channels"]
        for place, out in enumerate(cfg["channels"]):
            groups = cfg["groups"] if place else 1
            if inp % groups or out % groups:
                raise TaskError(
                    "workload",
                    "workload.args.groups (%d) does not divide %d and %d channels" % (groups, inp, out),
                )
            stages.append(Stage(inp, out, cfg["kernel"], groups, 2 if place else 1, cfg["norm"]))
            inp = out
        self.stages = nn.ModuleList(stages)
        self.head = nn.Linear(inp, cfg["classes"])

    def forward(self, images: torch.Tensor, labels: Optional[torch.Tensor] = None) -> torch.Tensor:
        """See the class; without labels the logits (B, classes)."""
        x = images
        for stage in self.stages:
            x = stage(x)
        logits = self.head(x.mean(dim=(2, 3)))
        return logits if labels is None else F.cross_entropy(logits.float(), labels)


def build(cfg: Dict[str, Any]) -> ConvNet:
    """The model."""
    if cfg["norm"] not in ("batch", "group", "none"):
        raise TaskError("workload", "workload.args.norm must be batch, group or none, got %r" % cfg["norm"])
    return ConvNet(cfg)


def batch(
    n: int, index: int, split: str, length: Optional[int], cfg: Dict[str, Any]
) -> Dict[str, torch.Tensor]:
    """Images (n, C, S, S), noise over one of ``classes`` fixed patterns, and the labels (n,)."""
    side, colours = cfg["size"], cfg["in_channels"]
    fixed = torch.Generator().manual_seed(5)
    patterns = torch.randn(cfg["classes"], colours, 4, 4, generator=fixed)
    draw = torch.Generator().manual_seed(7919 * index + (104729 if split == "valid" else 0) + 11)
    labels = torch.randint(0, cfg["classes"], (n,), generator=draw)
    images = F.interpolate(patterns[labels], size=(side, side)) + torch.randn(
        n, colours, side, side, generator=draw
    )
    return {"images": images, "labels": labels}


GROUPS = {"stages": "{n} stages", "head": "output head"}
