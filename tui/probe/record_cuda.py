"""The CUDA caching allocator's own record of this process, read in the format of ``_dump_snapshot`` files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import torch

from . import recorded
from .allocations import Record, Row
from .blocks import SMALL_LIMIT, round_size
from .unpickle import SnapshotError

if TYPE_CHECKING:
    from .labels import Mark

MAX_ENTRIES = 4_000_000


class CudaRecorder:
    """``start()``; run what is to be measured; ``stop()`` gives a ``Record``; then ``outer_peaks``."""

    source = "allocator history"

    def __init__(self, index: int) -> None:
        self._index = index
        self._snapshot: Any = None

    def start(self) -> None:
        """Begin recording."""
        torch.cuda.memory._record_memory_history(
            enabled="all", context="alloc", stacks="python", max_entries=MAX_ENTRIES
        )

    def stop(self) -> Record:
        """End recording."""
        torch.cuda.synchronize(self._index)
        self._snapshot = torch.cuda.memory._snapshot(self._index)
        torch.cuda.memory._record_memory_history(enabled=None)
        return from_snapshot(self._snapshot, self._index)

    def outer_peaks(self, marks: List[Mark]) -> Tuple[List[Tuple[Optional[int], Optional[int]]], str]:
        """See ``device.base.Recorder``."""
        return outer_peaks(self._snapshot, self._index, marks)

    def at_failure(self) -> Dict[str, int]:
        """See ``device.base.Recorder``."""
        return at_failure(self._snapshot, self._index)


def from_snapshot(snapshot: Any, index: int) -> Record:
    """A ``Record`` of device ``index`` of a snapshot: what a live measurement and a saved file share."""
    rows: List[Row] = []
    for event in recorded.events(snapshot, index):
        if event.kind == "alloc":
            rows.append((event.time_ns or 0, event.address, event.nbytes, event.frame, None))
        elif event.kind == "free":
            rows.append((event.time_ns or 0, event.address, -event.nbytes, "", None))
        elif event.kind == "oom":
            rows.append((event.time_ns or 0, 0, 0, event.frame, None))
    return Record(rows, resolution_ns=1000)


def outer_peaks(
    snapshot: Any, index: int, marks: List[Mark]
) -> Tuple[List[Tuple[Optional[int], Optional[int]]], str]:
    """((allocated, reserved) peaks from each mark to the next, why they are unknown or "")."""
    try:
        history = recorded.read(snapshot, index)
        found = history.peaks_between([(phase, time_ns) for time_ns, phase, _, _ in marks])[:-1]
    except (SnapshotError, ValueError) as error:
        return [], "the allocator's history cannot be replayed: %s" % error
    peaks = [(None if one.allocated is None else one.allocated.bytes, one.reserved.bytes) for one in found]
    return list(peaks), history.rules.unlike if any(one[0] is None for one in peaks) else ""


def at_failure(snapshot: Any, index: int) -> Dict[str, int]:
    """The allocator's figures at the last failed allocation of a history; {} without one."""
    try:
        history = recorded.read(snapshot, index)
    except SnapshotError:
        return {}
    failed = [place for place, event in enumerate(history.events) if event.kind == "oom"]
    if not failed:
        return {}
    event, totals = history.events[failed[-1]], history.totals(failed[-1])
    found = {
        "asked_bytes": event.nbytes,
        "device_free_bytes": event.address,
        "reserved_bytes": totals.reserved,
    }
    if totals.allocated is not None:
        found["allocated_bytes"] = totals.allocated
    free = history.free_before(failed[-1], round_size(event.nbytes) <= SMALL_LIMIT)
    if free is not None:
        found["largest_free_block_bytes"], found["free_blocks_bytes"] = free
    return found
