"""Read a project file: text, values, and the line of every key.

Nothing that the file names is opened or run.  Every fault of it is one ``ProjectError``.
"""

from __future__ import annotations

import dataclasses
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tui.errors import ProjectError
from tui.project import marker, quality, schema
from tui.project.check_budget import with_reserve
from tui.project.decode import decode
from tui.project.keys import Place, scan
from tui.project.local import local_path, merge, refuse_in_shared
from tui.project.measured import Measured
from tui.project.model import SCHEMA, Spec

_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_SAID = {
    "Unclosed inline table": "a comma or } is missing",
    "Unclosed array": "a comma or ] is missing",
    "Expected newline or end of document after a statement": "something follows the value",
    "Invalid value": "a value is missing or needs quotes",
    "Expected '=' after a key in a key/value pair": "an = is missing",
    "Illegal character '\\n'": "a closing quote is missing",
    "Expected ']' at the end of a table declaration": "a ] is missing",
    "Invalid initial character for a key part": "a key is missing or needs quotes",
    "Expected \"'''\"": "a closing ''' is missing",
    'Expected \'"""\'': 'a closing """ is missing',
    "Unterminated string": "a closing quote is missing",
}
"""What the parser's messages mean to somebody who is not a parser."""


@dataclasses.dataclass(frozen=True, slots=True)
class Project:
    """A project file as it was read."""

    path: Path
    """As the user named it; messages use it."""
    spec: Spec
    measured: Measured
    text: str
    lines: Mapping[str, int]
    """Line of every dotted key of the file."""
    local_lines: Mapping[str, int] = dataclasses.field(default_factory=dict[str, int])
    """Line of every dotted key of NAME.local.toml, when there is one."""

    @property
    def folder(self) -> Path:
        """Where relative paths of the project start."""
        return self.path.parent

    def at(self, key: str) -> str:
        """``file:line`` where ``key``, or the table around it, stands; the local file's for its keys."""
        if key in self.local_lines:
            return Place(str(local_path(self.path)), self.local_lines).at(key)
        return Place(str(self.path), self.lines).at(key)


def load(path: Path) -> Project:
    """The project in ``path``, with what ``NAME.local.toml`` beside it adds.

    Comparisons are judged by the quality target that stands there now; ``parse`` gives them as they were saved.

    Raises:
        ProjectError: it cannot be read, is not TOML, or says something that is not possible.
    """
    found = parse(path, read(path))
    return dataclasses.replace(found, measured=quality.judged(found.measured, found.spec.quality))


