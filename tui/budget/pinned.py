"""Pinned (page-locked) host memory: what is asked for and what torch locks.  Pure; bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pinned:
    """Bytes of pinned buffers."""

    requested: int
    locked: int


def pinned(requests: Iterable[int], round_threshold: int | None = None) -> Pinned:
    """What buffers of these sizes ask for, and what the host allocator locks for them.

    ``CachingHostAllocator`` (ATen/core) rounds each request up to a power of two.  Newer torch leaves requests above
    ``pinned_max_round_threshold_mb`` of PYTORCH_ALLOC_CONF as they are.

    Args:
        requests: sizes of buffers alive at once, each a positive number of bytes; nothing is locked for 0.
        round_threshold: the largest size that is rounded, in bytes; None: every one is, torch's default.

    >>> pinned([4_347_592_704 * 2])
    Pinned(requested=8695185408, locked=17179869184)
    """
    sizes = list(requests)
    if any(size < 0 for size in sizes):
        raise ValueError(f"a buffer of {min(sizes)} bytes")
    return Pinned(sum(sizes), sum(_locked(size, round_threshold) for size in sizes))


def _locked(size: int, threshold: int | None) -> int:
    if not size or (threshold is not None and size > threshold):
        return size
    return 1 << (size - 1).bit_length()
