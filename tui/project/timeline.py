"""The storages of one iteration, which the traced child wrote beside its journal: too long for a project file.

Events are the births and deaths of the steady iteration, numbered from 0; the making of a batch and everything
else between two phases is one event.  The storages alive after an event add up to ``requested`` at that instant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.probe.protocol import REQUESTED_ROWS
from tui.project import beside
from tui.project.paths import state_folder

VERSION = 1
_STORAGES = '"storages":[['
_AT_ONCE = 1 << 16
"""Characters of storages that are parsed at once."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of the iteration: its events are ``first`` to ``last`` exclusive."""

    name: str
    """forward, backward or step."""
    micro: int | None
    """Micro-batch, None in a step."""
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Storage:
    """One block that was asked of the allocator; "" is unknown."""

    born: int
    """Event; -1: alive before the iteration."""
    died: int | None
    """Event; None: alive after the iteration."""
    bytes: int
    """Requested."""
    row: str
    """One of protocol.REQUESTED_ROWS."""
    module: str
    """Path of the module that it belongs to or was made in; the class's name for the model itself."""
    operator: str
    """What made it, without its library: "mm"."""
    shape: str
    """Of the tensor that it was made for: "8x128x768"."""
    dtype: str

    def lives(self, event: int) -> bool:
        """Whether it is alive after ``event`` (-1: before the first one)."""
        return self.born <= event and (self.died is None or self.died > event)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Phases in order, the number of events, and every storage that was alive in a phase, by birth."""

    phases: tuple[Phase, ...]
    events: int
    storages: tuple[Storage, ...]


def path_of(journal: str) -> Path:
    """The file of ``Probe.timeline``, or that of a traced run whose journal is ``runs/<id>.jsonl``."""
    name = (
        journal if journal.endswith(".timeline.json") else journal.removesuffix(".jsonl") + ".timeline.json"
    )
    return state_folder() / name


def read(path: Path) -> Timeline:
    """The timeline in ``path``.

    Raises:
        RunError: it is gone, cannot be read, or is not one.
    """
    return beside.read(
        path,
        _decoded,
        what="the timeline",
        of="of this measurement",
        again="measure again: peakmark probe PROJECT",
        parse=_parsed,
    )


def _parsed(text: str) -> Any:
    """The JSON in ``text``, its storages a few at a time: one call for all would hold up every other thread."""
    head, found, rest = text.partition(_STORAGES)
    rows = rest.rstrip().removesuffix("]]}")
    if not found or len(rows) == len(rest.rstrip()):
        return json.loads(text)
    table = json.loads(f"{head}{_STORAGES}]]}}")
    table["storages"] = _rows(rows)
    return table


def _rows(text: str) -> Iterator[list[Any]]:
    """The rows of ``[..],[..]``, the first and the last bracket left out."""
    begin = 0
    while begin < len(text):
        end = text.find("],[", begin + _AT_ONCE)
        end = len(text) if end < 0 else end
        yield from json.loads(f"[[{text[begin:end]}]]")
        begin = end + len("],[")


def _decoded(table: Any) -> Timeline:
    if table["version"] != VERSION:
        raise ValueError(table["version"])
    strings: list[str] = table["strings"]
    rows: Iterable[list[Any]] = table["storages"]
    events = int(table["events"])
    phases = tuple(Phase(*row) for row in table["phases"])
    storages = tuple(_storage(row, strings) for row in rows)
    for one in storages:
        if one.row not in REQUESTED_ROWS or not -1 <= one.born < max(1, events) or one.bytes < 0:
            raise ValueError(one)
    return Timeline(phases, events, storages)


def _storage(row: list[Any], strings: list[str]) -> Storage:
    named: list[str] = [strings[one] for one in row[3:]]
    kind, module, operator, shape, dtype = named
    return Storage(row[0], row[1], row[2], kind, module, operator, shape, dtype)