def read(path: Path) -> bytes:
    """The bytes of a project file.

    Raises:
        ProjectError: there is no such file, it is something else than a file, or it may not be read.
    """
    name = str(path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ProjectError(
                "is a folder", where=name, hint=f"name a file in it, such as {path / 'project.toml'}"
            )
        if not stat.S_ISREG(mode):
            raise ProjectError("is not a regular file", where=name, hint="name a project file")
        return path.read_bytes()
    except FileNotFoundError:
        hint = f"create it with: peakmark new {name} --from decoder"
        raise ProjectError("no such file", where=name, hint=hint) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(
            f"cannot be read: {reason}", where=name, hint="check its path and permissions"
        ) from error


def parse(path: Path, raw: bytes) -> Project:
    """The project that the bytes ``raw`` would be in ``path``; see ``load``."""
    name = str(path)
    text = _text(raw, name)
    parts = marker.divide(text, name)
    user = _user_table(parts, text, name)
    below = _measured_table(parts, name)
    lines = scan(parts.user) | scan(parts.measured, parts.measured_line)
    place = Place(name, lines)
    _check_schema(user, place)
    refuse_in_shared(user, path, place)
    if "workload" not in user or (isinstance(user["workload"], dict) and "source" not in user["workload"]):
        hint = 'add source = "decoder", or your own "FILE.py", to [workload]'
        raise ProjectError("workload.source is missing", where=place.at("workload"), hint=hint)
    spec = decode(Spec, user, "", place, schema.SPEC_RULES)
    budget = with_reserve(spec.budget, said="reserve" in user.get("budget", {}))
    spec = dataclasses.replace(spec, budget=budget)
    schema.check_spec(spec, place)
    measured = decode(Measured, below, "measured", place, schema.MEASURED_RULES)
    schema.check_measured(measured, place)
    beside = local_path(path)
    if not os.path.exists(beside):  # false for a name that is too long, where Path.exists raises
        return Project(path, spec, measured, text, lines)
    local_text = _text(read(beside), str(beside))
    local_lines = scan(local_text) if (local := _toml(local_text, str(beside))) else {}
    environment = merge(spec.environment, local, Place(str(beside), local_lines))
    return Project(
        path, dataclasses.replace(spec, environment=environment), measured, text, lines, local_lines
    )


def _text(raw: bytes, name: str) -> str:
    if raw.startswith(b"\xef\xbb\xbf"):
        raise ProjectError(
            "begins with a byte order mark", where=f"{name}:1", hint="save it as UTF-8 without BOM"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        hint = "save it as UTF-8"
        raise ProjectError(
            f"is not UTF-8: byte 0x{raw[error.start]:02x}", where=f"{name}:{line}", hint=hint
        ) from error


def _toml(text: str, name: str, first_line: int = 1) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ProjectError("is nested too deeply", where=name, hint="write it with fewer brackets") from None
    except ValueError as error:
        what, line = _said(str(error), text)
        where = f"{name}:{line + first_line - 1}"
        raise ProjectError(f"not valid TOML: {what}", where=where) from error


def _said(message: str, text: str) -> tuple[str, int]:
    """What a parser's message means, with the word before the fault, and its line."""
    found = _AT.search(message)
    what = message[: found.start()] if found else message
    lines = text.split("\n")
    if found and found[1]:
        line, column = int(found[1]), int(found[2])
        before = lines[line - 1][: column - 1].split()
    else:
        line = max((number for number, one in enumerate(lines, 1) if one.strip()), default=1)
        before = lines[line - 1].split()
    twice = re.fullmatch(r"Cannot declare \((.*?),?\) twice", what)
    if twice:
        table = ".".join(part.strip().strip("'\"") for part in twice[1].split(","))
        return f"the table [{table}] is there twice", line
    if what == "Cannot overwrite a value":
        return f"the key {lines[line - 1].partition('=')[0].strip()} is there twice", line
    if found is None:
        return "a number has too many digits", line
    known = _SAID.get(what)
    if known is None:
        return what[:1].lower() + what[1:], line
    return f"{known} after {before[-1].lstrip('[{') or before[-1]}" if before else known, line


def _user_table(parts: marker.Parts, text: str, name: str) -> dict[str, Any]:
    try:
        table = _toml(parts.user, name)
    except ProjectError:
        if parts.marked and _parses(text):
            raise ProjectError(
                "the marker line stands inside a text of several lines",
                where=f"{name}:{parts.measured_line - 1}",
                hint="reword that line; only the one above [measured] may read so",
            ) from None
        raise
    if "measured" in table:
        line = scan(parts.user)["measured"]
        below = f"put this line, alone, above it: {marker.MARKER}"
        hint = "keep results below the marker line" if parts.marked else below
        raise ProjectError("[measured] stands in the hand-written part", where=f"{name}:{line}", hint=hint)
    return table


def _parses(text: str) -> bool:
    try:
        tomllib.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _measured_table(parts: marker.Parts, name: str) -> Any:
    table = _toml(parts.measured, name, parts.measured_line)
    for key in table:
        if key != "measured":
            line = scan(parts.measured, parts.measured_line)[key]
            hint = "move it above that line"
            raise ProjectError(f"{key} stands below the marker line", where=f"{name}:{line}", hint=hint)
    return table.get("measured", {})


def _check_schema(table: Mapping[str, Any], place: Place) -> None:
    found = table.get("schema")
    if found is None:
        hint = f"write schema = {SCHEMA} as the first line"
        raise ProjectError("schema is missing", where=f"{place.name}:1", hint=hint)
    if isinstance(found, bool) or not isinstance(found, int):
        return  # the decoder says what is wrong with it
    if found > SCHEMA:
        raise ProjectError(
            f"schema = {found} is newer than this peakmark reads ({SCHEMA})",
            where=place.at("schema"),
            hint="upgrade peakmark; the file was not changed",
        )
    if found < 1:
        hint = f"write schema = {SCHEMA}"
        raise ProjectError(f"schema = {found} never existed", where=place.at("schema"), hint=hint)
