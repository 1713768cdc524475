"""The process's memory as glibc and the kernel see it.

``mallinfo2`` covers every arena and the mapped blocks: Python's and torch's own memory included, so none of it is
called tensor memory.  ``VmHWM`` is the kernel's peak of resident memory; writing 5 to ``clear_refs`` starts it
anew, which some containers forbid (then resident memory is sampled instead, and said so).
"""

from __future__ import annotations

import ctypes
import os
from typing import Optional, Tuple


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


class Heap:
    """Readings of this process; every method gives None where the platform has no such reading."""

    def __init__(self) -> None:
        try:
            self._mallinfo2 = ctypes.CDLL(None).mallinfo2
            self._mallinfo2.restype = _Mallinfo2
        except (AttributeError, OSError):
            self._mallinfo2 = None
        self._status = _open("/proc/self/status", os.O_RDONLY)
        self._clear = _open("/proc/self/clear_refs", os.O_WRONLY)
        self._largest = 0
        self.sampled = False

    def in_use(self) -> Optional[int]:
        """Bytes in blocks that malloc has handed out."""
        if self._mallinfo2 is None:
            return None
        now = self._mallinfo2()
        return now.uordblks + now.hblkhd

    def reserved(self) -> Optional[int]:
        """Bytes that malloc holds from the kernel, in use or kept."""
        if self._mallinfo2 is None:
            return None
        now = self._mallinfo2()
        return now.arena + now.hblkhd

    def resident(self) -> Tuple[Optional[int], Optional[int]]:
        """(resident bytes, peak resident bytes since ``restart_peak``), each or None."""
        if self._status is None:
            return None, None
        text = os.pread(self._status, 8192, 0)
        now, peak = _kib(text, b"VmRSS:"), _kib(text, b"VmHWM:")
        if self.sampled and now is not None:
            self._largest = max(self._largest, now)
            peak = self._largest
        return now, peak

    def restart_peak(self) -> None:
        """Start a new peak of resident memory."""
        self._largest = 0
        if self._clear is not None:
            try:
                os.pwrite(self._clear, b"5", 0)
                return
            except OSError:
                pass
        self.sampled = True


def data_bytes() -> Optional[int]:
    """Bytes of private writable mappings, as RLIMIT_DATA counts them, or None."""
    status = _open("/proc/self/status", os.O_RDONLY)
    if status is None:
        return None
    try:
        return _kib(os.pread(status, 8192, 0), b"VmData:")
    finally:
        os.close(status)


def _open(path: str, flags: int) -> Optional[int]:
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError:
        return None


def _kib(text: bytes, key: bytes) -> Optional[int]:
    start = text.find(key)
    if start < 0:
        return None
    return int(text[start + len(key) :].split(None, 1)[0]) * 1024
