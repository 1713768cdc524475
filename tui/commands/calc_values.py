"""Numbers, lists and tensors of the command line, read strictly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tui import units
from tui.budget.arguments import Argument, nearest
from tui.budget.fixed_shapes import BITS, SampleTensor
from tui.errors import UsageError

MOST_DIGITS = 18
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*")
_ITEM = re.compile(r"0|[1-9][0-9]*(?:_[0-9]+)*")
_POWER = re.compile(r"([0-9]+(?:\.[0-9]+)?)[eE]\+?([0-9]{1,2})")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_TENSOR = re.compile(r"(?P<shape>[^:*]+):(?P<dtype>[^:*]+)(?:\*(?P<count>[^:*]+))?")


def arguments(kind: str, declared: Sequence[Argument], words: Sequence[str], hint: str) -> dict[str, Any]:
    """The arguments that ``words`` give, each NAME=VALUE; what is no value of its kind stays text.

    Args:
        kind: for messages.
        declared: what there may be.
        words: of the command line.
        hint: how to list the arguments.

    Raises:
        UsageError: a word without ``=``, an unknown name, or one that is given twice.
    """
    known = {one.name: one for one in declared}
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise UsageError(f"{word} has no value; write NAME=VALUE, as {next(iter(known))}=...", hint=hint)
        if name not in known:
            raise UsageError(f"{name or word} is not an argument of {kind}", hint=nearest(name, tuple(known)))
        if name in found:
            raise UsageError(f"{name} is given twice")
        found[name] = _value(known[name], text)
    return found


def _value(argument: Argument, text: str) -> Any:
    match argument.kind:
        case "whole":
            return _whole(argument.name, text)
        case "whole or wholes" if "," not in text:
            return _whole(argument.name, text)
        case "wholes" | "whole or wholes":
            return [_item(argument.name, one) for one in text.split(",")] if text else []
        case "flag":
            return {"true": True, "false": False}.get(text, text)
        case "names":
            return text.split(",") if text else []
        case "share" | "positive":
            return float(text) if _NUMBER.fullmatch(text) else text
        case "choice":
            return text


def _whole(name: str, text: str) -> int | str:
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    if not _GROUPED.fullmatch(digits):
        return text
    return int(sign + _short(name, digits.replace(",", "")))


def _item(name: str, text: str) -> int | str:
    return int(_short(name, text)) if _ITEM.fullmatch(text) else text


def _short(name: str, digits: str) -> str:
    if len(digits.replace("_", "")) > MOST_DIGITS:
        raise UsageError(f"{name} has more than {MOST_DIGITS} digits; check the number")
    return digits


def size(name: str, text: str) -> int:
    """Bytes: with a unit as everywhere, or a whole number of them.

    Raises:
        UsageError: neither.
    """
    if _GROUPED.fullmatch(text.strip()):
        return int(_short(name, text.strip().replace(",", "")))
    try:
        return units.parse_bytes(text)
    except ValueError as error:
        raise UsageError(f"argument {name}: {error}") from None


def whole(name: str, text: str) -> int:
    """A whole number, with ``,`` or ``_`` between thousands or as ``7e9``.

    Raises:
        UsageError: something else.
    """
    if _GROUPED.fullmatch(text):
        return int(_short(name, text.replace(",", "")))
    if found := _POWER.fullmatch(text):
        digits, exponent = found[1].replace(".", ""), int(found[2]) - len(found[1].partition(".")[2])
        if 0 <= exponent < MOST_DIGITS:
            return int(digits) * 10**exponent
    raise UsageError(f"{name} must be a whole number, got {text!r}", hint="as 7000000000 or 7e9")


def batch(text: str) -> int:
    """A number of samples, at least 1.

    Raises:
        UsageError: something else.
    """
    found = _whole("--batch", text)
    if isinstance(found, str) or found < 1:
        raise UsageError(f"argument --batch: must be a whole number, 1 or more, got {text!r}")
    return found


def tensors(words: Sequence[str]) -> tuple[SampleTensor, ...]:
    """What ``NAME=SHAPE:DTYPE*COUNT`` say.

    Raises:
        UsageError: one that says something else, or a name that comes twice.
    """
    found: dict[str, SampleTensor] = {}
    for word in words:
        one = _tensor(word)
        if one.name in found:
            raise UsageError(
                f"tensor {one.name} is given twice", hint="name each one differently, or use *COUNT"
            )
        found[one.name] = one
    return tuple(found.values())


def _tensor(word: str) -> SampleTensor:
    name, equals, text = word.partition("=")
    parts = _TENSOR.fullmatch(text)
    if not (name.strip() and equals and parts):
        raise UsageError(
            f"{word} is no tensor", hint="write NAME=SHAPE:DTYPE*COUNT, as logits=1024x50257:fp32*3"
        )
    shape = [_item(name, side) for side in parts["shape"].split("x")]
    if not all(isinstance(side, int) and side for side in shape):
        raise UsageError(f"{parts['shape']} is no shape of {name}", hint="write whole numbers as 1024x50257")
    dtype = parts["dtype"].lower()
    if dtype not in BITS:
        raise UsageError(f"{parts['dtype']} is no dtype of {name}", hint=nearest(dtype, tuple(BITS)))
    count = _item(name, parts["count"] or "1")
    if not isinstance(count, int) or not count:
        raise UsageError(f"*{parts['count']} of {name} must be a whole number of at least 1")
    return SampleTensor(name.strip(), tuple(side for side in shape if isinstance(side, int)), dtype, count)
