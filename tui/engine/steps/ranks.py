"""Measuring on several real ranks: where that can be done, what the plan says of it, and each rank's ledger."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from tui.budget.verdict import worst_phase
from tui.engine import device as devices
from tui.engine import host
from tui.engine.context import Context
from tui.engine.device import Device
from tui.engine.lock import DeviceLock
from tui.engine.outcome import Outcome
from tui.errors import RunError
from tui.probe.protocol import REQUESTED_ROWS
from tui.project.load import Project
from tui.project.measured import PhasePeak, RankPeak

STRATEGIES = ("ddp", "fsdp2")
"""Those that torch itself has."""
TIMEOUT_S = 600
"""How long a rank waits for the others before the measurement is ended."""
DIVIDED = ("tensor_parallel", "pipeline_parallel", "expert_parallel")
OPTIONS = ("gradient_as_bucket_view", "reshard_after_forward", "param_dtype", "reduce_dtype")


def refuse(project: Project, device: Device | None) -> None:
    """Raise for ranks that cannot be measured on this machine; ``device`` None: the CPU.

    Raises:
        RunError: what of them, where it is written, and what to set instead.
    """
    placement = project.spec.placement
    count = placement.ranks
    if placement.strategy not in STRATEGIES:
        what = (
            "ranks that nothing joins are not measured"
            if placement.strategy == "none"
            else f"{placement.strategy} is another library's, and is declared and predicted alone"
        )
        raise RunError(
            f'placement is {count} ranks with strategy "{placement.strategy}": {what}',
            where=project.at("placement.strategy" if placement.strategy != "none" else "placement.ranks"),
            hint='set placement.strategy to "ddp" or "fsdp2", or placement.ranks to 1',
        )
    for key in DIVIDED:
        if getattr(placement, key) > 1:
            raise RunError(
                f"placement.{key} = {getattr(placement, key)} is a declared divisor, which {count} ranks do not show",
                where=project.at(f"placement.{key}"),
                hint="delete the line to measure the ranks without it",
            )
    for part in ("weights", "gradients", "optimizer", "activations"):
        if getattr(placement, part) != "device":
            raise RunError(
                f'placement.{part} = "{getattr(placement, part)}" is not measured with {count} ranks',
                where=project.at(f"placement.{part}"),
                hint='set it to "device", or placement.ranks to 1',
            )
    _refuse_too_many(project, count, device)


def _refuse_too_many(project: Project, count: int, device: Device | None) -> None:
    on_cpu = device is None or device.kind == "cpu"
    if device is not None and not on_cpu and not device.id.startswith("GPU-"):
        raise RunError(
            f"placement is {count} ranks, and a part of a GPU ({device.id}) cannot be one of several ranks",
            where=project.at("placement.ranks"),
            hint="name a whole GPU as environment.device",
        )
    if device is None or on_cpu:
        there, what = host.cpus_allowed(), "processors that this job may use"
    else:
        there, what = len(devices.ids_beside(device, count)), "GPUs that this job may use"
    if count > there:
        raise RunError(
            f"placement is {count} ranks, one process each, and there are {there} {what}",
            where=project.at("placement.ranks"),
            hint=f"set placement.ranks to {there} or fewer to measure here; "
            f"more are predicted: peakmark predict {project.path.name}",
        )


def told(project: Project, device: Device | None) -> dict[str, Any]:
    """What a plan has in ``extra`` for several ranks; {}: there is one."""
    placement = project.spec.placement
    if placement.ranks == 1:
        return {}
    return {
        "ranks": {
            "count": placement.ranks,
            "strategy": placement.strategy,
            "shard_each": list(placement.shard_each),
            "options": {key: getattr(placement, key) for key in OPTIONS},
            "devices": [] if device is None else devices.ids_beside(device, placement.ranks),
            "timeout_s": TIMEOUT_S,
        }
    }


@contextmanager
def held(context: Context, project: Project) -> Generator[None]:
    """Hold the GPUs of the other ranks too, as the run holds that of the first.

    Raises:
        RunError: another run holds one of them.
    """
    with ExitStack() as stack:
        if context.device is not None and project.spec.placement.ranks > 1:
            for id in devices.ids_beside(context.device, project.spec.placement.ranks)[1:]:
                stack.enter_context(DeviceLock(id, context.run_id))
        yield


def peaks_of(traced: Outcome) -> dict[str, RankPeak]:
    """The worst phase of every rank; {} where there is one, or none was traced."""
    found: dict[str, RankPeak] = {}
    for table in traced.ranks:
        phases: dict[str, dict[str, Any]] = table.get("phases", {})
        peaks = {name: PhasePeak(one["requested_bytes"]) for name, one in phases.items()}
        if (worst := worst_phase(peaks)) is None:
            continue
        rows = {row: phases[worst]["rows"][row] for row in REQUESTED_ROWS if phases[worst]["rows"].get(row)}
        found[str(table["rank"])] = RankPeak(worst, peaks[worst].requested_bytes, rows)
    return found
