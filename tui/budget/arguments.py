"""Declare the arguments of a family or a layer, and take given ones apart by type, default and limits.

Everything that is wrong becomes a ``ValueError`` of one sentence that names the argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Any, Literal, cast

Kind = Literal["whole", "wholes", "whole or wholes", "flag", "choice", "names", "share", "positive"]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: what it may be, and what it is when it is left out."""

    name: str
    kind: Kind
    default: Any = None
    """None: it follows from others as ``otherwise`` says; lists are tuples here."""
    meaning: str = ""
    otherwise: str = ""
    """What a default of None means, such as ``heads``."""
    choices: tuple[str, ...] = ()
    """Of kind "choice" one of these, of kind "names" any of these."""
    least: int = 1
    """Of whole numbers, alone and in lists."""
    most: int | None = None
    """Of a whole number; None: as large as you like."""
    least_items: int = 0
    required: bool = False

    def refuse(self, value: object) -> None:
        """Do nothing if ``value`` is one that this argument may have.

        Raises:
            ValueError: it is not; one sentence with the name, what it must be, and the value.
        """
        match self.kind:
            case "whole":
                self._whole(value)
            case "wholes":
                self._wholes(value)
            case "whole or wholes" if isinstance(value, (list, tuple)):
                self._wholes(cast("object", value))
            case "whole or wholes":
                self._whole(value)
            case "flag":
                if not isinstance(value, bool):
                    raise ValueError(f"{self.name} must be true or false, got {shown(value)}")
            case "choice":
                self._choice(value, "must be one of")
            case "names":
                self._names(value)
            case "share":
                if not is_number(value) or not 0 <= cast("float", value) < 1:
                    raise ValueError(
                        f"{self.name} must be a number from 0 up to but not 1, got {shown(value)}"
                    )
            case "positive":
                if not is_number(value) or cast("float", value) <= 0:
                    raise ValueError(f"{self.name} must be a number above 0, got {shown(value)}")

    def _whole(self, value: object) -> None:
        if is_whole(value) and self.least <= cast("int", value) and not self._too_large(cast("int", value)):
            return
        kind = "a whole number or a list of them," if self.kind == "whole or wholes" else "a whole number"
        limits = f"of at least {self.least}" if self.most is None else f"from {self.least} to {self.most}"
        raise ValueError(f"{self.name} must be {kind} {limits}, got {shown(value)}")

    def _too_large(self, value: int) -> bool:
        return self.most is not None and value > self.most

    def _wholes(self, value: object) -> None:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{self.name} must be a list of whole numbers, got {shown(value)}")
        items = cast("Sequence[object]", value)
        for item in items:
            if not is_whole(item) or cast("int", item) < self.least:
                raise ValueError(
                    f"{self.name} must hold whole numbers of at least {self.least}, got {shown(item)}"
                )
        if len(items) < max(self.least_items, self.kind == "whole or wholes"):
            raise ValueError(f"{self.name} must hold at least 1 number, got an empty list")

    def _choice(self, value: object, must: str) -> None:
        if value in self.choices:
            return
        words = ", ".join(f'"{word}"' for word in self.choices)
        near = get_close_matches(value, self.choices, 1) if isinstance(value, str) else []
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise ValueError(f"{self.name} {must} {words}, got {shown(value)}{hint}")

    def _names(self, value: object) -> None:
        if not isinstance(value, (list, tuple)):
            words = ", ".join(f'"{word}"' for word in self.choices)
            raise ValueError(f"{self.name} must be a list of names out of {words}, got {shown(value)}")
        for item in cast("Sequence[object]", value):
            self._choice(item, "must hold names out of")


class Arguments:
    """The arguments of ``owner`` as given, each checked, those left out at their defaults.

    Args:
        owner: the family or layer, for messages.
        given: what the project or the command line says; None is the same as left out where the default is None.
        declared: every argument that the owner has.

    Raises:
        ValueError: an argument that is not declared (the nearest one is named), a required one that is missing,
            or a value that an argument cannot have.
    """

    def __init__(self, owner: str, given: Mapping[str, Any], declared: Sequence[Argument]) -> None:
        known = {one.name: one for one in declared}
        for name in given:
            if name not in known:
                raise ValueError(f"{name} is not an argument of {owner}; {nearest(name, tuple(known))}")
        missing = [one.name for one in declared if one.required and given.get(one.name) is None]
        if missing:
            raise ValueError(f"{owner} needs {' and '.join(missing)}")
        self._values: dict[str, Any] = {}
        for one in declared:
            value = given.get(one.name)
            if value is not None or (one.name in given and one.default is not None):
                one.refuse(value)
            self._values[one.name] = one.default if value is None else value

    @property
    def values(self) -> dict[str, Any]:
        """Every argument as given or by default; None: it follows from others."""
        return dict(self._values)

    def __contains__(self, name: str) -> bool:
        return self._values[name] is not None

    def whole(self, name: str, otherwise: int = 0) -> int:
        """A whole number; ``otherwise`` where the default is None."""
        value = self._values[name]
        return otherwise if value is None else value

    def wholes(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers, one where a number stands for it; empty where the default is None."""
        value = self._values[name]
        return (value,) if is_whole(value) else tuple(value or ())

    def is_one(self, name: str) -> bool:
        """Whether one number stands where a list may."""
        return is_whole(self._values[name])

    def each(self, name: str, count: int, otherwise: int) -> tuple[int, ...]:
        """A whole number for each of ``count`` stages: one number is for all of them.

        Raises:
            ValueError: a list of another length.
        """
        value = self._values[name]
        if value is None or is_whole(value):
            return (otherwise if value is None else value,) * count
        if len(value) != count:
            raise ValueError(f"{name} must have one number for each of {count} stages, got {len(value)}")
        return tuple(value)

    def flag(self, name: str, otherwise: bool = False) -> bool:
        """true or false; ``otherwise`` where the default is None."""
        value = self._values[name]
        return otherwise if value is None else value

    def word(self, name: str, otherwise: str = "") -> str:
        """One of the choices; ``otherwise`` where the default is None."""
        return self._values[name] or otherwise

    def words(self, name: str) -> tuple[str, ...]:
        """Names out of the choices."""
        return tuple(self._values[name])


def nearest(name: str, known: Sequence[str]) -> str:
    """``did you mean layers?``, or the whole list when nothing is near.

    >>> nearest("layer", ("layers", "width"))
    'did you mean layers?'
    >>> nearest("zzz", ("layers", "width"))
    'it has layers, width'
    """
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"


def is_whole(value: object) -> bool:
    """Whether ``value`` is an int and not a bool, which Python takes for one."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether ``value`` is a finite int or float."""
    return is_whole(value) or (isinstance(value, float) and isfinite(value))


def shown(value: object) -> str:
    """``value`` as a message shows it: text in quotes, booleans as TOML writes them.

    >>> shown("12"), shown(True), shown(1.5)
    ('the text "12"', 'true', '1.5')
    """
    if isinstance(value, str):
        return f'the text "{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return "nothing" if value is None else str(value)
