"""What a probe on a GPU says of the bytes that no allocator counts, for the next prediction."""

from __future__ import annotations

from collections.abc import Mapping

from tui.project.calibration import Calibration
from tui.project.measured import Environment, Probe

MEASURED = ("fits", "fits-without-reserve", "does-not-fit")
"""Outcomes of a probe that ran to its end."""


def cublas_bytes(blocks: Mapping[str, int]) -> int | None:
    """One workspace of cuBLAS among the blocks that libraries kept, {bytes: how many}; None where none stands out.

    cuBLAS has one for each of two threads; what is there once is of another library.
    """
    pairs = [int(size) for size, count in blocks.items() if count == 2]
    return pairs[0] if len(pairs) == 1 else None


def calibration_of(
    id: str, probe: Probe, place: Environment, blocks: Mapping[str, int] | None = None
) -> Calibration | None:
    """The calibration that ``probe`` gives; None on the CPU, or where process or reserved were not read.

    Both readings are the largest of the run: what the allocator reserves and what libraries load only grow.  While
    others' use changed, the process is not known well enough.
    """
    if probe.device != "cuda" or probe.contended or probe.outcome not in MEASURED:
        return None
    process, reserved = probe.readings.get("process"), probe.readings.get("allocator_reserved")
    if process is None or reserved is None or process.bytes is None or reserved.bytes is None:
        return None
    context = process.bytes - reserved.bytes
    if context <= 0:
        return None
    peak = probe.phases.get(probe.worst_phase or "")
    workspaces = None if peak is None else peak.rows.get("library_workspaces", 0)
    cublas = cublas_bytes(blocks or {})
    unknown = {} if workspaces is not None else {"library_workspaces_bytes": "no traced run of it ended"}
    if cublas is None:
        unknown["cublas_bytes"] = "no two workspaces of one size were recorded"
    return Calibration(
        at=probe.at,
        probe=id,
        device=place.device,
        torch=place.torch,
        context_bytes=context,
        driver=place.driver,
        cuda=place.cuda,
        library_workspaces_bytes=workspaces,
        cublas_bytes=cublas,
        micro_batch=probe.micro_batch,
        unknown=unknown,
    )


def calibration_table(
    id: str, probe: Probe, key: str, place: Environment | None, blocks: Mapping[str, int] | None = None
) -> dict[str, Calibration]:
    """``measured.calibration`` of one environment; empty when the probe gives none.

    ``blocks``: what libraries kept, as the traced child tells of it.
    """
    found = None if place is None else calibration_of(id, probe, place, blocks)
    return {} if found is None else {key: found}
