"""The CUDA caching allocator's own record of this process, read in the format of ``_dump_snapshot`` files."""

import torch

from . import recorded
from .allocations import Record

MAX_ENTRIES = 4_000_000


class CudaRecorder:
    """``start()``; run what is to be measured; ``stop()`` gives a ``Record``; ``reserved(…)`` replays segments."""

    source = "allocator history"

    def __init__(self, index):
        self._index = index
        self.history = None

    def start(self):
        """Begin recording."""
        torch.cuda.memory._record_memory_history(
            enabled="all", context="alloc", stacks="python", max_entries=MAX_ENTRIES
        )

    def stop(self):
        """End recording."""
        torch.cuda.synchronize(self._index)
        snapshot = torch.cuda.memory._snapshot(self._index)
        torch.cuda.memory._record_memory_history(enabled=None)
        self.history = snapshot
        return from_snapshot(snapshot, self._index)


def from_snapshot(snapshot, index):
    """A ``Record`` of device ``index`` of a snapshot: what a live measurement and a saved file share."""
    rows = []
    for event in recorded.events(snapshot, index):
        if event.kind == "alloc":
            rows.append((event.time_ns or 0, event.address, event.nbytes, event.frame, None))
        elif event.kind == "free":
            rows.append((event.time_ns or 0, event.address, -event.nbytes, "", None))
    return Record(rows)
