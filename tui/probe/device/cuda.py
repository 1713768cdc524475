"""An NVIDIA GPU as torch sees it from inside the measuring process."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, ContextManager, Dict, FrozenSet, List, Optional, Tuple

import torch

from .. import elapsed
from ..faults import TaskError, one_line
from ..protocol import ReadingTaken
from .base import Device, Stopwatch
from .heap import Heap

if TYPE_CHECKING:
    from .base import Recorder

MEANING = {
    "requested": "bytes as the program asked the allocator for them",
    "tensor_allocated": "after rounding and unsplit tails: max_memory_allocated()",
    "allocator_reserved": "what the caching allocator holds from the driver: max_memory_reserved()",
    "inactive_split": "free pieces of segments that are in use in part: they cannot be given back to the driver",
    "device_used": "used on the whole device, contexts and other processes included",
    "device_total": "memory of the whole device",
    "host_rss": "resident main memory of the measuring process",
    "pinned": "main memory that torch has locked for copies to the device, cached blocks included",
}

MOST_CONTEXT = 2 * 2**30
"""More than the largest context known of, 1.8 GiB with every kernel loaded at once."""

STATISTICS = (
    ("requested", "requested_bytes.all"),
    ("tensor_allocated", "allocated_bytes.all"),
    ("allocator_reserved", "reserved_bytes.all"),
    ("inactive_split", "inactive_split_bytes.all"),
)
"""Readings of the allocator, and what ``memory_stats`` calls them; each has .peak and .current."""

INTEGRATED = "GPU-integrated"
"""The name of a GPU that shares the host's memory and whose driver tells no uuid."""
NO_USED = "this GPU shares the host's memory, of which the driver leaves out what the kernel would give back"


Row = Tuple[str, Optional[int], str, str, Optional[int]]
"""Name, peak, source, why it is unknown, and the same at the phase's end."""


