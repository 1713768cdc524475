"""One run a device, among all users of a machine.

The lock is a ``flock`` on a file: the kernel gives it back with the process, however that ends.  Who holds it
is written in a second file that belongs to the holder, because a file of somebody else in a folder that
everybody may write to cannot be opened for writing.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat as modes
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType

from tui.engine import processes
from tui.errors import RunError
from tui.probe.protocol import ProtocolError, from_table

FOLDER_MODE = 0o1777


@dataclass
class Holder:
    """Who measures on a device."""

    run: str
    uid: int
    pid: int
    started: int
    """Start time of the process in clock ticks, see ``processes``."""
    since: float
    """Seconds since 1970."""


def locks_folder() -> Path:
    """Where the locks of this machine are; ``$PEAKMARK_LOCKS`` names another folder.

    /tmp rather than ``$TMPDIR``, which schedulers set anew for every job: two jobs must find the same folder.
    """
    if named := os.environ.get("PEAKMARK_LOCKS"):
        return Path(named)
    shared = Path("/tmp")
    return (shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())) / "peakmark-locks"


class DeviceLock:
    """``with DeviceLock("GPU-1f0c", run_id):`` holds the device, or raises.

    Raises:
        RunError: another run holds it (the sentence names it), or the folder of locks is unusable.
    """

    def __init__(self, device_id: str, run_id: str) -> None:
        self.device_id = device_id
        self.run_id = run_id
        name = re.sub(r"[^A-Za-z0-9._-]", "_", device_id)
        folder = locks_folder()
        self._path = folder / f"{name}.lock"
        self._own = folder / f"{name}.{os.geteuid()}.holder"
        self._fd: int | None = None

    def __enter__(self) -> DeviceLock:
        try:
            _prepare(self._path.parent)
            self._fd = _locked(self._path)
            if self._fd is not None:
                self._tell()
        except OSError as error:
            self._release()
            raise RunError(
                f"the lock of {self.device_id} cannot be taken: {error.strerror}",
                where=str(self._path),
                hint="set PEAKMARK_LOCKS to a folder that you can write to",
            ) from error
        if self._fd is None:
            raise self._refusal()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._own.unlink(missing_ok=True)
        self._release()

    def _release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _tell(self) -> None:
        pid = os.getpid()
        holder = Holder(self.run_id, os.geteuid(), pid, processes.start_ticks(pid) or 0, time.time())
        draft = self._own.with_name(f"{self._own.name}.{pid}")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w") as handle:
            os.fchmod(handle.fileno(), 0o644)
            json.dump(asdict(holder), handle)
        draft.replace(self._own)

    def _refusal(self) -> RunError:
        holder = self._holder()
        if holder is None:
            return RunError(
                f"{self.device_id} is being measured by another process that cannot be seen from here",
                hint="wait until it ends",
            )
        began = datetime.fromtimestamp(holder.since)
        since = began.strftime("%H:%M" if began.date() == datetime.now().date() else "%Y-%m-%d %H:%M")
        mine = holder.uid == os.geteuid()
        who = f"uid {holder.uid}, pid {holder.pid}, since {since}"
        return RunError(
            f"{self.device_id} is being measured by run {holder.run} ({who})",
            hint=f"wait, or: peakmark stop {holder.run}" if mine else "wait, or ask that user to stop it",
        )

    def _holder(self) -> Holder | None:
        """The holder that still runs; what a killed one left behind is not believed."""
        name = self._path.name.removesuffix(".lock")
        found = (_read_holder(path) for path in self._path.parent.glob(f"{name}.*.holder"))
        return next((one for one in found if one and processes.is_alive(one.pid, one.started)), None)


def _prepare(folder: Path) -> None:
    try:
        folder.mkdir()
    except FileExistsError:
        pass
    found = folder.lstat()
    if not modes.S_ISDIR(found.st_mode):
        raise RunError(
            "this must be a folder, not a link or a file",
            where=str(folder),
            hint="remove it, or set PEAKMARK_LOCKS to another folder",
        )
    if found.st_uid == os.geteuid() and modes.S_IMODE(found.st_mode) != FOLDER_MODE:
        folder.chmod(FOLDER_MODE)


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock, or None while somebody else does."""
    while True:
        fd = _open(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        try:
            # A cleaner of temporary files may have removed it in between: then the lock is of a file that no
            # other run will ever find.
            if os.path.samestat(os.fstat(fd), path.lstat()):
                return fd
        except FileNotFoundError:
            pass
        os.close(fd)


def _open(path: Path) -> int:
    # Read only: Linux forbids O_CREAT on a file of somebody else here.  O_NONBLOCK: it may be a FIFO.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        try:
            fd = os.open(path, flags)
            break
        except FileNotFoundError:
            pass
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(fd, 0o644)  # whatever the umask: other users must be able to open it
            break
        except FileExistsError:
            continue
    if not modes.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise RunError("this must be an ordinary file", where=str(path), hint="remove it")
    return fd


def _read_holder(path: Path) -> Holder | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as handle:
        owner = os.fstat(fd).st_uid
        try:
            holder = from_table(Holder, json.loads(handle.read(4096)))
        except (OSError, ValueError, TypeError, ProtocolError):
            return None
    return holder if holder.uid == owner else None
