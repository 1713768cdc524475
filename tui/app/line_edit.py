"""A line of text that is being typed, as a value: every key makes another one.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len

from tui.app.glyphs import clean

LONGEST = 4000
"""Characters: a value in a project file is one line."""


@dataclass(frozen=True, slots=True)
class LineEdit:
    """The text, and the place in it before which the next character goes."""

    text: str = ""
    at: int = 0

    @classmethod
    def of(cls, text: str) -> LineEdit:
        """``text`` with the cursor at its end."""
        return cls(text, len(text))

    def pressed(self, key: str, character: str | None) -> LineEdit | None:
        """The line after a key, named as Textual names it; None for a key that is not one of a line."""
        moved = _MOVES.get(key)
        if moved is not None:
            return moved(self)
        if character is not None and len(character) == 1 and character.isprintable():
            return self.typed(character)
        return None

    def typed(self, text: str) -> LineEdit:
        """The line with ``text`` put in at the cursor, without control characters: typed or pasted."""
        text = clean(text)[: max(0, LONGEST - len(self.text))]
        return LineEdit(self.text[: self.at] + text + self.text[self.at :], self.at + len(text))

    def window(self, room: int) -> tuple[str, str, str]:
        """(before, under, after) the cursor, together at most ``room`` cells; the cursor is always among them."""
        under = self.text[self.at : self.at + 1] or " "
        left, right = self.text[: self.at], self.text[self.at + 1 :]
        room = max(0, room - cell_len(under))
        while cell_len(left) > room:
            left = left[1:]
        while cell_len(left) + cell_len(right) > room:
            right = right[:-1]
        return left, under, right


def _left(line: LineEdit) -> LineEdit:
    return LineEdit(line.text, max(0, line.at - 1))


def _right(line: LineEdit) -> LineEdit:
    return LineEdit(line.text, min(len(line.text), line.at + 1))


def _home(line: LineEdit) -> LineEdit:
    return LineEdit(line.text, 0)


def _end(line: LineEdit) -> LineEdit:
    return LineEdit.of(line.text)


def _backspace(line: LineEdit) -> LineEdit:
    before = max(0, line.at - 1)
    return LineEdit(line.text[:before] + line.text[line.at :], before)


def _delete(line: LineEdit) -> LineEdit:
    return LineEdit(line.text[: line.at] + line.text[line.at + 1 :], line.at)


def _to_start(line: LineEdit) -> LineEdit:
    return LineEdit(line.text[line.at :], 0)


def _to_end(line: LineEdit) -> LineEdit:
    return LineEdit.of(line.text[: line.at])


def _word(line: LineEdit) -> LineEdit:
    left = line.text[: line.at].rstrip()
    kept = left[: max(left.rfind(" "), left.rfind(",")) + 1]
    return LineEdit(kept + line.text[line.at :], len(kept))


_MOVES = {
    "left": _left,
    "right": _right,
    "home": _home,
    "ctrl+a": _home,
    "end": _end,
    "ctrl+e": _end,
    "backspace": _backspace,
    "delete": _delete,
    "ctrl+d": _delete,
    "ctrl+u": _to_start,
    "ctrl+k": _to_end,
    "ctrl+w": _word,
}
