"""Results on their way into a project: kept beside the journals until the project file has them.

A result is written here before the project is saved and removed after; what is left was not saved, because the
disk was full or the process was killed, and is taken in by the next command.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

from tui.errors import ProjectError, SaveError
from tui.project import atomic, save, schema
from tui.project.decode import decode
from tui.project.encode import measured_text
from tui.project.keys import Place
from tui.project.measured import Measured
from tui.project.paths import runs_folder

SUFFIX = ".result.toml"


def put(project: Path, id: str, found: Measured) -> str:
    """Keep ``found`` for ``project``; where it is, such as ``runs/p-1.result.toml``, "" when it cannot be kept."""
    path = _file(id)
    text = f"project = {json.dumps(str(project.resolve()))}\n\n{measured_text(found)}"
    try:
        atomic.put(path, text.encode(errors="replace"))
    except SaveError:
        return ""
    return f"{path.parent.name}/{path.name}"


def drop(id: str) -> None:
    """Forget the result ``id``: the project has it."""
    with suppress(OSError):
        _file(id).unlink(missing_ok=True)


def take_in(project: Path) -> tuple[str, ...]:
    """Save into ``project`` what was measured for it and could not be saved; ids of what was.

    Raises:
        SaveError: it cannot be saved now either; nothing of it is lost.
    """
    name = str(project.resolve())
    files = sorted(runs_folder().glob(f"*{SUFFIX}"))
    waiting = {path: found for path in files if (found := _read(path, name))}
    if not waiting:
        return ()
    save.record(project, lambda measured: merged(measured, *waiting.values()))
    for path in waiting:
        path.unlink(missing_ok=True)
    return tuple(path.name.removesuffix(SUFFIX) for path in waiting)


def merged(measured: Measured, *found: Measured) -> Measured:
    """``measured`` with every table of ``found`` added to its own of that kind."""
    for one in found:
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(Measured):
            value = getattr(one, field.name)
            if isinstance(value, dict) and value:
                changes[field.name] = {**getattr(measured, field.name), **value}
        measured = dataclasses.replace(measured, **changes)
    return measured


def _file(id: str) -> Path:
    return runs_folder() / f"{id}{SUFFIX}"


def _read(path: Path, project: str) -> Measured | None:
    """The results in ``path`` when they are for ``project`` and whole, else None."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        if table.get("project") != project:
            return None
        return decode(Measured, table["measured"], "measured", Place(str(path), {}), schema.MEASURED_RULES)
    except (OSError, ValueError, KeyError, ProjectError):
        return None
