"""Glyphs outside ASCII that the screens use, and what stands for them on a plain terminal.

Every glyph is one cell wide and has a substitute of one character: a translated line keeps its columns.
"""

from __future__ import annotations

from rich.text import Text

BARS = " ▁▂▃▄▅▆▇█"
"""Eighths of a cell from below: none to full."""
PARTS = "▏▎▍▌▋▊▉█"
"""Eighths of a cell from the left: one to full."""

_ASCII = {
    **dict(zip("●○»×▼►·", "o.>!-+.", strict=True)),
    **dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True)),
    **dict(zip("▏▎▍▌▋▊▉", "|||####", strict=True)),
    **dict(zip("▒░▓─━│┌┐└┘├┤┬┴┼", ":%*-=|+++++++++", strict=True)),
    **dict(zip("←→↑↓…≥", "<>^v~>", strict=True)),
}


def ascii_text(text: str) -> str:
    """``text`` in ASCII, one character for one; ``≥`` takes the space before it too."""
    text = text.replace(" ≥", ">=")
    return "".join(char if char.isascii() else _ASCII.get(char, "?") for char in text)


def ascii_line(line: Text) -> Text:
    """``line`` in ASCII, its spans kept."""
    plain = line.copy()
    plain.plain = ascii_text(line.plain)
    return plain


def clean(text: str) -> str:
    """``text`` from outside on one line: tabs, newlines and control characters become spaces."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " for char in text)
