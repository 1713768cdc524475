"""Between a value of a project and the text that is typed for it.  Pure."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from tui import units
from tui.app.fields import Field, lookup, plain
from tui.project.keys import quote
from tui.project.model import LengthSpec, Spec

_WHOLE = re.compile(r"[+-]?\d{1,3}(,\d{3})+|[+-]?\d+(_\d+)*")
_LENGTHS = re.compile(r"\s*\.\.+\s*|\s+to\s+|\s+")
_SIZES = (
    ("GiB", units.GIB),
    ("MiB", units.MIB),
    ("GB", 10**9),
    ("MB", 10**6),
    ("KiB", units.KIB),
    ("kB", 10**3),
)
"""Units in the order in which they are tried: the first that goes into a size without a rest is shown."""
_PAIR = re.compile(r"\s*([^=]+?)\s*=\s*(.*)", re.DOTALL)


def text_of(field: Field, spec: Spec) -> str:
    """What is put into the editor; "" where the file says nothing.  Typing it again changes nothing."""
    if field.kind in ("pair", "fold"):
        return ""
    value = lookup(spec, field.key)
    if value is None:
        return ""
    if isinstance(value, LengthSpec):
        return _length_text(value)
    if field.kind == "size":
        return _size_text(value)
    if field.kind in ("names", "wholes", "whole or wholes") and isinstance(value, list | tuple):
        return ", ".join(str(one) for one in value)
    if field.kind == "word" and isinstance(value, str):
        return value if _word(value) == value else toml(value)
    return value if isinstance(value, str) and field.kind != "value" else toml(value)


def shown(field: Field, spec: Spec, exact: bool = False) -> str:
    """The value as it is read in the form; the field's ``unset`` where there is none."""
    value = lookup(spec, field.key) if field.kind not in ("pair", "fold") else None
    if value is None or value == "":
        return field.unset
    if isinstance(value, LengthSpec):
        steps = [one for one in (value.min, value.typical, value.max) if one is not None]
        return " to ".join(f"{one:,}" for one in steps)
    if field.kind == "size":
        return f"{value:,} B" if exact else f"{value / units.GIB:.4g} GiB"
    if field.key.endswith(("optimizer.name", "scheduler.name")):
        return str(value).rpartition(".")[2]
    if field.key == "quality.direction" and spec.quality.target is not None:
        return "at most" if value == "min" else "at least"
    if isinstance(value, float):
        return f"{value:g}"
    if field.kind == "word":
        return text_of(field, spec)  # "4" is another value than 4
    return _read(value)


def _read(value: Any) -> str:
    """A value as people read it; a table as the class that it names, with its arguments."""
    if isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value):
        return " then ".join(_read(one) for one in value)
    if not isinstance(value, Mapping):
        return plain(value)
    if not isinstance(value.get("name"), str) or not set(value) <= {"name", "args"}:
        return toml(value)
    args = value.get("args", {})
    said = [f"{name} {_read(one)}" for name, one in args.items()] if isinstance(args, Mapping) else []
    name = value["name"].rpartition(".")[2]
    return f"{name} ({', '.join(said)})" if said else name


def changes(field: Field, text: str, spec: Spec, said: Mapping[str, Any]) -> dict[str, Any]:
    """What is written to the file for ``text``: values by dotted key, None deletes the key.

    Args:
        field: what is edited.
        text: as typed.
        spec: as it is now.
        said: the file's keys (with their lines): a length that is a table there is changed key by key.

    Raises:
        ValueError: the text is not of the field's kind; one sentence ``what; how to mend it``.
    """
    text = text.strip()
    if field.kind == "pair":
        return _pair(field, text)
    value = _value(field, text) if text else None
    _refuse_lost_number(field, text, value, lookup(spec, field.key))
    if field.argument is not None and value is not None:
        field.argument.refuse(value)
    if field.key == "workload.scheduler.name" and value is None:
        return {"workload.scheduler": None}
    if field.kind == "length" and value is not None and f"{field.key}.max" in said:
        return {f"{field.key}.{name}": value.get(name) for name in ("min", "typical", "max")}
    if field.kind == "length" and value is not None and set(value) == {"max"}:
        return {field.key: value["max"]}
    return {field.key: value}