class CudaDevice(Device):
    """See ``base.Device``.  The device is the one visible whose UUID matches, else the first."""

    kind = "cuda"
    allocated_source = "memory_stats, inside"
    prefetch = True

    def __init__(self, uuid: str = "") -> None:
        if torch.version.cuda is None:
            raise TaskError(
                "environment",
                "this torch (%s) is built without CUDA" % torch.__version__,
                hint="install a CUDA build there, or set environment.device to cpu",
            )
        if not torch.cuda.is_available():
            raise TaskError(
                "environment",
                "torch %s finds no usable CUDA device" % torch.__version__,
                hint="peakmark doctor says what the driver answers",
            )
        self.index = self._find(uuid)
        self.torch_device = torch.device("cuda", self.index)
        torch.cuda.set_device(self.index)
        self._reserved_high = 0
        self._host = Heap()
        properties = torch.cuda.get_device_properties(self.index)
        self._integrated = bool(getattr(properties, "is_integrated", False))

    @staticmethod
    def _find(uuid: str) -> int:
        if not uuid or uuid == INTEGRATED:
            return 0
        have = []
        for index in range(torch.cuda.device_count()):
            own = str(getattr(torch.cuda.get_device_properties(index), "uuid", ""))
            have.append(own)
            if own and uuid.lower().replace("gpu-", "").startswith(own.lower().replace("gpu-", "")):
                return index
        if uuid.startswith("MIG-") and len(have) == 1:
            return 0  # a MIG slice is the one device that its process sees
        raise TaskError(
            "environment", "device %s is not among those torch sees (%s)" % (uuid, ", ".join(have))
        )

    def sync(self) -> None:
        """See ``base.Device``."""
        torch.cuda.synchronize(self.index)

    def allocated(self) -> Optional[int]:
        """See ``base.Device``."""
        return torch.cuda.memory_allocated(self.index)

    def reset_peaks(self) -> None:
        """See ``base.Device``."""
        self._reserved_high = max(self._reserved_high, torch.cuda.max_memory_reserved(self.index))
        torch.cuda.reset_peak_memory_stats(self.index)
        self._host.restart_peak()
        reset = getattr(torch.cuda, "reset_peak_host_memory_stats", None)
        if reset is not None:
            with contextlib.suppress(Exception):  # where it cannot, the peak is that of the whole run
                reset()

    def readings(self, phase: str) -> List[ReadingTaken]:
        """The allocator's (peak and end), the whole device's (end only), and the host memory of the process."""
        stats = torch.cuda.memory_stats(self.index)
        free, total = torch.cuda.mem_get_info(self.index)
        rows = [
            (name, stats.get(key + ".peak"), "memory_stats %s.peak" % key, stats.get(key + ".current"))
            for name, key in STATISTICS
        ]
        found = [
            (name, size, source, "" if size is not None else "this torch keeps no " + source.split()[1], end)
            for name, size, source, end in rows
        ]
        used = None if self._integrated else total - free
        found += [
            ("device_used", used, "mem_get_info, whole device", NO_USED if used is None else "", used),
            ("device_total", total, "mem_get_info", "", None),
            self._resident(),
            _pinned(),
        ]
        at_s = elapsed.seconds()
        return [
            ReadingTaken(name, phase, size, source, MEANING[name], why, end, at_s)
            for name, size, source, why, end in found
        ]

    def _resident(self) -> Row:
        now, peak = self._host.resident()
        source = "VmRSS, sampled" if self._host.sampled else "VmHWM, the kernel's peak"
        return "host_rss", peak, source, "" if peak is not None else "/proc/self/status cannot be read", now

    def high_water(self, phase: str) -> List[ReadingTaken]:
        """See ``base.Device``: segments that were given back between two resets are not forgotten."""
        value = max(self._reserved_high, torch.cuda.max_memory_reserved(self.index))
        source = "max_memory_reserved, highest of all phases"
        return [ReadingTaken("allocator_reserved", phase, value, source, MEANING["allocator_reserved"])]

    def sample_operators(self) -> ContextManager[Any]:
        """See ``base.Device``: the allocator keeps its own peaks."""
        return contextlib.nullcontext()

    def stopwatch(self) -> Stopwatch:
        """See ``base.Device``."""
        return CudaStopwatch()

    def recorder(self) -> Recorder:
        """See ``base.Device``."""
        from ..record_cuda import CudaRecorder

        return CudaRecorder(self.index)

    def limit(self, nbytes: int, slack: int = 0, free_before: Optional[int] = None) -> Optional[int]:
        """Cap the allocator, so that this process cannot take memory from other people's jobs.

        The context and kernels are the process's too but not the allocator's: the cap is less by what the device
        lost since ``free_before``, unless that is more than a context is, because others came meanwhile.
        """
        free, total = torch.cuda.mem_get_info(self.index)
        outside = 0
        if free_before is not None:
            outside = free_before - free - torch.cuda.memory_reserved(self.index)
        if not 0 <= outside <= min(MOST_CONTEXT, nbytes // 2):
            outside = 0
        cap = nbytes + slack - outside
        torch.cuda.set_per_process_memory_fraction(min(1.0, cap / total), self.index)
        return cap

    def workspaces(self) -> FrozenSet[int]:
        """cuBLAS's, one a handle and stream, as the environment or the GPU's generation sets them; cuBLASLt's.

        Source: ATen's CublasHandlePool and CUDABlas: 4096 KiB x 2 + 16 KiB x 8 by default, 32 MiB from compute
        capability 9 on; cuBLASLt 1 MiB, 4 MiB or 32 MiB by generation.
        """
        words = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "").strip(":").split(":")
        sizes = {8_519_680, 32 * 2**20, 2**20, 4 * 2**20}
        if len(words) >= 2 and all(word.isdigit() for word in words):
            sizes.add(sum(int(size) * 1024 * int(count) for size, count in zip(words[::2], words[1::2])))
        if os.environ.get("CUBLASLT_WORKSPACE_SIZE", "").isdigit():
            sizes.add(int(os.environ["CUBLASLT_WORKSPACE_SIZE"]) * 1024)
        return frozenset(sizes)

    def facts(self) -> Tuple[Dict[str, Any], Dict[str, str]]:
        """See ``base.Device``."""
        facts, unknown = super().facts()
        properties = torch.cuda.get_device_properties(self.index)
        facts["device"] = properties.name
        facts["device_total_bytes"] = properties.total_memory
        facts["cuda"] = torch.version.cuda
        # It changes the algorithms of convolutions, and their workspaces with them.
        facts["cudnn_benchmark"] = torch.backends.cudnn.benchmark
        facts["capability"] = "%d.%d" % (properties.major, properties.minor)
        uuid = str(getattr(properties, "uuid", ""))
        facts["device_id"] = uuid if uuid.startswith(("GPU-", "MIG-")) else "GPU-" + uuid
        if not uuid and self._integrated:
            facts["device_id"] = INTEGRATED
        if os.environ.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-"):
            facts["device_id"] = os.environ["CUDA_VISIBLE_DEVICES"].split(",")[0]
        unknown["driver"] = "read by NVML, outside this process"
        return facts, unknown


def _pinned() -> Row:
    """Pinned bytes, peak and now, from a torch that counts them."""
    count = getattr(torch.cuda, "host_memory_stats", None)
    if count is None:
        return "pinned", None, "", "torch %s does not count pinned memory" % torch.__version__, None
    try:
        stats = count()
    except Exception as error:
        return "pinned", None, "", "host_memory_stats: %s" % one_line(error, 120), None
    size = stats.get("allocated_bytes.peak")
    why = "" if size is not None else "torch %s keeps no allocated_bytes.peak of it" % torch.__version__
    return "pinned", size, "host_memory_stats", why, stats.get("allocated_bytes.current")


class CudaStopwatch(Stopwatch):
    """An event at each edge, read only once the device has passed it: nothing is synchronised while it runs."""

    def __init__(self) -> None:
        self._open = None
        self._pairs = []

    def begin(self) -> None:
        """See ``base.Stopwatch``."""
        self._open = torch.cuda.Event(enable_timing=True)
        self._open.record()

    def end(self) -> None:
        """See ``base.Stopwatch``."""
        closed = torch.cuda.Event(enable_timing=True)
        closed.record()
        self._pairs.append((self._open, closed))

    def finished(self) -> List[float]:
        """See ``base.Stopwatch``."""
        done = []
        while self._pairs and self._pairs[0][1].query():
            begun, closed = self._pairs.pop(0)
            done.append(begun.elapsed_time(closed))
        return done

    def finish(self) -> List[float]:
        """See ``base.Stopwatch``: the one synchronisation."""
        torch.cuda.synchronize()
        return self.finished()
