"""Which placements can be measured, and what a child is told of the one that is.

What torch itself offers is: saved tensors on the host, and weights, gradients and optimizer state together on the
host under FSDP2 with one rank.  Everything else is declared only, and refused with the mend.
"""

from __future__ import annotations

from typing import Any

from tui.engine.device import Device
from tui.engine.steps import ranks
from tui.errors import RunError
from tui.project.load import Project
from tui.project.model import PlacementSpec

PARTS = ("weights", "gradients", "optimizer", "activations")
TOGETHER = PARTS[:3]
"""What FSDP2 keeps in one place."""


def refuse(project: Project, device: Device | None, *, several: bool = False) -> None:
    """Raise for a placement that cannot be measured on ``device`` (None: the CPU).

    Args:
        project: its placement.
        device: of the run.
        several: whether what is about to be done is done with several ranks too.

    Raises:
        RunError: what of it, where it is written, and what to set instead.
    """
    placement = project.spec.placement
    if placement.ranks > 1 and several:
        ranks.refuse(project, device)
        return
    if placement.ranks > 1:
        raise RunError(
            f"placement is {placement.ranks} ranks with {placement.strategy}; only one rank can be measured",
            where=project.at("placement"),
            hint='set ranks = 1 and strategy = "none" for one without the others; peakmark probe measures several',
        )
    away = [part for part in PARTS if getattr(placement, part) != "device"]
    for part in away:
        if getattr(placement, part) == "disk":
            raise RunError(
                f'placement.{part} = "disk" is declared, but torch trains nothing that is on disk',
                where=project.at(f"placement.{part}"),
                hint='set it to "host", "host-pinned" or "device"',
            )
    if away and (device is None or device.kind == "cpu"):
        raise RunError(
            f"placement.{away[0]} = {getattr(placement, away[0])!r}, but on a CPU device and host are the same memory",
            where=project.at(f"placement.{away[0]}"),
            hint='set it to "device", or measure on a GPU: --device',
        )
    _refuse_weights(project, placement, [part for part in away if part in TOGETHER])


def _refuse_weights(project: Project, placement: PlacementSpec, away: list[str]) -> None:
    if not away:
        if placement.strategy != "none":
            raise RunError(
                f"placement is 1 rank with {placement.strategy}, which divides nothing",
                where=project.at("placement.strategy"),
                hint='set strategy = "none"',
            )
        return
    if len({placement.weights, placement.gradients, placement.optimizer}) > 1:
        said = ", ".join(f"{part} {getattr(placement, part)}" for part in TOGETHER)
        raise RunError(
            f"placement has {said}; torch keeps the three in one place",
            where=project.at(f"placement.{away[0]}"),
            hint='set all three to "host", "host-pinned" or "device"',
        )
    if placement.strategy != "fsdp2":
        raise RunError(
            f'weights on the host need strategy = "fsdp2", placement.strategy is {placement.strategy!r}',
            where=project.at("placement.strategy" if placement.strategy != "none" else "placement.weights"),
            hint='set placement.strategy = "fsdp2", or weights, gradients and optimizer to "device"',
        )


def refuse_predicted(project: Project, kind: str) -> None:
    """Raise for a placement that no trace can stand for; ``kind`` is the device's: cpu or cuda.

    Raises:
        RunError: the key, where it stands and what to do instead.
    """
    placement = project.spec.placement
    for part in PARTS:
        where = getattr(placement, part)
        if where == "device" or (part == "activations" and where != "disk" and kind == "cuda"):
            continue
        if part == "activations" and where != "disk":
            raise RunError(
                f"cannot predict: placement.activations = {where!r}, but on a CPU device and host are the same memory",
                where=project.at("placement.activations"),
                hint='set it to "device", or predict for a GPU: --gpu',
            )
        raise RunError(
            f"cannot predict: placement.{part} = {where!r}; of what is kept elsewhere only activations on the host are",
            where=project.at(f"placement.{part}"),
            hint=f"measure it: peakmark probe {project.path.name}",
        )
    for key, what in (
        ("tensor_parallel", "a part of every layer"),
        ("pipeline_parallel", "some of the layers"),
    ):
        if getattr(placement, key) > 1:
            raise RunError(
                f"cannot predict: placement.{key} = {getattr(placement, key)} is a declared divisor; "
                f"a trace has the whole model, not {what}",
                where=project.at(f"placement.{key}"),
                hint="the declared column divides by it; or let build() make one device's part, and delete the line",
            )
    if placement.master_weights:
        raise RunError(
            "cannot predict: placement.master_weights = true; the library that keeps them is not in the trace",
            where=project.at("placement.master_weights"),
            hint="the ledger's declared column has them; delete the line to predict without",
        )


def predicted(placement: PlacementSpec) -> dict[str, Any]:
    """The placement as ``Plan.extra["predict"]`` has it; options are those that are not their default."""
    default = PlacementSpec()
    options = {
        key: getattr(placement, key)
        for key in ("gradient_as_bucket_view", "reshard_after_forward", "param_dtype", "reduce_dtype")
        if getattr(placement, key) != getattr(default, key)
    }
    return {
        "ranks": placement.ranks,
        "strategy": placement.strategy,
        "shard_each": list(placement.shard_each),
        "options": options,
    }


def kept_on_host(placement: PlacementSpec) -> dict[str, Any] | None:
    """``Plan.extra["placement"]``; None when everything is on the device."""
    if placement.weights == placement.activations == "device":
        return None
    return {
        "weights": placement.weights,
        "activations": placement.activations,
        "shard_each": list(placement.shard_each),
    }
