"""Lines of fields: how the groups of the form are set in a width, the field under the cursor marked.

A field that does not fit in its line goes to the next one, so that the cursor never stands on something unseen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from tui.app.editing import Editing
from tui.app.fields import Field, Group, lookup
from tui.app.lines import at, fit, line
from tui.app.values import shown
from tui.project.model import Spec

VALUE = 13
"""Column of the first value of a line."""
_LEAST = 8
"""Cells below which a text is not cut, but goes to the next line."""


@dataclass(frozen=True, slots=True)
class FormLine:
    """One line of the form."""

    text: Text
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """What decides how the fields are drawn."""

    spec: Spec
    at: str = ""
    """Key of the field under the cursor; "" before the first move."""
    editing: Editing | None = None
    exact: bool = False


def lay(groups: Iterable[Group], width: int, look: Look) -> list[FormLine]:
    """The groups in lines of ``width`` columns."""
    made: list[FormLine] = []
    for group in groups:
        made += _group(group, width, look)
    return made


def _group(group: Group, width: int, look: Look) -> list[FormLine]:
    lines: list[FormLine] = []
    text, held = _begun(group.label), list[Field]()
    for one in group.fields:
        left = width - 1 - text.cell_len
        piece = _piece(one, left, look) if held else _piece(one, width - VALUE - 1, look, first=True)
        if held and piece.cell_len > left:
            lines.append(FormLine(text, tuple(held)))
            text, held = _begun(""), []
            piece = _piece(one, width - VALUE - 1, look, first=True)
        text.append_text(piece)
        held.append(one)
    if group.after and text.cell_len + cell_len(group.after) + 1 <= width:
        text.append(group.after)
    lines.append(FormLine(text, tuple(held)))
    return lines


def _begun(label: str) -> Text:
    return at(at(line(""), 1, fit(label, VALUE - 2), "dim"), VALUE, "")


def _piece(one: Field, room: int, look: Look, *, first: bool = False) -> Text:
    """A field with the words around it, at most ``room`` cells; the first of a line has no comma before it."""
    before = one.before.removeprefix(", ").lstrip() if first else one.before
    text = line(before)
    room -= cell_len(before) + cell_len(one.after)
    room = max(room, _LEAST if one.kind in ("text", "names", "value", "word") else 80 if not first else 4)
    if look.editing is not None and look.editing.field.key == one.key:
        _box(text, look.editing, room)
    else:
        value = fit(shown(one, look.spec, look.exact), room)
        unset = lookup(look.spec, one.key) in (None, "") and one.kind not in ("fold", "pair")
        text.append(value, "cursor" if one.key == look.at else "dim" if unset else None)
    text.append(one.after)
    return text


def _box(text: Text, editing: Editing, room: int) -> None:
    """The editor: the typed text with a cursor that stands still, ``!`` behind it when it may not be so."""
    mark = "!" if editing.fault else ""
    if editing.field.closed:
        shown_text = fit(editing.line.text or editing.field.unset, room - 4)
        text.append("<", "edit").append(shown_text, "caret").append(">", "edit")
    else:
        before, under, after = editing.line.window(room - 2)
        text.append(before, "edit").append(under, "caret").append(after, "edit")
        if editing.line.at < len(editing.line.text):
            text.append(" ", "edit")
    if mark:
        text.append(mark, "amber.strong")


def keys_of(lines: Iterable[FormLine]) -> list[tuple[str, ...]]:
    """The keys of the fields, line by line."""
    return [tuple(one.key for one in row.fields) for row in lines]
