"""Memory histories in the shape that torch.cuda records, made by the simulated allocator or by hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tui.probe.allocator import CachingAllocator

MIB = 1 << 20
FRAME = {"filename": "/home/ada/train.py", "line": 7, "name": "step"}
STATES = {"free": "inactive", "allocated": "active_allocated", "awaiting": "active_awaiting_free"}


def event(action: str, addr: int, size: int, *, stream: int = 0, us: int = 0, frames: tuple[Any, ...] = ()):
    """One entry of device_traces."""
    found = {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": us}
    return {**found, "frames": list(frames)}


def segment(address: int, blocks: list[tuple[int, int, str]], **more: Any) -> dict[str, Any]:
    """One entry of segments; ``blocks`` are (size, requested, state) from ``address`` on."""
    total, parts, at = sum(size for size, _, _ in blocks), [], address
    for size, asked, state in blocks:
        parts.append({"address": at, "size": size, "requested_size": asked, "state": state, "frames": []})
        at += size
    kind = "small" if total == 2 * MIB else "large"
    found = {"device": 0, "address": address, "total_size": total, "stream": 0, "segment_type": kind}
    return {**found, "is_expandable": False, "segment_pool_id": (0, 0), "blocks": parts, **more}


def snapshot(events: list[dict[str, Any]], segments: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A whole snapshot with one device and default settings."""
    settings = {"expandable_segments": False, "max_split_size": -1, "roundup_power2_divisions": {"1": 0}}
    return {"segments": segments, "device_traces": [events], "allocator_settings": settings, **more}


class Recorder:
    """A simulated allocator whose events are kept as torch keeps them, from ``begin`` on."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.recording = False
        self.allocator = CachingAllocator(place_segment=self._place)
        self._next, self._stream = 1 << 40, 0
        self._blocks: dict[int, tuple[int, int, int]] = {}

    def begin(self) -> None:
        self.recording = True
        self.allocator.reset_peaks()

    def malloc(self, id: int, nbytes: int, stream: int = 0) -> None:
        self._stream = stream
        address = self.allocator.malloc(id, nbytes, stream)
        self._blocks[id] = (address, nbytes, stream)
        self._note("alloc", address, nbytes, stream, (FRAME,))

    def free(self, id: int) -> None:
        address, nbytes, stream = self._blocks.pop(id)
        self.allocator.free(id)
        self._note("free_requested", address, nbytes, stream)
        self._note("free_completed", address, nbytes, stream)

    def empty_cache(self) -> None:
        before = {one.address: one for one in self.allocator.segments()}
        self.allocator.release_cached()
        for address in before.keys() - {one.address for one in self.allocator.segments()}:
            self._note("segment_free", address, before[address].size, before[address].stream)

    def snapshot(self) -> dict[str, Any]:
        found = []
        for one in self.allocator.segments():
            blocks = [(block.size, block.requested, STATES[block.state]) for block in one.blocks]
            kind = "small" if one.small else "large"
            found.append(segment(one.address, blocks, stream=one.stream, segment_type=kind))
        return snapshot(self.events, found)

    def _place(self, size: int) -> int:
        address, self._next = self._next, self._next + size
        self._note("segment_alloc", address, size, self._stream)
        return address

    def _note(self, action: str, address: int, size: int, stream: int, frames: tuple[Any, ...] = ()) -> None:
        if self.recording:
            us = len(self.events)
            self.events.append(event(action, address, size, stream=stream, us=us, frames=frames))


def traces() -> Path | None:
    """The folder of recorded traces, when this machine has it."""
    named = os.environ.get("PEAKMARK_TRACES")
    folder = Path(named) if named else Path(__file__).parents[1].parent / "shared/truth/traces"
    return folder if (folder / "expected.toml").exists() else None
