"""Take the arguments of a built-in family apart, each with its type, default and limits.

Everything that is wrong becomes a ``ValueError`` of one sentence that names the argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, cast


class Arguments:
    """The arguments of ``family``; each one is taken once, by name, with what it must be.

    Args:
        family: for messages.
        given: what the project says.
        known: every argument that the family has.

    Raises:
        ValueError: ``given`` has an argument that is not known; the nearest known one is named.
    """

    def __init__(self, family: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
        self._given = given
        for name in given:
            if name not in known:
                raise ValueError(f"{name} is not an argument of {family}; {nearest(name, known)}")

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def whole(self, name: str, default: int, least: int = 1) -> int:
        """A whole number of at least ``least``."""
        value = self._given.get(name, default)
        if not is_whole(value) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {shown(value)}")
        return value

    def wholes(self, name: str, default: tuple[int, ...], least_items: int = 0) -> tuple[int, ...]:
        """A list of whole numbers of at least 1."""
        value = self._given.get(name, default)
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{name} must be a list of whole numbers, got {shown(value)}")
        items = cast("list[Any] | tuple[Any, ...]", value)
        for item in items:
            if not is_whole(item) or item < 1:
                raise ValueError(f"{name} must hold whole numbers of at least 1, got {shown(item)}")
        if len(items) < least_items:
            raise ValueError(f"{name} must hold at least {least_items} number, got an empty list")
        return tuple(items)

    def flag(self, name: str, default: bool) -> bool:
        """true or false."""
        value = self._given.get(name, default)
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, got {shown(value)}")
        return value

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        """One word of ``choices``."""
        value = self._given.get(name, default)
        if value in choices:
            return value
        words = ", ".join(f'"{word}"' for word in choices)
        near = get_close_matches(value, choices, 1) if isinstance(value, str) else []
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise ValueError(f"{name} must be one of {words}, got {shown(value)}{hint}")

    def share(self, name: str, default: float) -> float:
        """A number from 0 up to but not 1."""
        value = self._given.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise ValueError(f"{name} must be a number from 0 up to but not 1, got {shown(value)}")
        return float(value)


def nearest(name: str, known: tuple[str, ...]) -> str:
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


def shown(value: object) -> str:
    """``value`` as a message shows it: text in quotes, booleans as TOML writes them.

    >>> shown("12"), shown(True), shown(1.5)
    ('the text "12"', 'true', '1.5')
    """
    if isinstance(value, str):
        return f'the text "{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
