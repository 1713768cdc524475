"""Frozen values from TOML tables, by their dataclasses' type hints, and sentences for what does not fit.

Hints may be int, float, str, bool, datetime, Any, a dataclass, ``X | None``, ``tuple[X, ...]`` and
``dict[str, X]``.  An integer is fine where a float is meant; nothing else is converted.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

from tui.errors import ProjectError
from tui.project.keys import Place, join, quote

T = TypeVar("T")
Prepare = Callable[[Any], Any]
"""Turns a special form into the plain one; its ValueError is a sentence ``what; how to mend it``."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """What a part of the file adds to the type hints."""

    prepare: Mapping[str, Prepare] = dataclasses.field(default_factory=dict[str, Prepare])
    """Special forms by dotted key; ``key.*`` is every value of the table ``key`` with free names."""
    elsewhere: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    """Names that people write, ours and other tools', and the dotted key that each means."""
    advice: str = ""
    """How to mend anything here; "" means that each sentence says it."""
    say_booleans: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    """What to write instead of true, by dotted key."""
    finite_items: bool = True
    """Whether NaN and infinity are refused in arrays too."""


def decode(cls: type[T], table: Mapping[str, Any], key: str, place: Place, rules: Rules) -> T:
    """An instance of dataclass ``cls`` from ``table``, which stands at ``key``.

    Raises:
        ProjectError: an unknown key, a missing one, or a value of another type.
    """
    return _Decoder(place, rules).table(cls, table, key)


@lru_cache(maxsize=64)
def hints_of(cls: type[Any]) -> dict[str, Any]:
    """The resolved type hints of a dataclass's fields, in their order."""
    hints = typing.get_type_hints(cls)
    return {spec.name: hints[spec.name] for spec in dataclasses.fields(cls)}


