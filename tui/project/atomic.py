"""Put bytes into a file whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tui.errors import SaveError


class ChangedOnDisk(SaveError):
    """Somebody else saved the file since it was read; it was not overwritten."""


def replace(path: Path, before: bytes, after: bytes, *, shown: Path, kept_in: str = "") -> None:
    """Replace the content of ``path``, a real path, from ``before`` to ``after``; mode and owner are kept.

    Args:
        path: the file, symbolic links resolved: the link stays a link.
        before: what the change was made from.
        after: the new content.
        shown: the file as the user named it.
        kept_in: where the result is whole if this fails, for the sentence.

    Raises:
        ChangedOnDisk: the file is no longer ``before``.
        SaveError: no space or no permission; the file is unchanged.
    """
    with saving(shown, path.parent, kept_in):
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "the file is read-only", str(path))
        with _beside(path) as temporary:
            _write_new(temporary, after, os.stat(path))
            if path.read_bytes() != before:
                raise ChangedOnDisk(
                    f"{shown} changed on disk since it was read; not overwritten",
                    hint=f"the result is in {kept_in}: run again to take both"
                    if kept_in
                    else "read it again",
                )


def put(path: Path, content: bytes) -> None:
    """Write a file of peakmark's own, readable by its user alone, whatever was there before.

    Raises:
        SaveError: it could not be written; what was there is unchanged.
    """
    with saving(path, path.parent), _beside(path) as temporary:
        _write_new(temporary, content)


def write(path: Path, content: bytes) -> None:
    """Write a file of the user's, new or in place of the one there, whose mode and owner are kept.

    Raises:
        SaveError: it could not be written; what was there is unchanged.
    """
    real = path.resolve()
    with saving(path, real.parent), suppress(FileExistsError):
        if not real.exists():
            create(real, content)
            return
    with saving(path, real.parent), _beside(real) as temporary:
        _write_new(temporary, content, os.stat(real))


@contextmanager
def _beside(path: Path) -> Generator[Path]:
    """A name beside ``path`` to write to; it becomes ``path`` at the end, or is removed on failure."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def create(path: Path, content: bytes) -> None:
    """Write a file that must not exist yet.

    Raises:
        FileExistsError: it does.
        SaveError: it could not be written; nothing of it is left.
    """
    with saving(path, path.parent, lost="it was not created"):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            _write(handle, content)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(handle)
    _sync_folder(path.parent)


def append(path: Path, content: bytes) -> int:
    """Append to ``path``, made when needed, and sync it; what was there stays whole when that fails.

    Returns:
        Its size in bytes before, for ``os.truncate`` when what it belongs to fails.

    Raises:
        OSError: it could not be written.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        size = os.fstat(handle).st_size
        try:
            _write(handle, content)
        except BaseException:
            os.ftruncate(handle, size)
            raise
        return size
    finally:
        os.close(handle)


@contextmanager
def saving(shown: Path, folder: Path, kept_in: str = "", lost: str = "it is unchanged") -> Generator[None]:
    """Turn an operating system's refusal into the sentence that says what became of the file and the result.

    Raises:
        SaveError: instead of every OSError but FileExistsError.
    """
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise refusal(error, shown, folder, kept_in, lost) from error


def refusal(
    error: OSError, shown: Path, folder: Path, kept_in: str = "", lost: str = "it is unchanged"
) -> SaveError:
    """The sentence for ``error``; see ``saving``."""
    hint = (
        f"{lost}, the result is whole in {kept_in} and is taken in by the next command" if kept_in else lost
    )
    return SaveError(f"{shown} could not be saved: {_reason(error, folder)}", hint=hint)


def _reason(error: OSError, folder: Path) -> str:
    said = {
        errno.ENOSPC: f"no space left on {_mount(folder)}",
        errno.EDQUOT: f"your quota on {_mount(folder)} is used up",
        errno.EROFS: f"{_mount(folder)} is read-only",
        errno.EFBIG: "it would be larger than the limit on file sizes (ulimit -f)",
        errno.ENOENT: f"there is no folder {folder}",
    }
    if error.errno in (errno.EACCES, errno.EPERM):
        said_here = error.strerror or ""
        return said_here if said_here.startswith("the file") else f"no permission to write in {folder}"
    return said.get(error.errno or 0, (error.strerror or str(error)).lower())


def _mount(folder: Path) -> Path:
    folder = folder.absolute()
    while not os.path.ismount(folder) and folder != folder.parent:
        folder = folder.parent
    return folder


def _write_new(path: Path, content: bytes, like: os.stat_result | None = None) -> None:
    """Write a new file with the owner and mode of ``like``, else for its user alone."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if like is not None:
            with suppress(PermissionError):
                os.fchown(handle, like.st_uid, like.st_gid)
            os.fchmod(handle, like.st_mode & 0o7777)  # after the owner: changing that clears set-id bits
        _write(handle, content)
    finally:
        os.close(handle)


def _write(handle: int, content: bytes) -> None:
    left = memoryview(content)
    while left:  # a full disk takes a part first and refuses the rest
        left = left[os.write(handle, left) :]
    os.fsync(handle)


def _sync_folder(folder: Path) -> None:
    """Make the new name last; some file systems cannot, and the content is safe without."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
