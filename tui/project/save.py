"""Write a project file: results below the marker line, edits above it, each whole or not at all.

Both take the file's lock, read it again and change their own part.  The other part stays byte for byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tui.errors import ProjectError, SaveError
from tui.project import atomic, marker
from tui.project.edit import changed
from tui.project.encode import measured_text
from tui.project.history import history_lines, history_path, trim
from tui.project.load import Project, parse, read
from tui.project.lock import hold
from tui.project.measured import Measured

TRIES = 3
"""How often a result is added again when an editor saved the file at the same moment."""


def record(path: Path, update: Callable[[Measured], Measured], *, kept_in: str = "") -> Project:
    """Add results: read the file again, give its measured part to ``update``, and save what that returns.

    Args:
        path: the project file.
        update: pure; it is called again when the file changed meanwhile.
        kept_in: where the result is whole if this fails, such as ``runs/p-20261201T141203-a3.jsonl``.

    Raises:
        SaveError: the file could not be read, locked or written; it is unchanged.
    """
    with hold(path):
        for _ in range(TRIES - 1):
            try:
                return _record_once(path, update, kept_in)
            except atomic.ChangedOnDisk:
                continue
        return _record_once(path, update, kept_in)


def edit(path: Path, changes: Mapping[str, Any], *, seen: Project | None = None) -> Project:
    """Change keys of the hand-written part; comments, order and layout stay.

    Args:
        path: the project file.
        changes: values by dotted key (``workload.batch.micro``); None deletes the key.
        seen: the project as the person who edits saw it; the edit is refused when its hand-written part is
            not that of the file any more.

    Raises:
        ProjectError: the change would make the project invalid, or a key is not one; nothing was written.
        SaveError: it could not be written, or the file changed on disk (ChangedOnDisk); it is unchanged.
    """
    name = str(path)
    with hold(path):
        raw = read(path)
        parts = marker.divide(parse(path, raw).text, name)
        if seen is not None and marker.divide(seen.text, name).user.rstrip() != parts.user.rstrip():
            message = f"{path} changed on disk since it was read; not overwritten"
            raise atomic.ChangedOnDisk(message, hint="read it again")
        user = changed(parts.user, changes, name).encode(errors="replace")
        after = user + raw[len(parts.user.encode()) :]
        project = parse(path, after)
        if after != raw:
            atomic.replace(path.resolve(), raw, after, shown=path)
        return project


def create(path: Path, text: str) -> Project:
    """Write a new project file.

    Raises:
        ProjectError: it exists already, or ``text`` is not a valid project.
        SaveError: it could not be written; nothing of it is left.
    """
    project = parse(path, text.encode())
    try:
        atomic.create(path, text.encode())
    except FileExistsError:
        hint = "choose another name, or delete it first"
        raise ProjectError("exists already and was not overwritten", where=str(path), hint=hint) from None
    return project


def _record_once(path: Path, update: Callable[[Measured], Measured], kept_in: str) -> Project:
    try:
        raw = read(path)
        project = parse(path, raw)
    except ProjectError as error:
        raise _unsaved(path, error, kept_in) from error
    kept, leaving = trim(update(project.measured))
    parts = marker.divide(project.text, str(path))
    text = measured_text(kept)
    if not text and not parts.marked:
        return project
    after = marker.assemble(parts, text).encode()
    try:
        saved = parse(path, after)
    except ProjectError as error:
        raise _unsaved(path, error, kept_in) from error
    if after != raw:
        real = path.resolve()
        with _moved(history_path(real), history_lines(leaving), path, kept_in):
            atomic.replace(real, raw, after, shown=path, kept_in=kept_in)
    return saved


@contextmanager
def _moved(history: Path, lines: bytes, path: Path, kept_in: str) -> Generator[None]:
    """Append ``lines`` to the history first, so that none is in neither file; undo it when the rest fails."""
    if not lines:
        yield
        return
    with atomic.saving(path, history.parent, kept_in):
        size = atomic.append(history, lines)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.truncate(history, size)
        raise


def _unsaved(path: Path, error: ProjectError, kept_in: str) -> SaveError:
    hint = f"it is unchanged, the result is whole in {kept_in}" if kept_in else "it is unchanged"
    return SaveError(f"{path} could not be saved: {error.sentence()}", hint=hint)