def shown(value: object) -> str:
    """A TOML value as a sentence names it: ``the text "8"``, ``true``, ``a table``."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'the text "{value}"' if len(value) <= 60 else f'the text "{value[:60]}..."'
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, datetime | date | time):
        return f"the date or time {value}"
    return f"{value}"


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that ``name`` was most likely meant to be."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def names(parts: Iterable[str]) -> str:
    """A list for people: ``a``, ``a or b``, ``a, b or c``."""
    *most, last = parts
    return f"{', '.join(most)} or {last}" if most else last


@dataclasses.dataclass(frozen=True, slots=True)
class _Decoder:
    place: Place
    rules: Rules

    def fail(self, key: str, message: str, hint: str) -> NoReturn:
        raise ProjectError(f"{key} {message}", where=self.place.at(key), hint=self.rules.advice or hint)

    def table(self, cls: type[T], value: object, key: str) -> T:
        if not isinstance(value, dict):
            name = key.rpartition(".")[2]
            self.fail(key, f"must be a table, got {shown(value)}", f"write [{key}] or {name} = {{ ... }}")
        content = typing.cast(dict[str, Any], value)
        hints = hints_of(cls)
        for name in content:
            if name not in hints:
                self.unknown(name, key, hints)
        found: dict[str, Any] = {}
        for spec in dataclasses.fields(typing.cast(Any, cls)):
            inner = join(key, quote(spec.name))
            if spec.name in content:
                found[spec.name] = self.value(hints[spec.name], content[spec.name], inner)
            elif spec.default is not dataclasses.MISSING or spec.default_factory is not dataclasses.MISSING:
                continue
            elif types.NoneType in typing.get_args(hints[spec.name]):
                found[spec.name] = None  # unknown is written by leaving the key out
            else:
                self.fail(inner, "is missing", f"add {spec.name} = ...")
        return cls(**found)

    def unknown(self, name: str, key: str, hints: Mapping[str, Any]) -> NoReturn:
        """Say which known key was most likely meant: one beside it before one of another table."""
        meant = self.rules.elsewhere.get(name.lower(), "")
        if not (key and meant.startswith(f"{key}.")):
            meant = closest(name, hints) or meant
        beside = meant.removeprefix(f"{key}.")
        hint = f"did you mean {beside}?" if meant else f"known here: {', '.join(hints)}"
        inner = join(key, quote(name))
        if self.rules.advice:
            hint += f" Or {self.rules.advice}" if meant else f", or {self.rules.advice}"
        raise ProjectError(f"{inner} is not a key here", where=self.place.at(inner), hint=hint)

    def value(self, hint: Any, value: Any, key: str) -> Any:
        if key in self.rules.prepare:
            value = self.prepared(value, key, self.rules.prepare[key])
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin in (types.UnionType, typing.Union):
            return self.value(next(one for one in inner if one is not types.NoneType), value, key)
        if origin is tuple:
            return self.array(inner[0], value, key)
        if origin is dict:
            return self.mapping(inner[1], value, key)
        if hint is Any:
            return self.free(value, key)
        if dataclasses.is_dataclass(hint):
            return self.table(typing.cast(type[Any], hint), value, key)
        return self.scalar(hint, value, key)

    def prepared(self, value: Any, key: str, prepare: Prepare) -> Any:
        try:
            return prepare(value)
        except ValueError as error:
            what, _, mend = str(error).partition("; ")
            raise ProjectError(f"{key} = {what}", where=self.place.at(key), hint=mend) from error

    def array(self, hint: Any, value: Any, key: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            example = f'write ["{value}"]' if isinstance(value, str) else "write [ ... ]"
            self.fail(key, f"must be an array, got {shown(value)}", example)
        items = typing.cast(list[Any], value)
        if hint in (int, float) and all(type(one) is hint and abs(one) < 2**63 for one in items):
            return tuple(items)  # the long ones: traces and losses
        passed = hint is float and not self.rules.finite_items
        return tuple(
            one if passed and isinstance(one, float) else self.value(hint, one, f"{key}[{index}]")
            for index, one in enumerate(items)
        )

    def mapping(self, hint: Any, value: Any, key: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            name = key.rpartition(".")[2]
            self.fail(key, f"must be a table, got {shown(value)}", f"write [{key}] or {name} = {{ ... }}")
        content = typing.cast(dict[str, Any], value)
        each = self.rules.prepare.get(f"{key}.*")
        found: dict[str, Any] = {}
        for name, one in content.items():
            inner = join(key, quote(name))
            found[name] = self.value(hint, self.prepared(one, inner, each) if each else one, inner)
        return found

    def free(self, value: Any, key: str) -> Any:
        """A value of the user's own, which must be one that JSON can carry to the measuring process."""
        if isinstance(value, list):
            items = typing.cast(list[Any], value)
            return [self.free(one, f"{key}[{index}]") for index, one in enumerate(items)]
        if isinstance(value, dict):
            return self.mapping(Any, value, key)
        if isinstance(value, datetime | date | time):
            self.fail(key, f"cannot be a date or time, got {value}", "put it in quotes")
        if isinstance(value, float) and not math.isfinite(value):
            self.fail(key, f"must be finite, got {value}", "write a number")
        return self.integer(value, key) if type(value) is int else value

    def scalar(self, hint: Any, value: Any, key: str) -> Any:
        if hint is int:
            return self.integer(value, key)
        if hint is float:
            return self.real(value, key)
        if hint is bool and not isinstance(value, bool):
            lower = str(value).lower()
            mend = "remove the quotes" if lower in ("true", "false") else "write true or false"
            self.fail(key, f"must be true or false, got {shown(value)}", mend)
        if hint is str and not isinstance(value, str):
            mend = f'write "{value}"' if isinstance(value, int | float) else "put it in quotes"
            self.fail(key, f"must be text, got {shown(value)}", mend)
        if hint is datetime and not (isinstance(value, datetime) and value.tzinfo is not None):
            self.fail(
                key, f"must be a date and time in UTC, got {shown(value)}", "write 2026-12-01T14:12:03Z"
            )
        return value

    def integer(self, value: Any, key: str) -> int:
        if type(value) is int and -(2**63) <= value < 2**63:
            return value
        said = f"must be a whole number, got {shown(value)}"
        if isinstance(value, bool):
            self.fail(key, said, self.rules.say_booleans.get(key, "write a number, such as 1"))
        if isinstance(value, str):
            numeric = value.strip().lstrip("+-").isdecimal()
            self.fail(key, said, "remove the quotes" if numeric else "write a number, such as 1")
        if isinstance(value, float):
            whole = value.is_integer()
            self.fail(key, said, f"write {int(value)}" if whole else "write a number without a fraction")
        if not isinstance(value, int):
            self.fail(key, said, "write a number, such as 1")
        self.fail(key, "does not fit in 64 bits", "write a smaller number")

    def real(self, value: Any, key: str) -> float:
        said = f"must be a number, got {shown(value)}"
        if isinstance(value, str):
            self.fail(key, said, "remove the quotes" if _numeric(value) else "write a number, such as 0.5")
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(key, said, "write a number, such as 0.5")
        if isinstance(value, int):
            return float(self.integer(value, key))
        if not math.isfinite(value):
            self.fail(key, f"must be finite, got {value}", "write a number")
        return value


def _numeric(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
