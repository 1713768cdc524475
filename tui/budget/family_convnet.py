"""Convolutional classifiers: stages of plain, depthwise, residual, inverted or ConvNeXt blocks and a linear head.

Sources: He et al. 2015 (basic, bottleneck), Xie et al. 2016 (groups), Howard et al. 2017 (depthwise), Sandler et al.
2018 (inverted), Liu et al. 2022 (convnext).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tui.budget import layers
from tui.budget.arguments import Argument, Arguments
from tui.budget.family import Formula, result, total
from tui.budget.worked import Term, term

BLOCKS = ("plain", "depthwise", "basic", "bottleneck", "inverted", "convnext")
GROUPED = ("plain", "basic", "bottleneck")
EXPANSION = {"bottleneck": 4, "inverted": 6, "convnext": 4}

WHAT_A_BLOCK_IS = {
    "plain": "in to out with groups",
    "depthwise": "every channel by itself, then 1x1 in to out",
    "basic": "in to out, then out to out, both with groups",
    "bottleneck": "1x1 in to inner, inner to inner with groups, 1x1 inner to out; inner = out / expansion",
    "inverted": "1x1 in to inner unless expansion = 1, every channel by itself, 1x1 inner to out; "
    "inner = in x expansion",
    "convnext": "every channel by itself, layer norm, out to inner to out, scale; inner = out x expansion",
}
"""Convolutions of ``kernel`` sides unless 1x1; a norm after each but in convnext."""

ARGUMENTS = (
    Argument("channels", "wholes", (32, 64, 128), "outputs of each stage", least_items=1),
    Argument("depths", "wholes", None, "blocks of each stage", "1 each", least_items=1),
    Argument("strides", "wholes", None, "by which each stage divides the side", "1, then 2", least_items=1),
    Argument("block", "choice", "plain", "kind of block", choices=BLOCKS),
    Argument("in_channels", "whole", 3, "channels of an image"),
    Argument("classes", "whole", 10, "outputs of the head"),
    Argument("size", "whole", 32, "side of an image, without parameters"),
    Argument("kernel", "whole", None, "side of a block's convolution", "3; 7 for convnext"),
    Argument("groups", "whole", 1, "groups of a block's convolution"),
    Argument(
        "expansion",
        "whole or wholes",
        None,
        "inner channels: out / expansion of a bottleneck, in x expansion of the others; one for each stage in a list",
        "4 for bottleneck and convnext, 6 for inverted",
    ),
    Argument("stem", "whole", 0, "channels of a first convolution, 0: none", least=0),
    Argument("stem_kernel", "whole", 7, "its side"),
    Argument("last", "whole", 0, "channels of a 1x1 convolution before the head, 0: none", least=0),
    Argument(
        "norm", "choice", "batch", "after a convolution; convnext: layer", choices=("batch", "group", "none")
    ),
    Argument("norm_groups", "whole", 1, "groups of a group norm"),
)


@dataclass(frozen=True, slots=True)
class _Style:
    """What all blocks of a network have in common."""

    block: str
    kernel: int
    groups: int
    norm: str
    norm_groups: int

    def conv(self, inputs: int, outputs: int, kernel: int, groups: int = 1) -> int:
        """A convolution and its norm; it has a bias only where no batch or group norm follows."""
        if self.norm == "group" and outputs % self.norm_groups:
            raise ValueError(f"norm_groups = {self.norm_groups} must divide {outputs} channels")
        size = layers.conv(inputs, outputs, kernel, groups=groups, bias=self.norm in ("none", "layer"))
        return size + (0 if self.norm == "none" else layers.layer_norm(outputs))

    def conv_term(self, name: str, inputs: int, outputs: int, kernel: int) -> Term:
        """A square convolution and its norm outside of the stages."""
        more = {"none": " + out", "layer": " + out + 2 x out"}.get(self.norm, " + 2 x out")
        size = self.conv(inputs, outputs, kernel)
        numbers = {"in": inputs, "out": outputs, "kernel": kernel}
        return term(name, f"out x in x kernel x kernel{more}", size, **numbers)


def formula(args: Mapping[str, Any]) -> Formula:
    """Stem, stages, last convolution, norm and head; raises ValueError with a sentence for wrong arguments."""
    given = Arguments("convnet", args, ARGUMENTS)
    block, stem, last = given.word("block"), given.whole("stem"), given.whole("last")
    convnext = block == "convnext"
    style = _Style(
        block,
        given.whole("kernel", 7 if convnext else 3),
        given.whole("groups"),
        "layer" if convnext else given.word("norm"),
        given.whole("norm_groups"),
    )
    before = given.whole("in_channels")
    _check(style, given, stem or before)
    parts = [style.conv_term("stem", before, stem, given.whole("stem_kernel"))] if stem else []
    stages = _stages(style, given, stem or before)
    sizes = " + ".join(f"{one.value:,}" for one in stages)
    parts.append(Term(f"{len(stages)} stages", "sum of the stages", sizes, total(stages), tuple(stages)))
    text = [*(one.value for one in parts[:-1]), sizes]
    width = given.wholes("channels")[-1]
    after: list[Term] = []
    if last:
        after.append(style.conv_term("last convolution", width, last, 1))
        width = last
    if convnext:
        after.append(term("final norm", "2 x width", layers.layer_norm(width), width=width))
    classes = given.whole("classes")
    head = layers.dense(width, classes)
    after.append(term("output head", "width x classes + classes", head, width=width, classes=classes))
    return result("convnet", [*parts, *after], [*text, *(one.value for one in after)])


def _check(style: _Style, given: Arguments, before: int) -> None:
    """Refuse what would be without effect, or could not be run."""
    block, groups, kernel = style.block, style.groups, style.kernel
    if groups > 1 and block not in GROUPED:
        raise ValueError(f"groups = {groups} is for {', '.join(GROUPED)} blocks, and block is {block}")
    if kernel % 2 == 0 and block not in ("plain", "depthwise"):
        raise ValueError(f"kernel = {kernel} must be odd for {block} blocks")
    channels, size = given.wholes("channels"), given.whole("size")
    if block == "convnext":
        if given.wholes("strides"):
            raise ValueError("strides are not for convnext blocks, whose stages halve the side")
        # its convolutions have no padding: each stage that changes channels halves the side
        halved = len(channels) - (before == channels[0])
        least = (given.whole("stem_kernel") if given.whole("stem") else 1) * 2**halved
        if size < least:
            raise ValueError(f"size = {size} must be at least {least}, by which stem and stages divide it")


def _stages(style: _Style, given: Arguments, before: int) -> list[Term]:
    """Every stage as its first block, which changes the shape, and the others, which are alike."""
    channels = given.wholes("channels")
    depths = given.wholes("depths") or (1,) * len(channels)
    if len(depths) != len(channels):
        raise ValueError(f"depths must have one number for each of {len(channels)} stages, got {len(depths)}")
    strides = given.wholes("strides") or (1,) + (2,) * (len(channels) - 1)
    if len(strides) != len(channels):
        raise ValueError(
            f"strides must have one number for each of {len(channels)} stages, got {len(strides)}"
        )
    expansions = given.each("expansion", len(channels), EXPANSION.get(style.block, 1))
    found: list[Term] = []
    all_of_it = zip(channels, depths, strides, expansions, strict=True)
    for number, (after, depth, stride, expansion) in enumerate(all_of_it, 1):
        image = number == 1 and not given.whole("stem")
        first = _block(style, before, after, expansion, strided=stride > 1, image=image)
        numbers, text, size = {"first": first}, "first", first
        if depth > 1:
            block = _block(style, after, after, expansion)
            numbers |= {"depth": depth, "block": block}
            text, size = "first + (depth - 1) x block", first + (depth - 1) * block
        found.append(term(f"stage {number}", text, size, **numbers))
        before = after
    return found


def _block(
    style: _Style, before: int, after: int, expansion: int, *, strided: bool = False, image: bool = False
) -> int:
    """One block; ``image``: its first convolution sees the image's channels, which groups seldom divide."""
    first_groups = 1 if image else style.groups
    project = style.conv(before, after, 1) if strided or before != after else 0
    match style.block:
        case "plain":
            return style.conv(before, after, style.kernel, first_groups)
        case "depthwise":
            return style.conv(before, before, style.kernel, before) + style.conv(before, after, 1)
        case "basic":
            first = style.conv(before, after, style.kernel, first_groups)
            return first + style.conv(after, after, style.kernel, style.groups) + project
        case "bottleneck":
            if after % expansion:
                raise ValueError(f"expansion = {expansion} must divide {after} channels")
            inner = after // expansion
            return (
                style.conv(before, inner, 1)
                + style.conv(inner, inner, style.kernel, style.groups)
                + style.conv(inner, after, 1)
                + project
            )
        case "inverted":
            inner = before * expansion
            widen = style.conv(before, inner, 1) if expansion > 1 else 0
            return widen + style.conv(inner, inner, style.kernel, inner) + style.conv(inner, after, 1)
        case _:
            return _convnext_block(style.kernel, before, after, expansion, strided)


def _convnext_block(kernel: int, before: int, after: int, expansion: int, strided: bool) -> int:
    """Depthwise convolution, norm, two linear layers and a scale a channel; before a new stage norm and 2x2."""
    down = 0
    if strided or before != after:
        down = layers.layer_norm(before) + layers.conv(before, after, 2)
    depthwise = layers.conv(after, after, kernel, groups=after) + layers.layer_norm(after)
    return down + depthwise + layers.mlp(after, expansion * after) + after
