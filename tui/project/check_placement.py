"""What no placement can mean: options of another strategy, copies that nobody keeps."""

from __future__ import annotations

from tui.errors import ProjectError
from tui.project.decode import names
from tui.project.keys import Place
from tui.project.model import PlacementSpec, Spec

STRATEGIES = ("none", "ddp", "zero1", "zero2", "zero3", "fsdp2")
OPTIONS: dict[str, tuple[str, ...]] = {
    "gradient_as_bucket_view": ("ddp", "zero1"),
    "reshard_after_forward": ("fsdp2", "zero3"),
    "param_dtype": ("fsdp2",),
    "reduce_dtype": ("fsdp2",),
    "reduce_bucket": ("zero2", "zero3"),
    "master_weights": ("zero1", "zero2", "zero3"),
}
"""By option: the strategies that have it."""
HALF = ("bf16", "fp16")


def check_placement(spec: Spec, place: Place) -> None:
    """Refuse a placement that contradicts itself.

    Raises:
        ProjectError: with the key, its line and what to write instead.
    """
    placement, default = spec.placement, PlacementSpec()
    for option, strategies in OPTIONS.items():
        if getattr(placement, option) == getattr(default, option) or placement.strategy in strategies:
            continue
        raise ProjectError(
            f"placement.{option} is an option of {names(strategies)}, placement.strategy is "
            f'"{placement.strategy}"',
            where=place.at(f"placement.{option}"),
            hint=f'delete the line, or set strategy = "{strategies[0]}"',
        )
    if placement.ranks % placement.expert_parallel:
        raise ProjectError(
            f"placement.expert_parallel ({placement.expert_parallel}) does not divide placement.ranks "
            f"({placement.ranks}): experts are shared out over groups of the ranks",
            where=place.at("placement.expert_parallel"),
            hint="write a divisor of the ranks, or 1",
        )
    if placement.master_weights and spec.precision.use not in HALF:
        raise ProjectError(
            "placement.master_weights keeps fp32 copies of weights in bf16 or fp16, precision.use is "
            f'"{spec.precision.use}"',
            where=place.at("placement.master_weights"),
            hint='delete the line, or set precision.use = "bf16"',
        )
