"""Lays a page out on the terminal: step strip, rule, answer, evidence, detail, keys.

Rows that do not fit are folded from the bottom, section by section, each leaving its title; the section that
holds the cursor stays open.  Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.text import Text

from tui.app.lines import at, cut, ending, fit, line, rule, wrap
from tui.app.page import STEPS, Cursor, Page, Row, Scene, Slot

LEAST = (60, 16)
"""Columns and rows below which nothing but a sentence is shown."""
_ABOVE, _BELOW = 3, 2
MESSAGE_MOST = 4
"""Rows that a message has at most."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A page laid out: every line of the terminal, and where the cursor and the traces are."""

    lines: tuple[Text, ...]
    cursor: Cursor
    """The cursor, moved to the nearest row that exists."""
    cursor_y: int | None = None
    picked: Row | None = None
    picks: int = 0
    """How many rows can be picked."""
    slots: tuple[tuple[int, Slot], ...] = ()


def place(
    page: Page,
    scene: Scene,
    step: str,
    width: int,
    height: int,
    cursor: Cursor,
    *,
    head: tuple[Text, Text] | None = None,
) -> Placed:
    """Lay ``page`` out for a terminal of ``width`` x ``height`` cells; ``head`` stands in place of the steps."""
    if width < LEAST[0] or height < LEAST[1]:
        return Placed(too_small(width, height), cursor)
    picks = [row for section in page.sections for row in section.rows if row.pick]
    first, count = page.window or (0, len(picks))
    cursor = replace(cursor, row=max(-1, min(cursor.row, count - 1)))
    picked = picks[cursor.row - first] if 0 <= cursor.row - first < len(picks) else None
    below = message_lines(scene.message, width) or [cut(_detail(page, picked), width)]
    free = height - 1 - len(below)  # a message of several rows lies over the lowest of the body
    body = _arrange(page, height - _ABOVE - _BELOW, width, picked)
    if page.typing and any(row is picked for row in body[free - _ABOVE :]):  # never over what is typed
        body = _arrange(page, free - _ABOVE, width, picked)
    lines = [*(head or strip(scene, step, width)), _answer(page, scene, width)]
    lines += [cut(row.line, width) for row in body]
    lines += [line("")] * (height - _BELOW - len(lines))
    lines = [*lines[:free], *below, footer(page.keys, width, typing=page.typing)]
    y = next((at for at, row in enumerate(body, _ABOVE) if row is picked and at < free), None)
    slots = tuple(
        (y, row.slot) for y, row in enumerate(body, _ABOVE) if row.slot and y + row.slot.height <= free
    )
    return Placed(tuple(lines), cursor, y, picked, count, slots)


def too_small(width: int, height: int) -> tuple[Text, ...]:
    """What stands on a terminal that is too small for anything else."""
    said = f"peakmark needs {LEAST[0]} x {LEAST[1]}, this is {width} x {height}: enlarge"
    said_lines = [said[start : start + max(1, width)] for start in range(0, len(said), max(1, width))]
    lines = [line(one) for one in said_lines[:height]]
    return tuple(lines + [line("")] * (height - len(lines)))


def strip(scene: Scene, step: str, width: int) -> tuple[Text, Text]:
    """Rows 1 and 2: the six steps with their marks, and the rule that is heavy under the open one."""
    names = width >= 78
    text, under, start = line(" "), "", 0
    for number, name in enumerate(STEPS, 1):
        mark = scene.marks.get(name, "○")
        here = name == step
        begin = text.cell_len
        text.append(f"{number} ", "strong" if here else None)
        text.append(mark, _mark_role(mark, here))
        if names or here:
            text.append(f" {name.capitalize()}", "strong" if here else None)
        if here:
            start, under = begin - 1, "━" * (text.cell_len - begin + 2)
        text.append("   " if number < len(STEPS) else "")
    title = scene.project.spec.title if scene.project else ""
    room = width - text.cell_len - 4
    if width > 80 and title and room > 8:
        ending(text, width - 1, fit(title, room), "dim")
    return cut(text, width), line(
        ("─" * start, "dim"), (under, "water"), ("─" * max(0, width - start - len(under)), "dim")
    )


def _mark_role(mark: str, here: bool) -> str:
    if mark in "~×":
        return "amber"
    return "water" if mark == "»" else "strong" if here else "dim"


def _answer(page: Page, scene: Scene, width: int) -> Text:
    if not scene.found:
        return cut(page.answer, width)
    text = line(" ", (" » FOUND ", "badge"), " a run left behind: ")
    keys = "Enter watch  x stop  Esc later"
    text.append(fit(scene.found, max(8, width - text.cell_len - len(keys) - 4)))
    return cut(ending(text, width - 1, keys, "strong"), width)


def message_lines(message: str, width: int) -> list[Text]:
    """The message in as many rows as it needs, at most ``MESSAGE_MOST``; none when there is none."""
    rows = wrap(message, width - 2) if message else []
    if len(rows) > MESSAGE_MOST:
        rows = [*rows[: MESSAGE_MOST - 1], fit(" ".join(rows[MESSAGE_MOST - 1 :]), width - 2)]
    return [line(" " + row) for row in rows]


def _detail(page: Page, picked: Row | None) -> Text:
    if picked is not None and picked.detail is not None:
        return picked.detail
    return page.detail


def footer(keys: tuple[tuple[str, str], ...], width: int, *, typing: bool = False) -> Text:
    """The last row: at most five keys of the screen at 80 columns, then the three that are everywhere.

    They are left out while keys go into a text.
    """
    last = () if typing else ((":", "all"), ("?", "help"), ("q", "quit"))
    tail = sum(len(key) + len(label) + 1 for key, label in last) + 4
    text = line("")
    for key, label in keys if width > 80 else keys[:5]:
        if text.cell_len + len(key) + len(label) + 3 + tail + 2 > width:
            break
        at(text, text.cell_len + 2 if text.cell_len else 1, key, "strong").append(f" {label}")
    at(text, width - 1 - tail, "")
    for index, (key, label) in enumerate(last):
        text.append("  " if index else "")
        text.append(key, "strong").append(f" {label}")
    return text


def _arrange(page: Page, room: int, width: int, picked: Row | None) -> list[Row]:
    """The rows of the sections that fit in ``room``, the picked one among them."""
    sections, folded = page.sections, set[int]()
    total = sum(len(one.rows) + bool(one.title) for one in sections)
    for index in reversed(range(len(sections)) if page.folds else range(0)):
        section = sections[index]
        if total <= room:
            break
        if section.title and not any(row is picked for row in section.rows):
            folded.add(index)
            total -= len(section.rows)
    spare = room - total
    shown: list[Row] = []
    for index, section in enumerate(sections):
        rows = section.rows
        if index in folded:
            rows, spare = rows[: max(0, spare)], spare - len(rows)
        if section.title:
            left = len(section.rows) - len(rows)
            more = f", {left} line{'s' if left > 1 else ''} folded" if left else ""
            shown.append(Row(rule(fit(section.title + more, width - 6), width)))
        shown.extend(rows)
    return _window(shown, room, width, picked)


def _window(shown: list[Row], room: int, width: int, picked: Row | None) -> list[Row]:
    if len(shown) <= room:
        return shown
    here = next((index for index, row in enumerate(shown) if row is picked), 0)
    first = max(0, min(here - room // 2, len(shown) - room)) if here >= room - 1 else 0
    window = shown[first : first + room]
    below = len(shown) - first - room
    if below > 0 and window[-1] is not picked:
        window[-1] = Row(line((f" {below + 1} more lines below: enlarge, or move down", "dim")))
    return window
