"""Change values in the hand-written part and leave every other byte of it alone."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable, Null, Table, Whitespace

from tui.errors import ProjectError
from tui.project.keys import join, quote, split
from tui.project.marker import newline_of


def changed(user: str, changes: Mapping[str, Any], name: str) -> str:
    """The hand-written part with ``changes`` made.

    Args:
        user: valid TOML.
        changes: values by dotted key; None deletes the key, a dict becomes an inline table.
        name: the file, for the sentence.

    Raises:
        ProjectError: a key is none, leads through a value that is not a table, or cannot be changed in place.
    """
    wanted = tomllib.loads(user)
    try:
        for key, value in changes.items():
            _put(wanted, split(key), value, name, made=_dict)
    except ValueError as error:
        what, _, mend = str(error).partition("; ")
        raise ProjectError(what, where=name, hint=mend) from error
    for made in (_table, _inline):  # below dotted keys only an inline table keeps the order
        text = _attempt(user, changes, name, made)
        if text is not None and tomllib.loads(text) == _plain(wanted):
            return text
    keys = ", ".join(changes)
    raise ProjectError(
        f"{keys} cannot be changed without touching other lines", where=name, hint="edit the file"
    )


def _attempt(user: str, changes: Mapping[str, Any], name: str, made: Callable[[Any], Any]) -> str | None:
    """The changed text, which may still be something else than was wanted; None when it is not TOML."""
    newline = newline_of(user)
    document = tomlkit.parse(user if user.endswith("\n") else user + newline)
    new = list[Any]()

    def made_now(parent: Any) -> Any:
        table = made(parent)
        if isinstance(table, Table) and not isinstance(parent, tomlkit.TOMLDocument):
            new.append(table)
        return table

    try:
        for key, value in changes.items():
            _put(document, split(key), _item(value), name, made=made_now)
        for table in new:
            table.add(tomlkit.nl())  # a blank line before the header that follows
        text = tomlkit.dumps(document)
        tomllib.loads(text)
    except (TOMLKitError, ValueError):
        return None
    if newline == "\r\n":
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")  # tomlkit ends new lines with LF
    return text if user.endswith(newline * 2) else text.rstrip("\r\n") + newline


def _put(root: Any, parts: tuple[str, ...], value: Any, name: str, made: Callable[[Any], Any]) -> None:
    table, passed = cast(MutableMapping[str, Any], root), ""
    for part in parts[:-1]:
        passed = join(passed, quote(part))
        if part not in table:
            if value is None:
                return
            table[part] = made(table)
        if not isinstance(table[part], MutableMapping):
            key = join(*map(quote, parts))
            raise ProjectError(
                f"{passed} is not a table, so {key} cannot be set", where=name, hint="set it whole"
            )
        table = table[part]
    if value is not None:
        _set(table, parts[-1], value)
    elif parts[-1] in table:
        _drop(table, parts[-1])


def _set(table: Any, key: str, value: Any) -> None:
    """Set a key; a new one of an inline table stands between the same spaces as those before it."""
    if not isinstance(table, InlineTable) or key in table:
        table[key] = value
        return
    body = table.value.body
    first, padded = not body, bool(body) and isinstance(body[-1][1], Whitespace)
    added = cast(Any, tomlkit.item(value))
    table.append(key, added)
    added.trivia.indent = "" if first or padded else " "
    if padded:
        body.append((None, Whitespace(" ")))


def _drop(table: Any, key: str) -> None:
    """Delete a key; one of an inline table with the space between it and those before it."""
    if not isinstance(table, InlineTable):
        del table[key]
        return
    body = table.value.body
    place = next(at for at, (one, _) in enumerate(body) if one is not None and one.key == key)
    del table[key]
    last = not any(one is not None for one, _ in body[place + 1 :])
    after = any(_is_blank(value) for _, value in body[place + 1 : place + 3])
    if place and _is_blank(body[place - 1][1]) and (after or last):
        body[place - 1] = (None, Null())  # in its place: the container knows keys by their places


def _is_blank(value: Any) -> bool:
    return isinstance(value, Whitespace) and not value.as_string().strip(" ")


def _table(parent: Any) -> Any:
    """An empty table of the kind that may stand in ``parent``."""
    if isinstance(parent, InlineTable):
        return tomlkit.inline_table()
    if isinstance(parent, tomlkit.TOMLDocument):
        parent.add(tomlkit.nl())
    return tomlkit.table()


def _inline(_: Any) -> Any:
    return tomlkit.inline_table()


def _dict(_: Any) -> dict[str, Any]:
    return {}


def _item(value: Any) -> Any:
    """What tomlkit takes for ``value``; a dict becomes inline, so that no later key falls into it."""
    if not isinstance(value, dict):
        return _plain(value)
    table = tomlkit.inline_table()
    for key, one in cast(dict[str, Any], value).items():
        if one is not None:
            table[key] = _item(one)
    return table


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(one) for k, one in cast(dict[str, Any], value).items() if one is not None}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in cast(list[Any], value)]
    return value
