"""The CPU allocator's own record, by torch's profiler.

Every allocation and free that torch's CPU allocator makes is reported, also those inside an operator that a
dispatch mode never sees.  The events form a tree: an allocation's nearest ancestors are the operators it was made
in.  Source: ``profile_memory`` and the experimental event tree of ``torch.autograd.profiler``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

import torch
from torch.autograd.profiler import profile

from .allocations import Record

if TYPE_CHECKING:
    from .allocations import Row
    from .labels import Mark

_MARK_BYTES = 12347
"""An allocation of this odd size, made at a known time, ties the profiler's clock to ours."""


FAILED = "[OutOfMemory]"
"""The profiler's name of an allocation that failed."""


class CpuRecorder:
    """``start()``; run what is to be measured; ``stop()`` gives a ``Record`` in our wall-clock time."""

    source = "profiler allocation events"

    def __init__(self) -> None:
        self._profile: Any = profile(use_cpu=True, profile_memory=True)
        self._marked = (0, 0)

    def start(self) -> None:
        """Begin recording."""
        self._profile.__enter__()
        before = time.time_ns()
        del_me = torch.empty(_MARK_BYTES, dtype=torch.uint8)
        self._marked = (before, time.time_ns())
        del del_me

    def stop(self) -> Record:
        """End recording."""
        self._profile.__exit__(None, None, None)
        rows = list(_rows(self._profile.kineto_results.experimental_event_tree()))
        shift = self._shift(rows)
        if shift:
            rows = [(t + shift, a, n, op, None if end is None else end + shift) for t, a, n, op, end in rows]
        self._profile = None
        return Record(rows)

    def outer_peaks(self, marks: List[Mark]) -> Tuple[List[Tuple[Optional[int], Optional[int]]], str]:
        """See ``device.base.Recorder``: a CPU allocation goes straight to malloc."""
        return [], "the CPU has no caching allocator"

    def at_failure(self) -> Dict[str, int]:
        """See ``device.base.Recorder``."""
        return {}

    def _shift(self, rows: List[Row]) -> int:
        begun, ended = self._marked
        for time_ns, _, nbytes, _, _ in rows:
            if nbytes == _MARK_BYTES:
                return 0 if begun <= time_ns <= ended else (begun + ended) // 2 - time_ns
        return 0


def _rows(roots: List[Any]) -> Iterator[Row]:
    """(time_ns, address, signed bytes, operator, end of the outermost operator) of every CPU allocation event."""
    stack = [(root, "", None) for root in reversed(roots)]
    while stack:
        event, op, outer_end = stack.pop()
        fields = event.extra_fields
        size = getattr(fields, "alloc_size", None)
        if size is not None:
            if fields.device.type == "cpu":
                yield event.start_time_ns, fields.ptr, size, op, outer_end
        elif event.name == FAILED:
            yield event.start_time_ns, 0, 0, op, outer_end
        else:
            name = event.name
            if not _is_frame(name):
                op = name
                if outer_end is None:
                    outer_end = event.end_time_ns
        stack.extend((child, op, outer_end) for child in reversed(event.children))


def _is_frame(name: str) -> bool:
    """Whether a node only stands around operators: the autograd engine, an optimizer's step, an annotation."""
    return "::" not in name or name.startswith(("autograd::engine", "torch::autograd"))
