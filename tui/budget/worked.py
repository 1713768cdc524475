"""A formula as a person would write it: the symbols, the same line with its numbers, and what it comes to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


@dataclass(frozen=True, slots=True)
class Term:
    """One line of a calculation."""

    name: str
    symbols: str
    """As ``out x (in / groups) x kernel``."""
    numbers: str
    """As ``12 x (24 / 12) x 3``."""
    value: int
    inner: tuple[Term, ...] = ()
    """What the numbers are made of, such as the parts of one block; these do not add to the value."""


def term(name: str, symbols: str, value: int, inner: tuple[Term, ...] = (), /, **numbers: int) -> Term:
    """A line whose numbers are its symbols with ``numbers`` put in.

    >>> term("weight", "inputs x outputs", 6, inputs=2, outputs=3).numbers
    '2 x 3'
    """

    def put_in(found: re.Match[str]) -> str:
        name = found[0]
        return f"{numbers[name]:,}" if name in numbers else name

    return Term(name, symbols, _NAME.sub(put_in, symbols), value, inner)


@dataclass(frozen=True, slots=True)
class Worked:
    """A whole calculation."""

    kind: str
    """Of layer or family."""
    inputs: dict[str, Any]
    """Every argument with the value that was put in."""
    unit: str
    """Of the terms: parameters, elements or bytes."""
    terms: tuple[Term, ...]
    """They add up to the total."""
    further: tuple[Term, ...] = ()
    """Answers to other questions, such as what is active on one token; in elements or as their names say."""
    note: str = ""

    @property
    def total(self) -> int:
        """The sum of the terms."""
        return sum(one.value for one in self.terms)
