"""The CPU as a device: the process's own memory is what a measurement uses."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Dict, List, Optional, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .. import elapsed
from ..protocol import ReadingTaken
from .base import Device, Stopwatch
from .heap import Heap, data_bytes

if TYPE_CHECKING:
    from .base import Recorder

MEANING = {
    "heap_in_use": "blocks that malloc has handed out, Python and libraries included",
    "heap_reserved": "what malloc holds from the kernel, Python and libraries included",
    "process": "resident memory of the measuring process at its peak",
    "host_total": "memory of this machine, or what the control group allows",
    "host_rss": "resident main memory of the measuring process; on the CPU the same as process",
    "inactive_split": "free pieces of segments that are in use in part",
    "pinned": "main memory that is locked for copies to a GPU",
}


class CpuDevice(Device):
    """See ``base.Device``."""

    kind = "cpu"
    allocated_source = "heap in use less what is not tensors, fixed after the first iteration"

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")
        self.heap = Heap()
        self._not_tensors = self.heap.in_use() or 0
        self._reserved_peak = 0
        self._in_use_peak = 0
        self._old_limit = None

    def sync(self) -> None:
        """Nothing is queued on a CPU."""

    def allocated(self) -> Optional[int]:
        """See ``base.Device``; agrees with the sum of tensors to about 0.2 MiB once settled."""
        in_use = self.heap.in_use()
        return None if in_use is None else max(0, in_use - self._not_tensors)

    def settle(self, known_bytes: int) -> None:
        """See ``base.Device``."""
        in_use = self.heap.in_use()
        if in_use is not None:
            self._not_tensors = in_use - known_bytes

    def reset_peaks(self) -> None:
        """See ``base.Device``."""
        self.heap.restart_peak()
        self._reserved_peak = self._in_use_peak = 0
        self._sample()

    def _sample(self) -> None:
        reserved, in_use = self.heap.reserved(), self.heap.in_use()
        if reserved is not None and in_use is not None:
            self._reserved_peak = max(self._reserved_peak, reserved)
            self._in_use_peak = max(self._in_use_peak, in_use)

    def readings(self, phase: str) -> List[ReadingTaken]:
        """heap_in_use, heap_reserved and process of this phase, and why the readings of a GPU are not there."""
        self._sample()
        now, peak = self.heap.resident()
        no_heap = "" if self._reserved_peak else "this C library has no mallinfo2"
        no_proc = "" if peak is not None else "/proc/self/status cannot be read"
        rss = "VmRSS, sampled" if self.heap.sampled else "VmHWM, the kernel's peak"
        heap = self.heap_sampled
        no_split = "the CPU's allocator does not split segments; heap_reserved is what it holds"
        rows = (
            ("heap_in_use", self._in_use_peak or None, heap, no_heap, self.heap.in_use()),
            ("heap_reserved", self._reserved_peak or None, heap, no_heap, self.heap.reserved()),
            ("process", peak, rss, no_proc, now),
            ("host_rss", peak, rss, no_proc, now),
            ("inactive_split", None, "", no_split, None),
            ("pinned", None, "", "no GPU is used, so torch pins nothing", None),
        )
        at_s = elapsed.seconds()
        return [
            ReadingTaken(name, phase, size, source, MEANING[name], why, end, at_s)
            for name, size, source, why, end in rows
        ]

    def sample_operators(self) -> ContextManager[Any]:
        """See ``base.Device``."""
        return _SampleHeap(self._sample)

    def stopwatch(self) -> Stopwatch:
        """See ``base.Device``."""
        return CpuStopwatch()

    def recorder(self) -> Recorder:
        """See ``base.Device``."""
        from ..record_cpu import CpuRecorder

        return CpuRecorder()

    def limit(self, nbytes: int, slack: int = 0, free_before: Optional[int] = None) -> Optional[int]:
        """Hold the process's resident memory to ``nbytes`` by limiting how far its data may still grow.

        Untouched pages count too, so the limit is reached a little early, never late.
        """
        _warm_up()
        resident, _ = self.heap.resident()
        mapped = data_bytes()
        if resident is None or mapped is None:
            return None
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        self._old_limit = (soft, hard)
        wanted = mapped + max(0, nbytes + slack - resident)
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
        return nbytes

    def lift_limit(self) -> None:
        """See ``base.Device``."""
        if self._old_limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, self._old_limit)
            self._old_limit = None

    def facts(self) -> Tuple[Dict[str, Any], Dict[str, str]]:
        """See ``base.Device``."""
        facts, unknown = super().facts()
        facts["device"] = cpu_name()
        facts["device_id"] = "cpu"
        facts["capability"] = torch.backends.cpu.get_cpu_capability()
        unknown["driver"] = "the CPU needs none"
        unknown["cuda"] = "not used"
        return facts, unknown


class CpuStopwatch(Stopwatch):
    """A CPU iteration is over when its last call returns."""

    def __init__(self) -> None:
        self._done = []
        self._before = 0
        self._since = 0

    def begin(self) -> None:
        """See ``base.Stopwatch``."""
        self._before = 0
        self._since = time.perf_counter_ns()

    def pause(self) -> None:
        """See ``base.Stopwatch``."""
        self._before += time.perf_counter_ns() - self._since

    def resume(self) -> None:
        """See ``base.Stopwatch``."""
        self._since = time.perf_counter_ns()

    def end(self) -> None:
        """See ``base.Stopwatch``."""
        self._done.append((self._before + time.perf_counter_ns() - self._since) / 1e6)

    def finished(self) -> List[float]:
        """See ``base.Stopwatch``."""
        done, self._done = self._done, []
        return done

    finish = finished


class _SampleHeap(TorchDispatchMode):
    def __init__(self, sample: Callable[[], None]) -> None:
        super().__init__()
        self._look = sample

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self._look()
        return out


def _warm_up() -> None:
    # What torch loads at its first backward and step must not be refused by the limit as if it were the model.
    layer = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.zeros(1, 8)).sum().backward()
    optimizer.step()
    torch.mm(torch.zeros(256, 256), torch.zeros(256, 256))


def cpu_name() -> str:
    """The CPU's model name as the kernel says it, or the machine's architecture."""
    import platform

    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as handle:
            for line in handle:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine() or "CPU"
