"""What is asked of the what-if form, and what is known of the answer.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tui import units
from tui.budget import what_if
from tui.budget.what_if import Change

if TYPE_CHECKING:
    from tui.app.line_edit import LineEdit
    from tui.budget.what_if_rows import Comparison

OTHER = "another key"
"""The line of the form below the short names."""


@dataclass(frozen=True, slots=True)
class WhatIfState:
    """The form: changes so far, the line that is typed, and the two ledgers side by side."""

    changes: tuple[Change, ...] = ()
    asking: LineEdit | None = None
    """``name=value`` as it is typed; None: nothing is typed."""
    choosing: bool = True
    """The list of what can be changed is open, else the comparison."""
    found: Comparison | None = None
    working: bool = False
    """A child predicts the changed spec."""
    untrusted: bool = False
    """The project's own Python is not allowed here yet: nothing is predicted."""
    fault: str = ""
    """Why a change cannot be, or why there is no comparison."""

    def with_change(self, one: Change) -> WhatIfState:
        """With one more change; of one key the last counts, and a value as it is now is none."""
        kept = tuple(other for other in self.changes if other.key != one.key)
        added = () if one.becomes == one.was else (one,)
        return replace(self, changes=(*kept, *added), asking=None, fault="", choosing=not (kept or added))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the form."""

    name: str
    was: str
    becomes: str
    """"" where it stays."""
    key: str


def form_lines(project: Any, changes: tuple[Change, ...]) -> tuple[Line, ...]:
    """Every short name with its value now, then keys that were changed beside them."""
    becomes = {one.key: one for one in changes}
    lines = [
        _line(name, key, what_if.lookup(project.spec, key), becomes.pop(key, None))
        for name, key in what_if.SHORT.items()
        if key != what_if.LENGTH or project.spec.workload.batch.length is not None
    ]
    lines += [_line(key, key, one.was, one) for key, one in becomes.items()]
    return (*lines, Line(OTHER, "such as workload.optimizer.args.lr=1e-4", "", ""))


def _line(name: str, key: str, was: Any, change: Change | None) -> Line:
    return Line(name, shown(was, key), "" if change is None else shown(change.becomes, key), key)


def shown(value: Any, key: str = "") -> str:
    """A value as it is typed: a text without its quotes, a size with its unit."""
    if key.startswith("budget.") and isinstance(value, int):
        return f"{value // units.MIB} MiB" if value % units.MIB == 0 else f"{value} B"
    return value if isinstance(value, str) else "none" if value in ((), []) else what_if.shown(value)


def typed_at_first(line: Line) -> str:
    """What stands in the line that is typed: the value that holds, ready to be changed."""
    if line.name == OTHER:
        return ""
    value = line.becomes or line.was
    return f"{line.name}={'' if value == what_if.shown(None) else value}"
