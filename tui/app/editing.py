"""One field while it is edited: what was typed, and whether the project may be so.  Pure, like the views.

``checked`` is given the project's own rules as a function, so that nothing is written until Enter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tui.app.fields import Field
from tui.app.line_edit import LineEdit
from tui.app.values import changes, text_of
from tui.errors import ProjectError
from tui.project.keys import split

Check = Callable[[Any, Mapping[str, Any]], Any]
"""The project as it would be with some changes; a ProjectError when it may not be so."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The parameter formula of a spec, or why there is none."""

    formula: Any = None
    why: str = ""


Count = Callable[[Any], Counted]


@dataclass(frozen=True, slots=True)
class Editing:
    """The value of ``field`` as it is typed."""

    field: Field
    line: LineEdit
    before: str
    """The text when the edit began."""
    draft: Any = None
    """The project as it would be saved; None while it may not be so."""
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What Enter writes; empty: nothing was changed."""
    fault: str = ""
    """Why Enter is refused."""
    counted: Counted = Counted()
    """Of the draft; of the last valid one while there is none."""

    @property
    def sentence(self) -> str:
        """What the message row says: a fault, or what the formula cannot do with the value."""
        if self.fault:
            return f"! {self.fault}"
        return f"formula n/a: {self.counted.why}" if self.changes and self.counted.why else ""


def begin(one: Field, project: Any, counted: Counted) -> Editing:
    """The edit of a field, nothing typed yet."""
    text = text_of(one, project.spec)
    return Editing(one, LineEdit.of(text), text, project, counted=counted)


def pressed(editing: Editing, key: str, character: str | None) -> Editing | None:
    """The edit after a key; None for a key that means nothing here."""
    if editing.field.closed:
        return _stepped(editing, key, character)
    line = editing.line.pressed(key, character)
    return None if line is None else replace(editing, line=line)


def pasted(editing: Editing, text: str) -> Editing:
    """The edit after a paste; of a closed list only one of its choices is taken."""
    text = text.strip("\r\n")
    if not editing.field.closed:
        return replace(editing, line=editing.line.typed(text))
    return (
        replace(editing, line=LineEdit.of(text.strip())) if text.strip() in choices_of(editing) else editing
    )


def choices_of(editing: Editing) -> tuple[str, ...]:
    """What keys step through; "" is a value that the file leaves out."""
    one = editing.field
    if one.kind != "flag":
        return one.choices
    return ("", "true", "false") if one.argument is not None else ("true", "false")


def _stepped(editing: Editing, key: str, character: str | None) -> Editing | None:
    choices = choices_of(editing)
    here = choices.index(editing.line.text) if editing.line.text in choices else -1
    if key in ("right", "space", "down"):
        chosen = choices[(here + 1) % len(choices)]
    elif key in ("left", "up"):
        chosen = choices[(here - 1) % len(choices)]
    elif key in ("backspace", "delete", "ctrl+u") and "" in choices:
        chosen = ""
    else:
        after = [*choices[here + 1 :], *choices[: here + 1]]
        meant = [one for one in after if character and one.lower().startswith(character.lower())]
        if not meant:
            return None
        chosen = meant[0]
    return replace(editing, line=LineEdit.of(chosen))


def checked(editing: Editing, project: Any, check: Check, count: Count) -> Editing:
    """The edit with its verdict: what is typed is read as the field's kind, then the whole spec is checked.

    Args:
        editing: as typed.
        project: as it is saved now.
        check: the project's own rules.
        count: the formula of a project.
    """
    text = editing.line.text
    unchanged = not text.strip() if editing.field.kind == "pair" else text == editing.before
    try:
        made = {} if unchanged else changes(editing.field, text, project.spec, getattr(project, "lines", {}))
        draft = check(project, made) if made else project
    except ProjectError as error:
        said = f"{error.message}; {error.hint}" if error.hint else error.message
        return replace(editing, draft=None, changes={}, fault=said)
    except ValueError as error:
        return replace(editing, draft=None, changes={}, fault=str(error))
    if draft.spec == project.spec:
        made = {}  # another way to write the same
    return replace(editing, draft=draft, changes=made, fault="", counted=count(draft))


@dataclass(frozen=True, slots=True)
class FormState:
    """What the form shows besides the project itself."""

    counted: Counted = Counted()
    """Of the project as it is saved."""
    editing: Editing | None = None
    old: bool = False
    """The inventory is of another spec than the one that is shown."""
    undo: bool = False
    """Whether the last edit can be taken back."""
    search: LineEdit | None = None
    """What is looked for in the module tree, while it is typed."""

    @property
    def now(self) -> Counted:
        """Of what is shown: the draft while one is edited."""
        return self.editing.counted if self.editing is not None else self.counted


@dataclass(frozen=True, slots=True)
class Undo:
    """How to take the last edit back, as long as the project is what it made of it."""

    spec: Any
    changes: Mapping[str, Any]


def inverse(written: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """The changes that bring back what ``written`` says; tables that only ``changed`` makes go whole.

    Args:
        written: the hand-written part as plain values, before the edit.
        changed: the edit.
    """
    return dict(_before(written, key) for key in changed)


def _before(written: Mapping[str, Any], key: str) -> tuple[str, Any]:
    from tui.project.keys import quote

    passed: list[str] = []
    here: Any = written
    for name in split(key):
        passed.append(quote(name))
        if not isinstance(here, Mapping) or name not in here:
            return ".".join(passed), None
        here = here[name]
    return key, here
