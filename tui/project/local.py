"""What belongs to one machine: ``NAME.local.toml`` beside ``NAME.toml``, never committed with it."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tui.errors import ProjectError
from tui.project.decode import Rules, decode
from tui.project.keys import Place
from tui.project.model import EnvironmentSpec

KEYS = ("python", "launch")


@dataclasses.dataclass(frozen=True, slots=True)
class _Environment:
    python: str | None = None
    launch: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Local:
    environment: _Environment = _Environment()


def local_path(path: Path) -> Path:
    """``gpt.local.toml`` for ``gpt.toml``."""
    return path.with_name(f"{path.stem}.local.toml")


def refuse_in_shared(table: Mapping[str, Any], path: Path, place: Place) -> None:
    """Refuse the keys of one machine in the file that is shared.

    Raises:
        ProjectError: ``environment.python`` or ``environment.launch`` stands in the project file.
    """
    environment = table.get("environment")
    for name in KEYS:
        if isinstance(environment, dict) and name in environment:
            raise ProjectError(
                f"environment.{name} belongs to this machine alone",
                where=place.at(f"environment.{name}"),
                hint=f"move it to [environment] in {local_path(path).name}",
            )


def merge(environment: EnvironmentSpec, table: Mapping[str, Any], place: Place) -> EnvironmentSpec:
    """``environment`` with the machine's own keys from the local file's ``table``.

    Raises:
        ProjectError: another key than those, a value of another type, or an empty or unbalanced one.
    """
    advice = {"device": "environment.device in the project file"}
    local = decode(_Local, table, "", place, Rules(elsewhere=advice)).environment
    for name in KEYS:
        value = getattr(local, name)
        if value is not None and not value.strip():
            raise ProjectError(
                f"environment.{name} is empty", where=place.at(f"environment.{name}"), hint="delete the line"
            )
    try:
        shlex.split(local.launch or "")
    except ValueError as error:
        raise ProjectError(
            f"environment.launch cannot be split into arguments: {str(error).lower()}",
            where=place.at("environment.launch"),
            hint="close the quotation marks in it",
        ) from error
    return dataclasses.replace(environment, python=local.python, launch=local.launch)
