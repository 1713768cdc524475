"""What a device can say of the moment at which an allocation failed.

Only numbers and words are taken while the error lives: its frames hold the tensors that were in the way, and a
reading that kept one of them would keep them all.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import torch

from ..confined import available_bytes
from ..faults import asked_bytes, said_by
from .heap import Heap

if TYPE_CHECKING:
    from .base import Device

SMALL_SEGMENT = 2 << 20
_SIZE = r"([0-9.]+) ?(bytes|B|KiB|MiB|GiB)"
_UNITS = {"bytes": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SAID = {
    "device_free": re.compile("of which %s is free" % _SIZE),
    "allocated": re.compile(_SIZE + " is allocated by PyTorch"),
    "cached": re.compile(_SIZE + " is reserved by PyTorch but unallocated"),
}


def watch(device: Device, recorded: bool = False) -> Watch:
    """The watch of ``device``; from now on it sees what fails.  ``recorded``: a history is being kept."""
    if device.kind == "cuda":
        return CudaWatch(device.index, recorded)  # type: ignore[attr-defined]
    return CpuWatch()


class Watch:
    """Told by the device or asked in the handler.  ``place``: which memory it is about."""

    place = ""

    def read(self, error: BaseException) -> Dict[str, Any]:
        """What is known of the failure that ``error`` tells, by the names of ``Failed.details``.

        asked_bytes, segment_bytes, device_free_bytes, device_total_bytes, reserved_bytes, allocated_bytes,
        largest_free_block_bytes, free_blocks_bytes; what is not known is absent.  ``place`` says which memory it
        was ("cpu", "cuda", or "host" for this machine's own beside a GPU), ``numbers_source`` where it was read.
        """
        raise NotImplementedError


class CpuWatch(Watch):
    """A CPU has no cache between malloc and torch: what the kernel could still give is all there is."""

    place = "cpu"

    def __init__(self) -> None:
        self._baseline, _ = Heap().resident()

    def read(self, error: BaseException) -> Dict[str, Any]:
        """See ``Watch``."""
        found = {"place": "cpu", "asked_bytes": asked_bytes(error), "device_free_bytes": available_bytes()}
        found["baseline_bytes"] = self._baseline
        return _known({**found, "numbers_source": "/proc/meminfo, in the error's handler"})


class CudaWatch(Watch):
    """Reads the caching allocator as it gives up, before anything is unwound, where torch tells that moment."""

    place = "cuda"

    def __init__(self, index: int, recorded: bool) -> None:
        self._index = index
        self._recorded = recorded
        self.seen: Dict[str, Any] = {}
        attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None:
            attach(self.saw)

    def saw(self, device: int, asked: int, total: int, free: int) -> None:
        """Called by the allocator: ``asked`` is the segment it wanted, ``total`` the device's or the cap's bytes."""
        if device != self._index:
            return
        self.seen = {
            "segment_bytes": asked,
            "device_free_bytes": free,
            "numbers_source": "the allocator's observer",
        }
        try:
            stats = torch.cuda.memory_stats(self._index)
            self.seen["reserved_bytes"] = stats.get("reserved_bytes.all.current")
            self.seen["allocated_bytes"] = stats.get("allocated_bytes.all.current")
            self.seen.update(self._blocks(asked))
        except Exception as error:  # an observer that raises would hide the error that it observes
            self.seen["numbers_source"] += ", in part: %s" % type(error).__name__

    def _blocks(self, asked: int) -> Dict[str, int]:
        light = "include_traces" in inspect.signature(torch.cuda.memory_snapshot).parameters
        if self._recorded and not light:
            return {}  # it would copy the whole history; that is replayed instead
        found = torch.cuda.memory_snapshot(**({"include_traces": False} if light else {}))
        largest, total = free_blocks(found, self._index, asked <= SMALL_SEGMENT)
        return {"largest_free_block_bytes": largest, "free_blocks_bytes": total}

    def read(self, error: BaseException) -> Dict[str, Any]:
        """See ``Watch``."""
        text = said_by(error)
        if "DefaultCPUAllocator" in text or isinstance(error, MemoryError):
            return {**CpuWatch().read(error), "place": "host"}
        found = {
            "place": "cuda",
            "asked_bytes": asked_bytes(error),
            **_known(_said(text)),
            **_known(self.seen),
        }
        free, total = torch.cuda.mem_get_info(self._index)
        found["device_total_bytes"] = total
        found.setdefault("device_free_bytes", free)
        found.setdefault("numbers_source", "the error's own text, to two decimals")
        return _known(found)


def free_blocks(segments: List[Any], index: int, small: bool) -> Tuple[int, int]:
    """(largest free block of the pool of ``small`` or large requests, sum of all free blocks) on a device."""
    largest = total = 0
    for segment in segments:
        if segment.get("device", index) != index:
            continue
        ours = (segment.get("segment_type") == "small") == small
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                total += block["size"]
                largest = max(largest, block["size"] if ours else 0)
    return largest, total


def _said(text: str) -> Dict[str, Optional[int]]:
    """What an out-of-memory of CUDA says of itself, to the two decimals that it prints."""
    found: Dict[str, int] = {}
    for name, pattern in _SAID.items():
        match = pattern.search(text)
        if match:
            found[name] = int(float(match.group(1)) * _UNITS[match.group(2)])
    allocated, cached = found.get("allocated"), found.get("cached")
    return {
        "device_free_bytes": found.get("device_free"),
        "allocated_bytes": allocated,
        "free_blocks_bytes": cached,
        "reserved_bytes": None if allocated is None or cached is None else allocated + cached,
    }


def _known(found: Dict[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in found.items() if value is not None}
