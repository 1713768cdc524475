"""Declared rows of one rank of many: what is divided, what is gathered for a moment, what is on its way to others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tui.budget import sharding
from tui.project.inventory import Inventory
from tui.project.model import PlacementSpec

_ITEM_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
_DTYPE_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
NOT_GATHERED = ("start", "context", "build", "optimizer", "step", "save", "restore")
"""Phases in which every rank holds its part alone."""
REDUCING = (None, "first.backward", "backward")


@dataclass(frozen=True, slots=True)
class Line:
    """Bytes and their arithmetic, or why they are not known."""

    bytes: int | None
    text: str = ""
    unknown: str = ""


def divided(placement: PlacementSpec, key: str, size: int, text: str) -> Line:
    """``size`` bytes of the row ``key`` on the fullest device.

    Args:
        placement: whose divisors they are; those of tensor and pipeline parallel are declared, not derived.
        key: a ledger row; "" is divided by no strategy.
        size: of the whole model's row.
        text: its arithmetic.
    """
    ranks, parallel = placement.ranks, placement.tensor_parallel * placement.pipeline_parallel
    mine = ranks > 1 and key in sharding.DIVIDED[placement.strategy]
    if mine and placement.strategy == "fsdp2" and size % ranks and parallel == 1:
        return Line(None, unknown=f"{size:,} B over {ranks} ranks: padding goes by tensor shape")
    for divisor, what in ((placement.tensor_parallel, "tensor"), (placement.pipeline_parallel, "pipeline")):
        text += f" / {divisor} ({what} parallel, declared)" if divisor > 1 else ""
    text += f" / {ranks} ranks" if mine else ""
    size = sharding.divided(
        size, placement.tensor_parallel, placement.pipeline_parallel, ranks if mine else 1
    )
    return Line(size, text)


def passing(
    placement: PlacementSpec,
    inventory: Inventory | None,
    dtypes: Mapping[str, int] | None,
    gradients: int | None,
    phase: str | None,
) -> dict[str, Line]:
    """``unsharded_weights`` and ``reduction_buckets`` of more than one rank.

    Args:
        placement: of the spec.
        inventory: counted for this placement; None: not counted.
        dtypes: elements of the weights by dtype name while they are trained; None: not known.
        gradients: bytes of one copy of all gradients on this device, before a strategy divides them.
        phase: of the iteration; None: the steady one, where every row that is made exists.
    """
    weights, group = _gathered(placement, inventory, dtypes)
    if placement.strategy not in sharding.GATHERS:
        weights = Line(0, "weights are always whole")
    elif phase in NOT_GATHERED:
        weights = Line(0, "every rank holds its part")
    buckets = _buckets(placement, gradients, group, _item(dtypes), phase)
    return {"unsharded_weights": weights, "reduction_buckets": buckets}


def _item(dtypes: Mapping[str, int] | None) -> int | None:
    """Bytes of one element where all have one dtype."""
    return None if dtypes is None or len(dtypes) != 1 else _DTYPE_BYTES.get(next(iter(dtypes)))


def _gathered(
    placement: PlacementSpec, inventory: Inventory | None, dtypes: Mapping[str, int] | None
) -> tuple[Line, Line]:
    """Whole weights at once, and gradients of the largest group as they are reduced."""
    if inventory is None:
        none = Line(None, unknown="the parameters were not counted yet: peakmark params")
        return none, none
    if inventory.ranks != placement.ranks or inventory.rank_gathered_bytes is None:
        why = inventory.unknown.get(
            "rank_gathered_bytes", "which layers are gathered together was not counted"
        )
        return Line(None, unknown=why), Line(None, unknown=why)
    stored, now = _item(inventory.dtypes or {"float32": 0}), _item(dtypes)
    if stored is None or now is None:
        why = "in which of several dtypes weights are gathered is not declared"
        return Line(None, unknown=why), Line(None, unknown=why)
    item = _ITEM_BYTES.get(placement.param_dtype or "", now)
    reduced = _ITEM_BYTES.get(placement.reduce_dtype or "", item)
    at_once = inventory.rank_gathered_bytes // stored
    group = (inventory.rank_group_bytes or 0) // stored
    what = "all groups" if not placement.reshard_after_forward else "2 neighbouring groups and the root"
    return (
        Line(at_once * item, f"{at_once:,} x {item} B: {what}"),
        Line(group * reduced, f"{group:,} x {reduced} B: the largest group, while it is reduced"),
    )


def _buckets(
    placement: PlacementSpec, gradients: int | None, group: Line, item: int | None, phase: str | None
) -> Line:
    if placement.strategy == "none":
        return Line(0, "no strategy reduces")
    if phase in ("start", "context"):
        return Line(0, "before the model is built")
    if placement.strategy in ("ddp", "zero1"):
        if placement.gradient_as_bucket_view:
            return Line(0, "gradients are views of the buckets")
        if gradients is None:
            return Line(None, unknown="the bytes of the gradients are not known")
        return Line(gradients, f"{gradients:,} B: every gradient once more, from the wrapping on")
    if phase not in REDUCING:
        return Line(0, "nothing is reduced in this phase")
    if placement.strategy == "fsdp2":
        return group
    if placement.reduce_bucket is None:
        return Line(None, unknown="placement.reduce_bucket does not say how much is reduced at once")
    if item is None:
        return Line(None, unknown="the bytes of one gradient's element are not known")
    size = placement.reduce_bucket * item
    return Line(size, f"{placement.reduce_bucket:,} x {item} B are reduced at once")
