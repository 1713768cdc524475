"""Dotted keys of a TOML file, and the line that each of them stands on.

A key is written as TOML writes it: ``workload.batch.micro``, ``phases."first.forward".rows``.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})' r"|'''.*?''''{0,2}" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'",
    re.DOTALL,
)
_NUMBERS = re.compile(r"\[[-+0-9a-z., ]*\]")
"""An array of numbers on one line: no element of it needs a line of its own."""
_SCALAR = re.compile(r"[^,\]}#\r\n]+")


def join(*parts: str) -> str:
    """The dotted key of ``parts``; a part that is itself a dotted key is kept, an empty one is left out."""
    return ".".join(part for part in parts if part)


def quote(name: str) -> str:
    """One name as a part of a key: bare where TOML allows it, else in double quotes."""
    if _BARE.fullmatch(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c for c in escaped) + '"'


def split(key: str) -> tuple[str, ...]:
    """The names in a dotted key.

    Raises:
        ValueError: it is not a dotted key.
    """
    parts, position = list[str](), 0
    while found := _PART.match(key, position):
        parts.append(_name(found[0]))
        if found.end() == len(key):
            return tuple(parts)
        dot = _DOT.match(key, found.end())
        if dot is None:
            break
        position = dot.end()
    raise ValueError(f"{key} is not a key; write names with dots between them, such as workload.batch.micro")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the keys of a file stand, so that an error can say it."""

    name: str
    """The file as the user named it."""
    lines: Mapping[str, int]

    def line(self, key: str) -> int | None:
        """The line of ``key``, or of the nearest table around it."""
        while key and key not in self.lines:
            key = key.rpartition("[" if key.endswith("]") else ".")[0]
        return self.lines.get(key)

    def at(self, key: str) -> str:
        """``file:line`` of ``key``, or the file when it stands nowhere."""
        line = self.line(key)
        return self.name if line is None else f"{self.name}:{line}"


def scan(text: str, first_line: int = 1) -> dict[str, int]:
    """The line of every table, key and array element (``key[0]``) of a valid TOML text.

    Args:
        text: TOML that a parser has accepted; newlines are LF or CRLF.
        first_line: number of the text's first line.
    """
    return _Scanner(text, first_line).run()


def _name(raw: str) -> str:
    return raw if raw[0] not in "\"'" else next(iter(tomllib.loads(f"{raw} = 0")))


@dataclass(slots=True)
class _Scanner:
    text: str
    first_line: int
    position: int = 0
    lines: dict[str, int] = field(default_factory=dict[str, int])
    starts: list[int] = field(default_factory=list[int])

    def run(self) -> dict[str, int]:
        self.starts = [found.end() for found in re.finditer("\n", self.text)]
        table = ""
        self.skip(_BLANK)
        while self.position < len(self.text):
            if self.text[self.position] == "[":
                self.position += 2 if self.text.startswith("[[", self.position) else 1
                self.skip(_SPACE)
                table = self.key("")
                self.position = self.text.index("]", self.position)
                while self.text.startswith("]", self.position):
                    self.position += 1
            else:
                self.pair(table)
            self.skip(_BLANK)
        return self.lines

    def skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.position)
        if found is None:
            raise ValueError(f"no key or value at {self.position}")
        self.position = found.end()
        return found[0]

    def key(self, table: str) -> str:
        """Read a dotted key, note the line of it and of the tables that it names on its way."""
        while True:
            table = join(table, quote(_name(self.skip(_PART))))
            self.note(table)
            dot = _DOT.match(self.text, self.position)
            if dot is None:
                return table
            self.position = dot.end()

    def note(self, key: str) -> None:
        self.lines.setdefault(key, self.first_line + bisect_right(self.starts, self.position - 1))

    def pair(self, table: str) -> None:
        key = self.key(table)
        self.skip(_SPACE)
        self.position += 1  # the equals sign
        self.skip(_SPACE)
        self.value(key)

    def value(self, key: str) -> None:
        first = self.text[self.position]
        if first in "\"'":
            self.skip(_TEXT)
        elif first == "[" and (found := _NUMBERS.match(self.text, self.position)):
            self.position = found.end()
        elif first == "[":
            self.items("]", key)
        elif first == "{":
            self.items("}", key)
        else:
            self.skip(_SCALAR)

    def items(self, end: str, key: str) -> None:
        self.position += 1
        index = 0
        self.skip(_BLANK)
        while self.text[self.position] != end:
            if end == "}":
                self.pair(key)
            else:
                self.note_item(f"{key}[{index}]")
                self.value(f"{key}[{index}]")
            index += 1
            self.skip(_BLANK)
            if self.text[self.position] == ",":
                self.position += 1
                self.skip(_BLANK)
        self.position += 1

    def note_item(self, key: str) -> None:
        self.lines[key] = self.first_line + bisect_right(self.starts, self.position)