def _value(field: Field, text: str) -> Any:
    match field.kind:
        case "whole":
            return _whole(field, text)
        case "number":
            return _number(field, text)
        case "flag":
            if text not in ("true", "false"):
                raise ValueError(f"{_name(field)} must be true or false, got {text}")
            return text == "true"
        case "names":
            return [one for one in re.split(r"[,\s]+", text.strip("[] ").replace('"', "")) if one]
        case "wholes":
            return _wholes(field, text)
        case "whole or wholes":
            found = _wholes(field, text)
            return found[0] if len(found) == 1 and "[" not in text else found
        case "length":
            return _length(field, text)
        case "value":
            return _toml_value(text)
        case "word":
            return _word(text)
        case _:
            return text


def _word(text: str) -> Any:
    """The number, flag, quoted text or list that ``text`` is; everything else as it stands."""
    try:
        value = _toml_value(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float | str | list) else text


def _refuse_lost_number(field: Field, text: str, value: Any, now: Any) -> None:
    """A bare word in the place of a number is a slip more often than a text."""
    number = isinstance(now, int | float) and not isinstance(now, bool)
    if field.kind == "value" and number and isinstance(value, str) and text[:1] not in ("'", '"'):
        kind = "a whole number" if isinstance(now, int) else "a number"
        hint = f'write one such as {toml(now)}, or "{text}" in quotes for a text'
        raise ValueError(f"{_name(field)} is {kind}, got {text}; {hint}")


def _name(field: Field) -> str:
    return field.key.rpartition(".")[2] if field.argument is not None else field.key


def _whole(field: Field, text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{_name(field)} must be a whole number, got {text}; write one such as 8")
    try:
        return int(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise ValueError(f"{_name(field)} has too many digits; write a smaller number") from None


def _wholes(field: Field, text: str) -> list[int]:
    inner = text.removeprefix("[").removesuffix("]").strip()
    return [_whole(field, one) for one in re.split(r"\s*,\s*|\s+", inner) if one]


def _number(field: Field, text: str) -> int | float:
    if _WHOLE.fullmatch(text):
        return _whole(field, text)
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{_name(field)} must be a number, got {text}; write one such as 0.5") from None


def _length(field: Field, text: str) -> dict[str, int]:
    parts = _LENGTHS.split(text)
    if len(parts) > 3:
        raise ValueError(f"{field.key} has too many parts; write max, min..max or min..typical..max")
    keys = {1: ("max",), 2: ("min", "max"), 3: ("min", "typical", "max")}[len(parts)]
    found = {key: _whole(field, part) for key, part in zip(keys, parts, strict=True) if part}
    if "max" not in found:
        raise ValueError(f"{field.key} has no max; write max, min..max or min..typical..max")
    return found


def _length_text(length: LengthSpec) -> str:
    if length.typical is not None:
        return f"{'' if length.min is None else length.min}..{length.typical}..{length.max}"
    return f"{length.max}" if length.min is None else f"{length.min}..{length.max}"


def _size_text(size: int) -> str:
    for unit, factor in _SIZES:
        if size and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def _pair(field: Field, text: str) -> dict[str, Any]:
    found = _PAIR.fullmatch(text)
    if not found or not found[2].strip():
        raise ValueError("write name = value, such as weight_decay = 0.1")
    name = found[1].strip().strip('"')
    return {f"{field.key}.{quote(name)}": _toml_value(found[2].strip())}


def _toml_value(text: str) -> Any:
    """The TOML value that ``text`` is; a bare word is a text, as nobody wants to type its quotes."""
    try:
        table = tomllib.loads(f"x = {text}")
    except (ValueError, RecursionError):
        if re.fullmatch(r"[^\W\d][\w./:-]*( [\w./:-]+)*", text):
            return text
        raise ValueError(f'{text} is not a value; write a number, true, "text" or [1, 2]') from None
    if set(table) != {"x"}:
        raise ValueError(f"{text} is more than one value; write one")
    return table["x"]


def toml(value: Any) -> str:
    """A value as TOML writes it, on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{quote(str(key))} = {toml(one)}" for key, one in value.items()) + " }"
    return repr(value)
