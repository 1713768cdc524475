"""What a screen shows, as values: a view makes a ``Page`` of a ``Scene`` and a ``Cursor``.

Pure: no Textual, no files, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tui.app.lines import Piece, ending, fit, line

if TYPE_CHECKING:
    from tui.app.live import Live

STEPS = ("spec", "verify", "ledger", "probe", "precision", "report")
"""The six screens, by the keys 1 to 6."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the user is on one screen."""

    row: int = -1
    """Index among the rows that can be picked; -1 before the first move: none."""
    pane: int = 0
    phase: str | None = None
    """Ledger: the phase that is shown; None: the worst one."""
    chosen: str = ""
    """Probe: the id that was opened; "" for the one of the spec's batch."""
    turned: frozenset[str] = frozenset()
    """Names of folds that are not as they were at first."""
    field: str = ""
    """Spec: the key of the field; "" before the first move, and below the form."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that a view may look at."""

    project: Any = None
    """A loaded project: ``path``, ``spec`` and ``measured``; None on the first-run screen."""
    live: Live | None = None
    marks: Mapping[str, str] = field(default_factory=dict)
    """Mark of each step: one of ``● ○ » ~ ×``."""
    stale: Mapping[str, str] = field(default_factory=dict)
    """Why a step's figures are those of something else; empty when they are not."""
    exact: bool = False
    """Bytes are shown exactly."""
    message: str = ""
    """One sentence for the detail row; goes with the next key."""
    found: str = ""
    """What is running and was left behind by another app; asks to be answered in row 3."""
    preview: tuple[str, ...] = ()
    """The report's Markdown, line by line."""
    form: Any = None
    """Spec: what is typed and counted just now, a ``tui.app.editing.FormState``."""
    tree: Any = None
    """Spec: the module tree that is open, a ``tui.app.tree.Tree``, or a sentence on why there is none."""
    gpu: str = ""
    """The GPU that ``p`` predicts for; "": as the project says."""
    refused: str = ""
    """Why the spec as it is now could not be predicted."""
    spec: str = ""
    """Fingerprint of the spec as it is now; "": it could not be made."""
    timelines: Any = None
    """Ledger: a ``tui.budget.ledger.Timelines`` of what is shown; None while it is read."""
    what_if: Any = None
    """Ledger: the form of changes, a ``tui.app.what_if_state.WhatIfState``."""
    probe: Any = None
    """Probe: what was read from files and its cursors, a ``tui.app.probe_state.ProbeState``."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a live trace: it begins at the row that carries it."""

    name: str
    column: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a page.  ``detail`` stands in the row above the keys while the cursor is on it."""

    line: Text
    pick: bool = False
    detail: Text | None = None
    name: str = ""
    slot: Slot | None = None
    marked: bool = False
    """The line itself shows where the cursor is: the row is not marked as a whole."""


@dataclass(frozen=True, slots=True)
class Section:
    """Rows under a thin rule; without a title there is no rule and the section never folds."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """The answer in row 3, the evidence below it, where it comes from, and the keys that can act."""

    answer: Text
    sections: tuple[Section, ...]
    detail: Text
    keys: tuple[tuple[str, str], ...] = ()
    typing: bool = False
    """Keys go into a text: those that are everywhere do not act now."""
    folds: bool = True
    """Sections that find no room are folded; else all stay open and the cursor moves the page."""
    window: tuple[int, int] | None = None
    """(first, count): the rows that can be picked are those from ``first`` on, of ``count`` that there are."""


def answer(width: int, mark: str, word: str, *said: Piece, right: str = "", good: bool = True) -> Text:
    """Row 3: a badge, then one sentence; ``right`` is set at the right edge when there is room."""
    text = line(" ", (f" {mark} {word} ", "badge" if good else "badge.amber"), " ", *said)
    if right and text.cell_len + len(right) + 2 < width:
        ending(text, width - 1, right, "dim")
    return text


def rows(*lines: Text) -> tuple[Row, ...]:
    """Lines that cannot be picked."""
    return tuple(Row(one) for one in lines)


BLANK = Row(line(""))


def panes(names: tuple[str, ...], chosen: int, width: int) -> Row:
    """The names of the panes, the open one in brackets."""
    text = line("")
    for index, name in enumerate(names):
        shown, role = (f"[{name}]", "strong") if index == chosen else (name, "dim")
        text.append("   " if index else " ").append(shown, role)
    if text.cell_len + 15 < width:
        ending(text, width - 1, "Tab next pane", "dim")
    return Row(text)


def note(value: str, width: int) -> Row:
    """One line of ordinary text, cut to the width."""
    return Row(line(" " + fit(value, width - 2)))
