"""The blocks that convolutional networks are made of, each as its paper has it.

Shapes: B images, C channels, S side; ``stride`` divides the side.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import torch
import torch.nn.functional as F
from torch import nn

Activation = Optional[Callable[[torch.Tensor], torch.Tensor]]


def relu(x: torch.Tensor) -> torch.Tensor:
    """In place, as the published networks do: the value before it is needed by nobody."""
    return F.relu(x, inplace=True)


def relu6(x: torch.Tensor) -> torch.Tensor:
    """ReLU cut off at 6, in place."""
    return F.relu6(x, inplace=True)


def make_norm(cfg: Dict[str, Any], channels: int) -> nn.Module:
    """The norm of ``cfg`` (norm, norm_groups) over (B, channels, S, S)."""
    if cfg["norm"] == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(cfg["norm_groups"], channels) if cfg["norm"] == "group" else nn.Identity()


class ConvNorm(nn.Module):
    """(B, inp, S, S) to (B, out, S / stride, S / stride): convolution, norm, activation.

    The convolution has a bias where there is no norm to have it.
    """

    def __init__(
        self,
        cfg: Dict[str, Any],
        inp: int,
        out: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        activation: Activation = relu,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(
            inp, out, kernel, stride, kernel // 2, groups=groups, bias=cfg["norm"] == "none"
        )
        self.norm = make_norm(cfg, out)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        x = self.norm(self.conv(x))
        return x if self.activation is None else self.activation(x)


class Depthwise(nn.Sequential):
    """A kernel for each channel, then a 1x1 convolution across them (MobileNet, Howard et al. 2017)."""

    def __init__(self, cfg: Dict[str, Any], inp: int, out: int, stride: int) -> None:
        super().__init__(
            ConvNorm(cfg, inp, inp, cfg["kernel"], stride, groups=inp), ConvNorm(cfg, inp, out, 1)
        )


class Residual(nn.Module):
    """``inner(x) + x``, then ReLU (He et al. 2015); a 1x1 projection of x where shape or stride changes."""

    def __init__(self, cfg: Dict[str, Any], inp: int, out: int, stride: int, inner: nn.Module) -> None:
        super().__init__()
        changes = inp != out or stride != 1
        self.shortcut = ConvNorm(cfg, inp, out, 1, stride, activation=None) if changes else None
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, inp, S, S) to (B, out, S / stride, S / stride)."""
        return relu(self.inner(x) + (x if self.shortcut is None else self.shortcut(x)))


def basic(cfg: Dict[str, Any], inp: int, out: int, stride: int, groups: int) -> Residual:
    """Two convolutions, as in ResNet-18; ``groups`` are those of the first, which may see the image."""
    inner = nn.Sequential(
        ConvNorm(cfg, inp, out, cfg["kernel"], stride, groups),
        ConvNorm(cfg, out, out, cfg["kernel"], groups=cfg["groups"], activation=None),
    )
    return Residual(cfg, inp, out, stride, inner)


def bottleneck(cfg: Dict[str, Any], inp: int, out: int, stride: int, expansion: int) -> Residual:
    """1x1, kxk with the stride and the groups, 1x1, as in ResNet-50 (stride as torchvision has it) and ResNeXt."""
    middle = out // expansion
    inner = nn.Sequential(
        ConvNorm(cfg, inp, middle, 1),
        ConvNorm(cfg, middle, middle, cfg["kernel"], stride, cfg["groups"]),
        ConvNorm(cfg, middle, out, 1, activation=None),
    )
    return Residual(cfg, inp, out, stride, inner)


class Inverted(nn.Module):
    """Widened by a 1x1, depthwise, narrowed by a 1x1 without activation (MobileNetV2, Sandler et al. 2018).

    The input is added where shape and stride stay; without expansion there is no first convolution.
    """

    def __init__(self, cfg: Dict[str, Any], inp: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        middle = inp * expansion
        layers = [ConvNorm(cfg, inp, middle, 1, activation=relu6)] if expansion != 1 else []
        layers.append(ConvNorm(cfg, middle, middle, cfg["kernel"], stride, middle, activation=relu6))
        layers.append(ConvNorm(cfg, middle, out, 1, activation=None))
        self.inner = nn.Sequential(*layers)
        self.adds = stride == 1 and inp == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, inp, S, S) to (B, out, S / stride, S / stride)."""
        return x + self.inner(x) if self.adds else self.inner(x)


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of (B, C, S, S)."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=1e-6)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    """(B, C, S, S) to the same: depthwise, layer norm, an MLP of the channels, layer scale (Liu et al. 2022)."""

    def __init__(self, channels: int, kernel: int, expansion: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.up = nn.Linear(channels, expansion * channels)
        self.down = nn.Linear(expansion * channels, channels)
        self.scale = nn.Parameter(torch.full((channels,), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        made = self.norm(self.conv(x).permute(0, 2, 3, 1))
        made = self.scale * self.down(F.gelu(self.up(made)))
        return x + made.permute(0, 3, 1, 2)


def transition(inp: int, out: int) -> nn.Sequential:
    """Between stages of a ConvNeXt: a norm, then a 2x2 convolution that halves the side."""
    return nn.Sequential(ChannelNorm(inp), nn.Conv2d(inp, out, 2, 2))
