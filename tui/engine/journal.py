"""Journals: one event a line, written by one process and read by any number of others while it grows.

A last line without its end is normal (its writer is at it, or was killed); a complete line that is not an
event is counted and passed over.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tui.probe.protocol import ProtocolError, decode, encode

POLL_S = 0.1
"""A file is looked at this often: file system events do not cross NFS."""


class Journal:
    """Appends events to a file, one write a line.

    When a line cannot be written whole (a full disk first shows as a short write), what was written of it is
    cut off again, nothing more is written, and ``lost`` says why.
    """

    def __init__(self, path: Path) -> None:
        self.lost = ""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._fd).st_size

    def add(self, event: Any) -> None:
        """Append ``event``, an instance of any event class of the protocol."""
        if self.lost:
            return
        line = encode(event)
        try:
            if os.write(self._fd, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self.lost = error.strerror or str(error)
            os.ftruncate(self._fd, self._size)
        else:
            self._size += len(line)

    def close(self) -> None:
        """Ask the disk to keep what was written, and close the file."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            self.lost = self.lost or error.strerror or str(error)
        os.close(self._fd)


class Reader:
    """Reads the complete lines of a journal as it grows; the file need not exist yet."""

    PIECE_BYTES = 1 << 16
    LINE_BYTES = 1 << 25
    """A longer line is not an event, whatever it holds: it is passed over without keeping it in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.malformed = 0
        """Complete lines so far that were not events."""
        self._file: BinaryIO | None = None
        self._rest = bytearray()
        self._searched = 0
        self._passing_over = False

    def events(self) -> Iterator[Any]:
        """Every event that is complete now and was not given before."""
        for line in self._lines():
            try:
                event = decode(line)
            except ProtocolError:
                self.malformed += 1
            else:
                yield event

    def reopen(self) -> None:
        """Go on at the same place of a newly opened file: only then NFS shows what another machine wrote."""
        if self._file is not None:
            place = self._file.tell()
            self.close()
            try:
                self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
            except FileNotFoundError:
                return
            self._file.seek(place)

    def close(self) -> None:
        """Close the file; ``events`` may open it again from its beginning only."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _lines(self) -> Iterator[bytes]:
        if self._file is None:
            try:
                self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
            except FileNotFoundError:
                return
        file = self._file
        while self._file is file:  # whoever takes the lines may close it meanwhile
            # What an abandoned iteration left comes first; the part without an end is searched only once.
            while (end := self._rest.find(b"\n", self._searched)) >= 0:
                line = bytes(self._rest[:end])
                del self._rest[: end + 1]
                self._searched = 0
                if self._passing_over:
                    self._passing_over = False
                else:
                    yield line
            self._searched = len(self._rest)
            if self._searched > self.LINE_BYTES:
                self.malformed += not self._passing_over
                self._passing_over = True
                self._rest.clear()
                self._searched = 0
            piece = file.read(self.PIECE_BYTES)
            if not piece:
                return
            self._rest += piece


class Turns:
    """Gives the event loop to others after every slice of work."""

    SLICE_S = 0.02

    def __init__(self) -> None:
        self._since = time.monotonic()

    async def take(self) -> None:
        """Call after each small piece of work; returns at once until the slice is used up."""
        if time.monotonic() - self._since > self.SLICE_S:
            await asyncio.sleep(0)
            self._since = time.monotonic()


async def tail(reader: Reader, ended: asyncio.Future[Any], poll_s: float = POLL_S) -> AsyncGenerator[Any]:
    """Yield the events of a journal until its writer has ended and everything was read.

    Args:
        reader: of the journal; counts the lines that are not events.
        ended: done when nothing more will be written; it is waited for, never cancelled.
        poll_s: seconds between two looks at the file.
    """
    turns = Turns()
    while True:
        last = ended.done()
        if last:
            reader.reopen()
        for event in reader.events():
            yield event
            await turns.take()
        if last:
            return
        await asyncio.wait((ended,), timeout=poll_s)
        turns = Turns()
