"""JSON without surprises: every null explained, no NaN, numbers as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Missing:
    """Stands where a value is unknown, until ``explained`` turns it into null and a reason."""

    reason: str


def known(value: Any, reason: str | None) -> Any:
    """``value``, or why there is none; a NaN or an infinity is none too.

    >>> known(3, "never"), known(None, "not read"), known(float("nan"), "")
    (3, Missing(reason='not read'), Missing(reason='it was nan'))
    """
    if isinstance(value, float) and not isfinite(value):
        return Missing(f"it was {value}")
    return Missing(reason or "not recorded") if value is None else value


def explained(document: dict[str, Any]) -> dict[str, Any]:
    """``document`` with null for everything missing, and the reasons in ``unknown``, by path.

    >>> explained({"a": [Missing("not read")]})
    {'a': [None], 'unknown': {'a.0': 'not read'}}
    """
    unknown: dict[str, str] = {}
    body = _resolved(document, "", unknown)
    return {**cast("dict[str, Any]", body), "unknown": unknown}


def unexplained(document: dict[str, Any]) -> list[str]:
    """Paths of nulls that ``unknown`` says nothing about, which a reader may refuse; in order.

    >>> unexplained({"a": None, "b": [{"c": None}], "unknown": {"a": "not read"}})
    ['b.0.c']
    """
    reasons: dict[str, str] = document.get("unknown", {})
    return [path for path, value in leaves(document) if value is None and not reasons.get(path)]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is no table and no list, with its path; ``unknown`` itself is left out."""
    if isinstance(value, dict):
        for key, one in cast("dict[str, Any]", value).items():
            if path or key != "unknown":
                yield from leaves(one, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, one in enumerate(cast("list[Any]", value)):
            yield from leaves(one, f"{path}.{index}")
    else:
        yield path, value


def _resolved(value: Any, path: str, unknown: dict[str, str]) -> Any:
    if isinstance(value, float) and not isfinite(value):
        value = known(value, "")
    if isinstance(value, Missing):
        unknown[path] = value.reason
        return None
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {key: _resolved(one, f"{path}.{key}" if path else key, unknown) for key, one in table.items()}
    if isinstance(value, (list, tuple)):
        items = cast("list[Any]", value)
        return [_resolved(one, f"{path}.{index}", unknown) for index, one in enumerate(items)]
    return value
