"""A bound on the memory that reading a file may take: a few bytes can ask for any amount of it.

Standard library only, Python 3.9 syntax.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Iterator, Optional, Tuple

LEAST = 64 << 20
"""Bytes that reading any file may take."""
FACTOR = 24
"""Bytes of memory for each byte of a pickle; recorded histories take up to 8, their replay included."""


class TooMuch(MemoryError):
    """The bound was reached; ``machine`` tells that it was this machine's memory and not what the file can need."""

    def __init__(self, allowed: int, machine: bool) -> None:
        super().__init__("more than %d B" % allowed)
        self.allowed = allowed
        self.machine = machine


@contextmanager
def reading(size: int) -> Iterator[bool]:
    """Hold this process to what a file of ``size`` bytes can need; yields whether that is in force.

    Raises:
        TooMuch: whatever ran inside wanted more.
    """
    wanted, left = LEAST + FACTOR * size, _available()
    machine = left is not None and left < wanted
    allowed = left if machine and left is not None else wanted
    limits, full = _limit(allowed), False
    try:
        yield limits is not None
    except TooMuch:
        raise
    except MemoryError:
        full = True  # nothing is made here: there may be no room for it before the limit is lifted
    finally:
        _restore(limits)
    if full:
        raise TooMuch(allowed, machine)


def _limit(allowed: int) -> Optional[Tuple[int, int]]:
    """Lower the limit of this process's address space; the limits before, None: it cannot be done here."""
    try:
        import resource

        with open("/proc/self/statm", "rb") as stream:
            held = int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        before = resource.getrlimit(resource.RLIMIT_AS)
        bound = held + allowed
        if before[0] != resource.RLIM_INFINITY:
            bound = min(bound, before[0])
        resource.setrlimit(resource.RLIMIT_AS, (bound, before[1]))
    except (ImportError, OSError, ValueError):
        return None
    return before


def _restore(limits: Optional[Tuple[int, int]]) -> None:
    if limits is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, limits)


def _available() -> Optional[int]:
    """Bytes that the kernel could still give without swapping; None: it does not say."""
    try:
        with open("/proc/meminfo", "rb") as stream:
            for line in stream:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
