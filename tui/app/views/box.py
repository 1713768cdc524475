"""A box with a title: the only frame there is, for what lies over a screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from tui.app.lines import fit, line


def box(title: str, body: Sequence[str], foot: str, width: int) -> list[Text]:
    """``body`` in a box of ``width`` columns; ``foot`` names the keys."""
    inside = width - 4
    head = fit(title, width - 6)
    made = [line(("┌─ ", "dim"), (head, "strong"), (" " + "─" * (width - 5 - cell_len(head)) + "┐", "dim"))]
    for one in body:
        shown = fit(one, inside)
        made.append(line(("│ ", "dim"), shown + " " * (inside - cell_len(shown)), (" │", "dim")))
    made.append(line(("├" + "─" * (width - 2) + "┤", "dim")))
    shown = fit(foot, inside)
    made.append(line(("│ ", "dim"), (shown + " " * (inside - cell_len(shown)), "strong"), (" │", "dim")))
    made.append(line(("└" + "─" * (width - 2) + "┘", "dim")))
    return made
