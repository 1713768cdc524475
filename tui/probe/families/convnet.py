"""A convolutional classifier of stages of equal blocks, from plain to ResNet, MobileNet and ConvNeXt.

Shapes: B images, C channels, S side in pixels.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
import torch.nn.functional as F
from torch import nn

from . import convolutions, images
from .arguments import Arguments, refuse
from .convolutions import ChannelNorm, ConvNorm, relu, relu6

DEFAULTS = {
    "channels": [32, 64, 128],
    "depths": None,
    "strides": None,
    "block": "plain",
    "in_channels": 3,
    "classes": 10,
    "size": 32,
    "kernel": None,
    "groups": 1,
    "expansion": None,
    "stem": 0,
    "stem_kernel": 7,
    "last": 0,
    "norm": "batch",
    "norm_groups": 1,
}
EXPANSION = {"bottleneck": 4, "inverted": 6, "convnext": 4}
GROUPED = ("plain", "basic", "bottleneck")
ARGUMENTS = Arguments(
    "convnet",
    DEFAULTS,
    optional={"depths": list, "strides": list, "expansion": (int, list), "kernel": int},
    choices={
        "norm": ("batch", "group", "none"),
        "block": ("plain", "depthwise", "basic", "bottleneck", "inverted", "convnext"),
    },
)


class ConvNet(nn.Module):
    """Images (B, C, S, S) and labels (B,) to the mean cross-entropy; without labels the logits (B, classes)."""

    def __init__(self, cfg: Dict[str, Any]) -> None:
        super().__init__()
        inp = cfg["in_channels"]
        self.stem = _stem(cfg) if cfg["stem"] else None
        inp = cfg["stem"] or inp
        stages = []
        for place in range(len(cfg["channels"])):
            stages.append(_stage(cfg, place, inp))
            inp = cfg["channels"][place]
        self.stages = nn.ModuleList(stages)
        self.last = _last(cfg, inp) if cfg["last"] else None
        inp = cfg["last"] or inp
        self.norm = nn.LayerNorm(inp, eps=1e-6) if cfg["block"] == "convnext" else None
        self.head = nn.Linear(inp, cfg["classes"])

    def forward(self, images: torch.Tensor, labels: Optional[torch.Tensor] = None) -> torch.Tensor:
        """See the class."""
        x = images if self.stem is None else self.stem(images)
        for stage in self.stages:
            x = stage(x)
        if self.last is not None:
            x = self.last(x)
        x = x.mean(dim=(2, 3))
        logits = self.head(x if self.norm is None else self.norm(x))
        return logits if labels is None else F.cross_entropy(logits.float(), labels)


def _stem(cfg: Dict[str, Any]) -> nn.Sequential:
    """A convolution of stride 2, with a pooling after 7x7 as in a ResNet; for ConvNeXt one of patches."""
    inp, out, kernel = cfg["in_channels"], cfg["stem"], cfg["stem_kernel"]
    if cfg["block"] == "convnext":
        return nn.Sequential(nn.Conv2d(inp, out, kernel, kernel), ChannelNorm(out))
    activation = relu6 if cfg["block"] == "inverted" else relu
    layers: List[nn.Module] = [ConvNorm(cfg, inp, out, kernel, 2, activation=activation)]
    if kernel == 7:
        layers.append(nn.MaxPool2d(3, stride=2, padding=1))
    return nn.Sequential(*layers)


def _last(cfg: Dict[str, Any], inp: int) -> nn.Module:
    if cfg["block"] == "convnext":
        return nn.Sequential(nn.Conv2d(inp, cfg["last"], 1), ChannelNorm(cfg["last"]), nn.GELU())
    return ConvNorm(cfg, inp, cfg["last"], 1, activation=relu6 if cfg["block"] == "inverted" else relu)


def _stage(cfg: Dict[str, Any], place: int, inp: int) -> nn.Sequential:
    """The blocks of a stage; the first one changes channels and side."""
    out, blocks = cfg["channels"][place], []
    for depth in range(cfg["depths"][place]):
        stride = 1 if depth else cfg["strides"][place]
        blocks.extend(_block(cfg, place, inp, out, stride, sees_image=not (place or depth or cfg["stem"])))
        inp = out
    return nn.Sequential(*blocks)


def _block(
    cfg: Dict[str, Any], place: int, inp: int, out: int, stride: int, sees_image: bool
) -> List[nn.Module]:
    kind, groups = cfg["block"], 1 if sees_image else cfg["groups"]
    if kind == "plain":
        return [ConvNorm(cfg, inp, out, cfg["kernel"], stride, groups)]
    if kind == "depthwise":
        return [convolutions.Depthwise(cfg, inp, out, stride)]
    if kind == "basic":
        return [convolutions.basic(cfg, inp, out, stride, groups)]
    expansion = cfg["expansion"][place]
    if kind == "bottleneck":
        return [convolutions.bottleneck(cfg, inp, out, stride, expansion)]
    if kind == "inverted":
        return [convolutions.Inverted(cfg, inp, out, stride, expansion)]
    between = [convolutions.transition(inp, out)] if inp != out or stride != 1 else []
    return [*between, convolutions.ConvNeXt(out, cfg["kernel"], expansion)]


def resolve(cfg: Dict[str, Any]) -> Dict[str, Any]:
    """``cfg`` with the defaults that depend on other arguments filled in; impossible shapes are refused.

    Raises:
        TaskError: arguments that contradict one another.
    """
    cfg = dict(cfg)
    stages, block = len(cfg["channels"]), cfg["block"]
    if not stages:
        refuse("workload.args.channels is empty", "name the channels of at least one stage")
    cfg["kernel"] = cfg["kernel"] or (7 if block == "convnext" else 3)
    cfg["depths"] = cfg["depths"] or [1] * stages
    if block == "convnext" and cfg["strides"]:
        refuse("workload.args.strides are not for convnext blocks", "their stages halve the side")
    cfg["strides"] = cfg["strides"] or [1] + [2] * (stages - 1)
    expansion = EXPANSION.get(block, 1) if cfg["expansion"] is None else cfg["expansion"]
    cfg["expansion"] = expansion if isinstance(expansion, list) else [expansion] * stages
    for key in ("depths", "strides", "expansion"):
        if len(cfg[key]) != stages:
            refuse(
                "workload.args.%s names %d stages, and channels %d" % (key, len(cfg[key]), stages),
                "give one number for each stage",
            )
    if block not in ("plain", "depthwise") and cfg["kernel"] % 2 == 0:
        refuse(
            "workload.args.kernel (%d) is even, which shifts the sides of a residual block" % cfg["kernel"],
            "set an odd kernel",
        )
    if cfg["groups"] != 1 and block not in GROUPED:
        refuse(
            "workload.args.groups (%d) is not for %s blocks" % (cfg["groups"], block),
            "groups are for %s" % ", ".join(GROUPED),
        )
    _check_divisions(cfg)
    _check_side(cfg["size"], "workload.args.size", cfg)
    return cfg


def _check_divisions(cfg: Dict[str, Any]) -> None:
    """Refuse channels that groups, norm groups or a bottleneck do not divide."""
    inp = cfg["stem"] or cfg["in_channels"]
    if cfg["stem"]:
        _check_norm(cfg, inp)
    for place, out in enumerate(cfg["channels"]):
        middle = out
        if cfg["block"] == "bottleneck":
            middle, left = divmod(out, cfg["expansion"][place])
            if left:
                refuse(
                    "workload.args.expansion (%d) does not divide %d channels"
                    % (cfg["expansion"][place], out),
                    "the middle of a bottleneck has channels / expansion",
                )
        _check_groups(cfg, place, inp, out, middle)
        widened = inp if cfg["block"] == "depthwise" else inp * cfg["expansion"][place]
        for channels in (out, middle, *((widened,) if cfg["block"] in ("depthwise", "inverted") else ())):
            _check_norm(cfg, channels)
        inp = out
    if cfg["last"]:
        _check_norm(cfg, cfg["last"])


def _check_groups(cfg: Dict[str, Any], place: int, inp: int, out: int, middle: int) -> None:
    divided = [inp, out] if cfg["block"] != "bottleneck" else [middle]
    if cfg["block"] != "bottleneck" and not place and not cfg["stem"]:
        # The image's channels are not divided; a second convolution of the stage is.
        divided = [out] if cfg["block"] == "basic" or cfg["depths"][0] > 1 else []
    if any(one % cfg["groups"] for one in divided):
        refuse(
            "workload.args.groups (%d) does not divide %s channels"
            % (cfg["groups"], " and ".join(map(str, divided)))
        )


def _check_norm(cfg: Dict[str, Any], channels: int) -> None:
    if cfg["norm"] == "group" and cfg["block"] != "convnext" and channels % cfg["norm_groups"]:
        refuse("workload.args.norm_groups (%d) does not divide %d channels" % (cfg["norm_groups"], channels))


def _check_side(side: int, what: str, cfg: Dict[str, Any]) -> None:
    """Refuse an image of which nothing is left; only ConvNeXt's convolutions have no padding."""
    if cfg["block"] != "convnext":
        return
    halved = len(cfg["channels"]) - ((cfg["stem"] or cfg["in_channels"]) == cfg["channels"][0])
    least = (cfg["stem_kernel"] if cfg["stem"] else 1) * 2**halved
    if side < least:
        refuse(
            "%s (%d) is too small: stem and stages divide the side by %d" % (what, side, least),
            "enlarge it, or take fewer stages or a smaller stem_kernel",
        )


