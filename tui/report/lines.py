"""Fit text into a terminal's width: clean, clip, wrap, align.

Widths are terminal columns; East Asian wide characters take two.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_ASCII = str.maketrans(
    {
        "·": "|",
        "█": "#",
        "▒": "=",
        "░": "%",
        "─": "-",
        "━": "=",
        "×": "x",
        "●": "o",
        "○": ".",
        "»": ">",
        "…": "~",
        "≥": ">",
        "►": "+",
        "▼": "-",
        "±": "~",
        "’": "'",
        "“": '"',
        "”": '"',
        "–": "-",
        "—": "-",
    }
)


def to_ascii(text: str) -> str:
    """``text`` in ASCII alone, as wide as before where one column had one character.

    >>> to_ascii("8 × 4 · naïve ██▒ €")
    '8 x 4 | naive ##= ?'
    """
    plain = unicodedata.normalize("NFKD", text.translate(_ASCII))
    kept = (char for char in plain if not unicodedata.combining(char))
    return "".join(char if char.isascii() else "?" for char in kept)


def clean(text: str) -> str:
    """Text from outside on one line: control characters, which could move the cursor, become spaces.

    >>> clean("a\\x1b[31mb\\nc")
    'a [31mb c'
    """
    return "".join(char if char.isprintable() else " " for char in text)


def columns(text: str) -> int:
    """How many terminal columns ``text`` takes.

    >>> columns("ab"), columns("日本")
    (2, 4)
    """
    return sum(_width(char) for char in text)


def clip(text: str, width: int) -> str:
    """``text`` in at most ``width`` columns; what was cut ends in ``…``.

    >>> clip("transformer", 6)
    'trans…'
    """
    if columns(text) <= width:
        return text
    kept, used = "", 0
    for char in text:
        used += _width(char)
        if used > width - 1:
            break
        kept += char
    return kept.rstrip() + "…"


def wrap(text: str, width: int, indent: int = 0, first: str = "") -> list[str]:
    """``text`` in lines of at most ``width`` columns; the first begins with ``first``, others with blanks.

    A word that is longer than a line, such as a path, goes on in the next one.

    >>> wrap("one two threefour", 8, 4, "key ")
    ['key one', '    two', '    thre', '    efou', '    r']
    """
    room = " " * indent
    lines: list[str] = []
    line, empty = first.ljust(indent), True
    for word in clean(text).split():
        if not empty and columns(line) + 1 + columns(word) > width:
            lines.append(line)
            line, empty = room, True
        *full, rest = _pieces(word, max(1, width - columns(line) - (not empty)))
        for piece in full:
            lines.append(line + piece)
            line, empty = room, True
        line += rest if empty else " " + rest
        empty = False
    return [*lines, line.rstrip()]


def _pieces(word: str, width: int) -> list[str]:
    """``word`` in pieces of at most ``width`` columns; one piece when it fits."""
    pieces = [""]
    for char in word:
        if columns(pieces[-1] + char) > width and pieces[-1]:
            pieces.append("")
        pieces[-1] += char
    return pieces


def labelled(label: str, text: str, indent: int, width: int) -> list[str]:
    """A label and its text, which goes on below itself.

    >>> labelled("rate", "270.3 samples/s", 10, 80)
    ['rate      270.3 samples/s']
    """
    return wrap(text, width, indent, clip(clean(label), indent - 1))


def hanging(text: str, width: int, indent: int = 4) -> list[str]:
    """``text`` in lines; all but the first are indented.

    >>> hanging("n/a one two", 8)
    ['n/a one', '    two']
    >>> hanging("no gain here", 80)
    ['no gain here']
    """
    head, _, rest = clean(text).partition(" ")
    while rest and columns(head) + 1 < indent:  # a short first word must not be set apart from the second
        word, _, rest = rest.partition(" ")
        head = f"{head} {word}"
    return wrap(rest, width, indent, head + " ")


def closing(text: str, width: int) -> list[str]:
    """Last lines; a command after ``Next:`` begins a line of its own rather than be broken in two.

    >>> closing("AGREE. Next: peakmark verify a.toml", 28)
    ['AGREE.', 'Next: peakmark verify a.toml']
    """
    sentence, found, command = clean(text).partition(" Next: ")
    lines = hanging(sentence, width) if " " in sentence else wrap(sentence, width)
    following = f"Next: {command}"
    if not found:
        return lines
    if columns(lines[-1]) + 1 + columns(following) <= width:
        return [*lines[:-1], f"{lines[-1]} {following}"]
    return [*lines, *hanging(following, width)]


def joined(parts: Sequence[str], width: int) -> list[str]:
    """Parts with `` · `` between them, broken only where a line is full.

    >>> joined(["one", "two"], 20)
    ['one · two']
    >>> joined(["one", "two"], 8)
    ['one', 'two']
    """
    lines: list[str] = []
    for part in (clean(one) for one in parts if one):
        if lines and columns(lines[-1]) + 3 + columns(part) <= width:
            lines[-1] += " · " + part
        else:
            lines += wrap(part, width)
    return lines


def right(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Cells aligned at their right edges; a cell that is too wide pushes the others.

    >>> right(["a", "12"], [3, 4])
    '  a  12'
    """
    return "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
