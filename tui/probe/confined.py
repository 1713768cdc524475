"""Running what may need more than it should: held to a size and to a time, and put back afterwards."""

from __future__ import annotations

import contextlib
import resource
import signal
import threading
from typing import Any, Iterator, Optional

from .device.heap import data_bytes


class TookTooLong(BaseException):
    """Time is up; not an Exception, so that a workload's own ``except Exception`` does not keep it going."""


def available_bytes() -> Optional[int]:
    """What the kernel says could still be used without swapping, or None."""
    try:
        with open("/proc/meminfo", encoding="ascii") as handle:
            for line in handle:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


@contextlib.contextmanager
def held_to(more: Optional[int]) -> Iterator[None]:
    """Let this process's data grow by ``more`` bytes at most; None: as it was. Going over is a MemoryError."""
    mapped = data_bytes()
    if more is None or mapped is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = mapped + more
    for old in (soft, hard):
        if old != resource.RLIM_INFINITY:
            wanted = min(wanted, old)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TookTooLong after ``seconds``, between two operators; outside the main thread there is no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: Any) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
