"""Predictions that were only asked for, kept in the state folder so that asking again is instant.

A damaged or missing file is a prediction that has to be made again, never an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomli_w

from tui import __version__
from tui.engine.context import interpreter
from tui.errors import PeakmarkError
from tui.project import atomic
from tui.project.decode import decode
from tui.project.encode import to_table
from tui.project.keys import Place
from tui.project.load import Project
from tui.project.paths import state_folder
from tui.project.prediction import Prediction
from tui.project.schema import MEASURED_RULES

MOST = 200
"""Files that are kept; the oldest leave first."""


def key(project: Project, spec: str, asked: Mapping[str, Any]) -> str:
    """The name of a prediction: of the spec, the device, this version, and the torch that would make it.

    Args:
        project: whose interpreter traces.
        spec: its fingerprint, which the batch and the length are part of.
        asked: what else the child is told, which decides the figures: device, allocator, budget.
    """
    python = Path(interpreter(project))
    parts = [__version__, spec, asked, str(python), _torch_of(python)]
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:24]


def get(key: str) -> Prediction | None:
    """The prediction of that name; None: there is none that can be read."""
    try:
        table = tomllib.loads(_file(key).read_text())
        return decode(Prediction, table, "", Place(str(_file(key)), {}), MEASURED_RULES)
    except (OSError, ValueError, PeakmarkError):
        return None


def put(key: str, found: Prediction) -> None:
    """Keep it; where it cannot be written it is made again next time."""
    with suppress(OSError, PeakmarkError):
        file = _file(key)
        file.parent.mkdir(mode=0o700, exist_ok=True)
        atomic.put(file, tomli_w.dumps(to_table(found)).encode(errors="replace"))
        kept = sorted(file.parent.glob("*.toml"), key=lambda one: one.stat().st_mtime)
        for old in kept[:-MOST]:
            old.unlink()


def _file(key: str) -> Path:
    return state_folder() / "what-if" / f"{key}.toml"


def _torch_of(python: Path) -> str:
    """A stamp of the torch beside an interpreter; "" where it is kept somewhere else.

    The interpreter's own path decides, not where a link of it leads: an environment is links to another's Python.
    """
    if not python.is_absolute():
        return ""
    found: list[str] = []
    for file in sorted(python.parent.parent.glob("lib/python3*/site-packages/torch/version.py")):
        with suppress(OSError):
            found.append(f"{file}:{os.stat(file).st_mtime_ns}")
    return " ".join(found)
