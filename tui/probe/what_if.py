"""A recorded history through the allocator's rules under other settings, or in less memory.

The requests are those of the record, in its order; where blocks land, what is reserved and whether it runs out
follow from the rules.  Sizes are bytes.  Standard library only, Python 3.9 syntax.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Dict, List, Optional

from .allocator import CachingAllocator, OutOfMemory
from .allocator_settings import parse
from .blocks import AWAITING
from .recorded import Recorded

START = -1
"""The event of a failure that came before the first one: the blocks from before the record did not fit."""


@dataclass
class Failure:
    """Where it ran out of memory; ``asked`` are requested bytes, the rest is read at that moment."""

    event: int
    asked: int
    frame: str
    allocated: int
    reserved: int
    largest_free: int


@dataclass
class WhatIf:
    """One replay, up to where it ran out of memory."""

    settings: str
    basis: str
    """How far the rules are proved."""
    peak_requested: int
    peak_allocated: int
    peak_reserved: int
    retries: int
    statistics: Dict[str, int]
    """Of the end, as ``torch.cuda.memory_stats`` names them."""
    failure: Optional[Failure] = None
    notes: List[str] = field(default_factory=list)


def replay_under(history: Recorded, settings: str = "", capacity: Optional[int] = None) -> WhatIf:
    """The history's requests under ``settings``.

    Blocks from before the record are asked for first, by address; cached memory from before it is not there.  Segments
    that the record gives back, with no new one right after as in a retry, are replayed as ``empty_cache``.

    Args:
        history: with any settings of its own.
        settings: in the syntax of PYTORCH_CUDA_ALLOC_CONF.
        capacity: bytes that may be reserved; None: no limit.

    Raises:
        SettingsError: the settings are wrong, or cannot be simulated.
    """
    found = parse(settings)
    allocator = CachingAllocator(capacity, settings=found, counted=True)
    failure = _run(history, allocator)
    notes = found.notes()
    if history.final.private:
        notes.append("private pools, as CUDA graphs use them, are replayed as if they were none")
    if capacity is None and found.per_process_memory_fraction < 1:
        notes.append("per_process_memory_fraction is a share of the capacity, and none is given")
    return WhatIf(
        settings,
        allocator.basis,
        allocator.peak_requested,
        allocator.peak_allocated,
        allocator.peak_reserved,
        allocator.num_alloc_retries,
        allocator.statistics(),
        failure,
        notes,
    )


def _run(history: Recorded, allocator: CachingAllocator) -> Optional[Failure]:
    at, asked, frame = START, 0, ""
    try:
        segments = history.earlier.segments
        begins = [segment.address for segment in segments]
        for address, asked in sorted(history.played.start.items()):
            index = bisect_right(begins, address) - 1
            allocator.malloc(address, asked, segments[index].stream if index >= 0 else 0)
            if history.earlier.alive[address].state == AWAITING:
                allocator.request_free(address)
        events = history.events
        for at, event in enumerate(events):
            if at in history.played.ignored:
                continue
            kind = event.kind
            if kind == "alloc":
                asked, frame = event.nbytes, event.frame
                allocator.malloc(event.address, asked, event.stream)
            elif kind == "free_requested":
                allocator.request_free(event.address)
            elif kind == "free":
                allocator.free(event.address)
            elif kind in ("segment_free", "unmap"):
                after = events[at + 1].kind if at + 1 < len(events) else ""
                if after not in ("segment_free", "unmap", "segment_alloc", "map"):
                    allocator.release_cached()
    except OutOfMemory as error:
        return Failure(at, asked, frame, error.allocated, error.reserved, error.largest_free_block)
    return None
