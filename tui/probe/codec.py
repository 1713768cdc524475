"""From decoded JSON to dataclasses and back: what the journal and plan files share.  Standard library only."""

import dataclasses
import math
import typing
from typing import Any, Dict, Type


class ProtocolError(ValueError):
    """A journal line or plan that does not follow this file."""


def from_table(cls: Type[Any], table: Dict[str, Any]) -> Any:
    """An instance of dataclass ``cls`` from a decoded JSON object; see ``decode`` for what it raises."""
    values = {}
    hints = typing.get_type_hints(cls)
    for spec in dataclasses.fields(cls):
        if spec.name not in table:
            if spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING:
                raise ProtocolError("%s has no %r" % (cls.__name__, spec.name))
            continue
        value = table[spec.name]
        if not _fits(value, hints[spec.name]):
            raise ProtocolError("%s.%s is %r, not %s" % (cls.__name__, spec.name, value, hints[spec.name]))
        values[spec.name] = value
    return cls(**values)


def _fits(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    origin = typing.get_origin(hint)
    if origin is typing.Union:
        return any(_fits(value, one) for one in typing.get_args(hint))
    inner = typing.get_args(hint)
    if origin is list:
        return isinstance(value, list) and all(_fits(one, inner[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(one, inner[1]) for one in value.values())
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def finite(value: Any) -> Any:
    """``value`` with every number that is not finite replaced by None, keys as text."""
    if isinstance(value, dict):
        return {str(key): finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
