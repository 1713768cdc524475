"""The module tree of one count, which the measuring child wrote beside its journal: too long for a project file.

Elements are logical ones.  A parameter counts in the first module that holds it, in the framework's own order,
so the rows of a level add up to the one above them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.project import beside
from tui.project.paths import state_folder

VERSION = 1


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """One module: ``path`` is "" for the model itself, parts are joined by dots."""

    path: str
    cls: str
    """Name of its class."""
    elements: int
    """Unique parameters of it and everything below it."""
    own: int
    """Of them those that are its own."""
    trainable: int
    bytes: int
    """As they are stored, metadata of packed ones included."""
    tensors: int
    buffers: int
    """Elements of buffers, of it and below it."""
    calls: int | None
    """How often one forward of one micro-batch called it; None: no forward was run."""


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One unique parameter, by its first name."""

    name: str
    shape: tuple[int, ...]
    """The logical one."""
    dtype: str
    elements: int
    bytes: int
    trainable: bool
    received: bool | None
    """Whether a real backward gave it a gradient; None: none was run."""
    also: tuple[str, ...] = ()
    """Its other names."""


@dataclass(frozen=True, slots=True)
class Modules:
    """The whole tree, modules in the framework's order, parents before children."""

    modules: tuple[ModuleRow, ...]
    parameters: tuple[ParameterRow, ...]


def path_of(journal: str) -> Path:
    """The tree's file of a count whose journal is ``runs/<id>.jsonl``."""
    return state_folder() / Path(journal).with_suffix(".modules.json")


def read(path: Path) -> Modules:
    """The tree in ``path``.

    Raises:
        RunError: it is gone, cannot be read, or is not one.
    """
    return beside.read(
        path,
        _decoded,
        what="the module tree",
        of="of the last count",
        again="count again: peakmark params PROJECT",
    )


def _decoded(table: Any) -> Modules:
    if table["version"] != VERSION:
        raise ValueError(table["version"])
    modules = tuple(ModuleRow(*row) for row in table["modules"])
    parameters = tuple(
        ParameterRow(name, tuple(shape), *rest, also=tuple(also))
        for name, shape, *rest, also in table["parameters"]
    )
    return Modules(modules, parameters)
