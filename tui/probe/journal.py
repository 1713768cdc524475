"""The child's side of the journal: one event a line, appended by a single write.

A full disk first shows as a short write; the torn line is cut off again, journalling stops, and the exit code
says so.  Nothing here ever raises into the measured program.
"""

from __future__ import annotations

import errno
import os
import threading
from typing import Any

from . import protocol

JOURNAL_LOST = 71
"""Exit code of a child whose journal could not be written to its end."""


class Journal:
    """Appends events to ``path``; ``lost`` holds the reason once a write failed."""

    def __init__(self, path: str) -> None:
        self.lost = ""
        self._lock = threading.Lock()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._pid = os.getpid()

    def add(self, event: Any) -> None:
        """Append ``event``; a forked copy of this process stays silent."""
        if self.lost or os.getpid() != self._pid:
            return
        line = protocol.encode(event)
        with self._lock:
            try:
                written = os.write(self._fd, line)
                if written != len(line):
                    raise OSError(errno.ENOSPC, "short write")
            except OSError as error:
                self.lost = str(error)
                self._cut_torn_line()

    def sync(self) -> None:
        """Ask the disk to keep what was written."""
        try:
            os.fsync(self._fd)
        except OSError:
            pass

    def _cut_torn_line(self) -> None:
        try:
            size = os.fstat(self._fd).st_size
            with open("/proc/self/fd/%d" % self._fd, "rb") as readable:
                readable.seek(max(0, size - 1048576))
                tail = readable.read()
            keep = tail.rfind(b"\n") + 1
            os.ftruncate(self._fd, size - len(tail) + keep)
        except OSError:
            pass
