"""What a project would run of its own, and whether this user has allowed exactly that.

Answers are kept in the user's state folder, never in the project, and lapse when any of it changes.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.errors import ProjectError
from tui.project import atomic
from tui.project.check_workload import scheduler_names
from tui.project.fingerprint import file_sha256, source_file
from tui.project.load import Project
from tui.project.lock import hold
from tui.project.paths import state_folder

TORCH = re.compile(r"torch\.optim[.:].+")
"""Optimizers and schedulers that come with torch; every other class is somebody's code."""


@dataclass(frozen=True, slots=True)
class Runs:
    """One thing that a project would run."""

    key: str
    """The dotted key that names it."""
    text: str
    """What stands there."""
    sha256: str
    """Of the file it names, in hex; of the text itself when it names none."""
    is_python: bool = True

    def mark(self) -> str:
        """What the user's answer is about."""
        return f"{self.sha256} {self.text}"


def what_runs(project: Project) -> tuple[Runs, ...]:
    """Everything of the project's own that a measurement would run; () for a family with what torch has.

    Raises:
        ProjectError: a workload file is missing or cannot be read.
    """
    workload, environment = project.spec.workload, project.spec.environment
    found = list[Runs]()
    named = source_file(project)
    if named is not None and named.suffix == ".py":
        found.append(Runs("workload.source", workload.source, file_sha256(named, project, "workload.source")))
    for key, name in (("workload.optimizer.name", workload.optimizer.name), *scheduler_names(workload)):
        if not TORCH.fullmatch(name):
            found.append(_class(project, key, name))
    if environment.python is not None:
        files = [project.folder / Path(environment.python).expanduser()]
        found.append(_named(project, "environment.python", environment.python, files, is_python=False))
    if environment.launch is not None:
        files = [project.folder / word for word in shlex.split(environment.launch) if "/" in word]
        found.append(_named(project, "environment.launch", environment.launch, files, is_python=False))
    return tuple(found)


def is_allowed(project: Project) -> bool:
    """Whether the user has allowed all that the project runs now; True when it runs nothing of its own.

    Raises:
        ProjectError: see ``what_runs``.
    """
    return not _unknown(project)


def allow(project: Project) -> None:
    """Keep the user's answer that all of ``what_runs`` may run.

    Raises:
        ProjectError: see ``what_runs``.
        SaveError: the answer could not be written.
    """
    marks = {one.key: one.mark() for one in what_runs(project)}
    file = _file()
    with hold(file):
        answers = _answers() | {_name(project): marks}
        atomic.put(file, json.dumps({"schema": 1, "allowed": answers}, indent=1, sort_keys=True).encode())


def require(project: Project, trusted: bool) -> None:
    """Refuse to go on with something of the project's own that nobody has allowed.

    Args:
        project: what would be run.
        trusted: the user has said so for this command; nothing is kept, see ``allow``.

    Raises:
        ProjectError: something would run that is not allowed, or its file is missing.
    """
    unknown = _unknown(project)
    if unknown and not trusted:
        first = unknown[0]
        what = "Python" if first.is_python else "a program"
        raise ProjectError(
            f"{first.key} is {what} you have not allowed here ({first.text}, sha256 {first.sha256[:4]}…)",
            where=project.at(first.key),
            hint="read it, then add --trust",
        )


def _unknown(project: Project) -> list[Runs]:
    runs = what_runs(project)
    kept = _answers().get(_name(project), {}) if runs else {}
    return [one for one in runs if kept.get(one.key) != one.mark()]


def _class(project: Project, key: str, name: str) -> Runs:
    """The class ``name``: the files of its module in the project's folder, and those of the packages around it."""
    module = name.partition(":")[0] if ":" in name else name.rpartition(".")[0]
    path, files = project.folder, list[Path]()
    for part in module.split("."):
        path = path / part
        files.append(path / "__init__.py")
    return _named(project, key, name, [*files, path.with_suffix(".py")])


def _named(project: Project, key: str, text: str, files: list[Path], is_python: bool = True) -> Runs:
    """What ``key`` runs; its hash is over the text and those of ``files`` that exist."""
    found = [file_sha256(one, project, key) for one in files if one.is_file()]
    if len(found) == 1:
        return Runs(key, text, found[0], is_python)
    return Runs(
        key, text, hashlib.sha256("\0".join([text, *found]).encode(errors="replace")).hexdigest(), is_python
    )


def _file() -> Path:
    return state_folder() / "trust.json"


def _name(project: Project) -> str:
    return str(project.path.resolve())


def _answers() -> dict[str, dict[str, str]]:
    """Marks by key by project; a missing or damaged file allows nothing."""
    try:
        kept: Any = json.loads(_file().read_bytes())["allowed"]
        return {str(name): dict(marks) for name, marks in kept.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
