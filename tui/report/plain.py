"""One figure a line, for scripts without a JSON reader: a path, a blank, the value.

``backward.weights.measured_bytes 497759232``; what is unknown is ``n/a`` and its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from tui.report.lines import clean

_NAMED_BY = ("row", "name", "phase", "sum", "key", "id")
"""Keys whose value names a table in a list, the first that it has."""


def plain_lines(document: dict[str, Any]) -> list[str]:
    """Every figure of a JSON document on a line of its own.

    Rows of a ledger begin with their phase instead of ``rows``.

    >>> plain_lines({"rows": [{"row": "weights", "bytes": 4}], "a": None, "unknown": {"a": "not read"}})
    ['rows.weights.row weights', 'rows.weights.bytes 4', 'a n/a not read']
    """
    reasons: dict[str, str] = document.get("unknown", {})
    phase = "rows"
    if document.get("document") == "ledger":
        phase = document["instant"]["phase"] or "declared"
    lines: list[str] = []
    for path, shown, value in _leaves(document, "", ""):
        name = phase + shown.removeprefix("rows") if shown.startswith("rows.") else shown
        text = f"n/a {reasons.get(path, '')}".rstrip() if value is None else _text(value)
        lines.append(f"{name} {clean(text)}".rstrip())
    return lines


def _leaves(value: Any, path: str, shown: str) -> Iterator[tuple[str, str, Any]]:
    """Every leaf with its path by position, its path by name, and its value."""
    if isinstance(value, dict):
        for key, one in cast("dict[str, Any]", value).items():
            if path or key != "unknown":
                yield from _leaves(one, _join(path, key), _join(shown, key.replace(" ", "_")))
    elif isinstance(value, list):
        for index, one in enumerate(cast("list[Any]", value)):
            yield from _leaves(one, _join(path, str(index)), _join(shown, _name(one, index)))
    else:
        yield path, shown, value


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _name(value: Any, index: int) -> str:
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        for key in _NAMED_BY:
            if isinstance(table.get(key), str):
                return str(table[key])
    return str(index)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
