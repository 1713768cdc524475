"""Checking the arguments of a built-in family: names, types, ranges and choices, each mistake in one sentence."""

from __future__ import annotations

import difflib
import math
from typing import Any, Dict, NoReturn, Sequence

from ..faults import TaskError


class Arguments:
    """What a family may be given.

    Args:
        name: of the family.
        defaults: {argument: default}; whole numbers must be at least 1, or 0 where that is the default.
        optional: {argument: type or types} of those whose default is None; lists hold whole numbers.
        choices: {argument: its words}, also of the words in a list.
        zero: arguments that may be 0 though it is not their default.
    """

    def __init__(
        self,
        name: str,
        defaults: Dict[str, Any],
        optional: Dict[str, Any],
        choices: Dict[str, Sequence[str]],
        zero: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.defaults = defaults
        self._optional = optional
        self._choices = choices
        self._zero = zero

    def complete(self, given: Dict[str, Any]) -> Dict[str, Any]:
        """The defaults overlaid with ``given``.

        Raises:
            TaskError: an argument that the family does not have, or a value that it cannot have.
        """
        for key, value in given.items():
            if key not in self.defaults:
                near = difflib.get_close_matches(key, self.defaults, 1)
                raise TaskError(
                    "workload",
                    "workload.args.%s is not an argument of %s" % (key, self.name),
                    hint="did you mean %s?" % near[0]
                    if near
                    else "it has %s" % ", ".join(sorted(self.defaults)),
                )
            if value is not None or self.defaults[key] is not None:
                self._check(key, value)
        return {**self.defaults, **given}

    def _check(self, key: str, value: Any) -> None:
        default = self.defaults[key]
        kinds = self._optional[key] if default is None else type(default)
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        if not any(_is(value, kind) for kind in kinds):
            raise TaskError(
                "workload",
                "workload.args.%s of %s must be %s, got %r"
                % (key, self.name, " or ".join(kind.__name__ for kind in kinds), value),
            )
        if isinstance(value, list):
            self._items(key, value)
        elif isinstance(value, str) and key in self._choices:
            self._choice(key, value, "must be")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            self._number(key, value)

    def _items(self, key: str, value: Sequence[Any]) -> None:
        if key in self._choices:
            for one in value:
                self._choice(key, one, "must hold")
            return
        for one in value:
            if not _is(one, int) or one < 1:
                refuse("workload.args.%s must hold whole numbers of at least 1, got %r" % (key, one))

    def _choice(self, key: str, value: Any, must: str) -> None:
        words = list(self._choices[key])
        if value not in words:
            near = difflib.get_close_matches(value, words, 1) if isinstance(value, str) else []
            refuse(
                "workload.args.%s %s %s or %s, got %r" % (key, must, ", ".join(words[:-1]), words[-1], value),
                "did you mean %s?" % near[0] if near else "",
            )

    def _number(self, key: str, value: float) -> None:
        if key == "dropout":
            if not 0 <= value < 1:
                refuse("workload.args.dropout must be at least 0 and less than 1, got %r" % value)
        elif isinstance(self.defaults[key], float):
            if not (value > 0 and math.isfinite(value)):
                refuse("workload.args.%s must be above 0, got %r" % (key, value))
        else:
            least = 0 if self.defaults[key] == 0 or key in self._zero else 1
            if value < least:
                refuse("workload.args.%s must be at least %d, got %d" % (key, least, value))


def _is(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind) or (kind is float and isinstance(value, int))


def refuse(sentence: str, hint: str = "") -> NoReturn:
    """Raise a TaskError that the workload is at fault for."""
    raise TaskError("workload", sentence, hint=hint)
