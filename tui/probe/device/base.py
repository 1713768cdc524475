"""What a device must be able to say about itself; the parts that are the same everywhere."""

from __future__ import annotations

import contextlib
import os
import platform
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ContextManager,
    Dict,
    FrozenSet,
    List,
    Optional,
    Protocol,
    Tuple,
)

import torch

if TYPE_CHECKING:
    from ..allocations import Record
    from ..labels import Mark
    from ..protocol import ReadingTaken


class Recorder(Protocol):
    """What records allocation events between ``start`` and ``stop``."""

    source: str
    """Where the events come from, in words."""

    def start(self) -> None:
        """Begin recording."""

    def stop(self) -> Record:
        """End recording; everything that was allocated and freed meanwhile."""
        ...

    def outer_peaks(self, marks: List[Mark]) -> Tuple[List[Tuple[Optional[int], Optional[int]]], str]:
        """((tensor-allocated, allocator-reserved) peaks from each mark to the next, why unknown or "")."""
        ...

    def at_failure(self) -> Dict[str, int]:
        """The allocator's figures as the last allocation failed, named as in ``Failed.details``; {}: none kept."""
        ...


class Device:
    """A device that is measured.  Bytes are exact integers; unknown is None with a reason."""

    kind = ""
    """``cpu`` or ``cuda``: the device type for torch."""
    torch_device: torch.device
    allocated_source = ""
    """Where ``allocated`` is read."""
    heap_sampled = "mallinfo2, after every operator"
    """How readings that have no peak of their own are sampled, where there are any."""
    prefetch = False
    """Whether host batches are made before an iteration starts, so that making them overlaps with nothing."""

    def sync(self) -> None:
        """Wait for all queued work."""
        raise NotImplementedError

    def allocated(self) -> Optional[int]:
        """Tensor-allocated bytes now, or None; cheap enough for every phase of every iteration."""
        raise NotImplementedError

    def on_host(self) -> ContextManager[Any]:
        """A context for work of the host, in which tensors have values even where the device's have none."""
        return contextlib.nullcontext()

    def build(self, make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
        """The model that ``make`` gives, with values unless the device's tensors have none."""
        return make()

    def place(
        self, model: torch.nn.Module, shard: Optional[Callable[..., torch.nn.Module]] = None
    ) -> torch.nn.Module:
        """The model with its parameters and buffers on the device; ``shard`` is for more ranks than this one."""
        return model.to(self.torch_device)

    def bring(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor on the device; nothing is copied where it is there already."""
        return tensor.to(self.torch_device, non_blocking=True)

    def settle(self, known_bytes: int) -> None:
        """Told once, between iterations, how many bytes of tensors are alive: fixes what is not tensors."""

    def reset_peaks(self) -> None:
        """Start new peaks for the next ``readings``."""
        raise NotImplementedError

    def readings(self, phase: str) -> List[ReadingTaken]:
        """ReadingTaken events for what can be read now, peaks since ``reset_peaks`` included."""
        raise NotImplementedError

    def high_water(self, phase: str) -> List[ReadingTaken]:
        """Readings whose peak ``reset_peaks`` starts anew, over the whole life of the process."""
        return []

    def sample_operators(self) -> ContextManager[Any]:
        """A context in which readings that have no peak of their own are sampled after every operator."""
        raise NotImplementedError

    def stopwatch(self) -> Stopwatch:
        """A new Stopwatch."""
        raise NotImplementedError

    def recorder(self) -> Recorder:
        """A new recorder of allocation events: ``start()``, then ``stop()`` gives an ``allocations.Record``."""
        raise NotImplementedError

    def limit(self, nbytes: int, slack: int = 0, free_before: Optional[int] = None) -> Optional[int]:
        """Hold this process to ``nbytes`` in all, plus ``slack``; returns what was set, or None with no limit.

        ``free_before``: bytes that the device had left just before this process began, where that is known.
        """
        raise NotImplementedError

    def workspaces(self) -> FrozenSet[int]:
        """Sizes of the blocks that its libraries ask the allocator for once, and keep."""
        return frozenset()

    def lift_limit(self) -> None:
        """Undo ``limit`` before anything is said about a failure."""

    def facts(self) -> Tuple[Dict[str, Any], Dict[str, str]]:
        """(facts, unknown) for protocol.EnvironmentSeen."""
        facts = {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "platform": "%s %s" % (platform.system(), platform.release()),
            "threads": torch.get_num_threads(),
            "allocator": os.environ.get("PYTORCH_ALLOC_CONF")
            or os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
            or "",
            "container": container(),
        }
        libc = platform.libc_ver()
        unknown = {}
        if libc[0] == "glibc":
            facts["glibc"] = libc[1]
        else:
            unknown["glibc"] = "this interpreter is not linked to glibc"
        return facts, unknown


class Stopwatch:
    """Times whole iterations.  ``begin``, any number of ``pause``/``resume`` around data, ``end``."""

    def begin(self) -> None:
        """An iteration starts."""

    def pause(self) -> None:
        """What follows is not part of the iteration."""

    def resume(self) -> None:
        """The iteration goes on."""

    def end(self) -> None:
        """The iteration is complete (its work may still be queued)."""

    def finished(self) -> List[float]:
        """Milliseconds of the iterations that are known to be complete since the last call, in order."""
        return []

    def finish(self) -> List[float]:
        """Wait for the rest; milliseconds of those not yet given."""
        return []


def container() -> str:
    """``docker``, ``podman``, ``apptainer``, ... or "" when nothing says so."""
    if os.path.exists("/.dockerenv"):
        return "docker"
    if os.path.exists("/run/.containerenv"):
        return "podman"
    for name in ("APPTAINER_NAME", "SINGULARITY_NAME"):
        if os.environ.get(name):
            return "apptainer"
    return os.environ.get("container", "")  # noqa: SIM112 - systemd-nspawn and podman write it so
