"""One writer of a file at a time, among the peakmarks of one user."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tui.errors import SaveError
from tui.project.paths import state_folder

WAIT_S = 10.0
POLL_S = 0.02


@contextmanager
def hold(path: Path, wait_s: float | None = None) -> Generator[None]:
    """Hold the advisory lock of the file that ``path`` leads to, symbolic links followed.

    The lock is a file of its own in the state folder, because the file itself is replaced when it is saved.

    Raises:
        SaveError: another process held it for ``wait_s`` seconds (None: 10), or it cannot be locked here.
    """
    digest = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:16]
    try:
        folder = state_folder() / "locks"
        folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(folder / f"{digest}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "set PEAKMARK_STATE to a folder that you can write"
        raise SaveError(f"{path} could not be locked and is unchanged: {reason}", hint=hint) from error
    try:
        _acquire(handle, path, WAIT_S if wait_s is None else wait_s)
        with suppress(OSError):  # a full disk: the lock holds all the same, only the holder's name is missing
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)  # gives the lock back


def _acquire(handle: int, path: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                reason = (error.strerror or str(error)).lower()
                hint = "set PEAKMARK_STATE to a folder on a local disk"
                raise SaveError(
                    f"{path} could not be locked and is unchanged: {reason}", hint=hint
                ) from error
            if time.monotonic() >= deadline:
                holder = os.pread(handle, 20, 0).decode(errors="replace") or "unknown"
                raise SaveError(
                    f"{path} is being saved by another peakmark (pid {holder}); it is unchanged",
                    hint="wait for it, then try again",
                ) from None
        time.sleep(POLL_S)
