"""For which device a prediction is: as the command line, the project, this machine or the last measurement says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tui.budget import gpus
from tui.budget.gpus import Gpu
from tui.engine import device as devices
from tui.engine.context import Options
from tui.engine.device import Device
from tui.errors import RunError, UsageError
from tui.project.load import Project
from tui.project.measured import Environment

NONE_NAMED = "no GPU is here, none was measured on and none is named: --gpu NAME"


@dataclass(frozen=True, slots=True)
class Target:
    """The device that is predicted for."""

    kind: Literal["cpu", "cuda"]
    gpu: Gpu | None = None
    """None: the CPU, or no GPU in particular."""
    origin: str = ""
    """Who named it, for people."""

    @property
    def name(self) -> str:
        """As the driver gives it; "" where none is named."""
        return self.gpu.name if self.gpu is not None else ""

    @property
    def total_bytes(self) -> int | None:
        """All of its memory."""
        return self.gpu.total_bytes if self.gpu is not None else None

    @property
    def text(self) -> str:
        """What is predicted for, for people."""
        if self.kind == "cpu":
            return "the CPU"
        return self.name or "a CUDA GPU, none named"

    def table(self) -> dict[str, Any] | None:
        """``target`` of the plan; None where no GPU is named."""
        one = self.gpu
        if one is None:
            return None
        return {
            "name": one.name,
            "total_bytes": one.total_bytes,
            "capability": list(one.capability) if one.capability is not None else None,
            "sm_count": one.sm_count,
            "threads_per_sm": one.threads_per_sm,
        }


def target_of(project: Project, options: Options, held: Device | None = None) -> Target:
    """The device of a prediction.

    A GPU that is named comes first; then the run's own device, the project's, this machine's, that of the last
    measurement on a GPU.  Where none is, CUDA is predicted for no GPU in particular.

    Args:
        project: names a device and has measurements.
        options: of the command line.
        held: the device of a run that measures too: what is predicted stands beside what it measures.

    Raises:
        UsageError: --gpu names none or several, or contradicts --device.
        RunError: a GPU-uuid that is not here.
    """
    asked = options.device or ("" if held is None else held.id) or project.spec.environment.device
    if options.gpu is not None:
        if options.device == "cpu":
            raise UsageError("--gpu names a GPU, --device cpu does not", hint="leave one of the two out")
        return Target("cuda", gpus.parse(options.gpu), "--gpu")
    if asked == "cpu":
        origin = "--device" if options.device else ("this run's device" if held else "environment.device")
        return Target("cpu", None, origin)
    if asked in ("auto", "cuda"):
        return _any(project)
    where = "" if options.device else project.at("environment.device")
    name = "--device" if options.device else "environment.device"
    try:
        return Target("cuda", of_device(devices.resolve(asked, where=where, name=name)), name)
    except RunError as error:
        raise RunError(
            error.message, where=error.where, hint="name the GPU instead: --gpu 'H100 80GB HBM3'"
        ) from error


def of_device(device: Device) -> Gpu:
    """A GPU of this machine: the driver's total, the rest from the table."""
    return _filled(device.name, device.total_bytes, None)


def _any(project: Project) -> Target:
    """The first GPU of this machine, that of the last measurement on one, or none in particular."""
    try:
        here = devices.resolve("auto")
    except RunError:  # a broken driver is no obstacle to a prediction
        here = None
    if here is not None and here.kind == "cuda":
        return Target("cuda", of_device(here), "this machine")
    found = _last_measured(project)
    if found is None:
        return Target("cuda", None, NONE_NAMED)
    id, place = found
    capability = _capability(place.capability)
    return Target("cuda", _filled(place.device, place.device_total_bytes, capability), f"measured in {id}")


def _last_measured(project: Project) -> tuple[str, Environment] | None:
    probes = sorted(project.measured.probe.items(), reverse=True)
    ids = (one.environment for _, one in probes if one.device == "cuda")
    for id in ids:
        if id in project.measured.environment:
            return id, project.measured.environment[id]
    return None


def _filled(name: str, total: int | None, capability: tuple[int, int] | None) -> Gpu:
    one = gpus.known(name)
    if one is None:
        why = f"{name} is not in the table of GPUs"
        missing = ("sm_count", "threads_per_sm", "context", *(() if capability else ("capability",)))
        return Gpu(name, total, capability=capability, unknown=dict.fromkeys(missing, why))
    return Gpu(
        name=name,
        total_bytes=total if total is not None else one.total_bytes,
        aliases=one.aliases,
        capability=capability or one.capability,
        sm_count=one.sm_count,
        threads_per_sm=one.threads_per_sm,
        context_bytes=one.context_bytes,
        context_from=one.context_from,
        sources=one.sources,
        unknown=one.unknown,
    )


def _capability(text: str | None) -> tuple[int, int] | None:
    major, dot, minor = (text or "").partition(".")
    return (int(major), int(minor)) if dot and major.isdigit() and minor.isdigit() else None