def _side_left(cfg: Dict[str, Any], side: int) -> int:
    """Side of what the last stage gives, for blocks other than ConvNeXt's."""
    steps = [(cfg["stem_kernel"], 2)] if cfg["stem"] else []
    steps += [(3, 2)] if cfg["stem"] and cfg["stem_kernel"] == 7 else []
    steps += [(cfg["kernel"], stride) for stride in cfg["strides"]]
    for kernel, stride in steps:  # each with a padding of half the kernel
        side = (side + 2 * (kernel // 2) - kernel) // stride + 1
    return side


def build(cfg: Dict[str, Any]) -> ConvNet:
    """The model of a resolved ``cfg``."""
    return ConvNet(cfg)


def batch(
    n: int, index: int, split: str, length: Optional[int], cfg: Dict[str, Any]
) -> Dict[str, torch.Tensor]:
    """Images (n, C, S, S) and labels (n,); ``length`` is the side S in pixels, else ``size``."""
    side: int = length or cfg["size"]
    if length:
        _check_side(side, "workload.batch.length", cfg)
    if n == 1 and cfg["norm"] == "batch" and cfg["block"] != "convnext" and _side_left(cfg, side) <= 1:
        refuse(
            "batch norm has one value a channel: one sample, of whose %d pixels a side the stages leave one"
            % side,
            'raise workload.batch.micro or workload.args.size, or set norm = "group"',
        )
    return images.labelled(n, cfg["in_channels"], (side, side), cfg["classes"], index, split)


GROUPS = {
    "stem": "stem",
    "stages": "{n} stages",
    "last": "last convolution",
    "norm": "final norm",
    "head": "output head",
}
