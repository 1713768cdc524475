"""TOML text of the measured part: what is unknown is left out, and every line is one that git can merge."""

from __future__ import annotations

import dataclasses
import math
import re
from datetime import UTC, datetime
from typing import Any, cast

import tomli_w

from tui.project.measured import Measured

_NUMBERS = re.compile(r"= \[\n((?: +[-+0-9a-z.]+,\n)+)\]")
_MOMENT = re.compile(r"^([^=\"\n]+ = \d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)\+00:00$", re.MULTILINE)


def measured_text(measured: Measured) -> str:
    """The part below the marker line, with LF; "" when nothing was measured."""
    table = to_table(measured)
    if not table:
        return ""
    text = tomli_w.dumps({"measured": table})
    # Strings never span lines here, so these two find nothing but values.
    text = _NUMBERS.sub(lambda found: f"= [{', '.join(found[1].replace(',', '').split())}]", text)
    return _MOMENT.sub(r"\1T\2Z", text)


def to_table(value: Any) -> dict[str, Any]:
    """A dataclass as a TOML table; None, empty tables and empty arrays are left out.

    A single figure that is NaN or infinite is unknown too: it goes to the ``unknown`` table with that reason.
    In an array it stays, because a loss that diverged is a result.
    """
    table: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for spec in dataclasses.fields(value):
        plain = _plain(getattr(value, spec.name))
        if isinstance(plain, float) and not math.isfinite(plain):
            reasons[spec.name] = f"it was {plain}"
        elif plain is not None and plain != {} and plain != []:
            table[spec.name] = plain
    if reasons and isinstance(getattr(value, "unknown", None), dict):
        table["unknown"] = reasons | table.get("unknown", {})
    return table


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_table(value)
    if isinstance(value, dict):
        return {_plain(name): _plain(one) for name, one in cast(dict[str, Any], value).items()}
    if isinstance(value, str):
        return value.encode(
            errors="replace"
        ).decode()  # half of a surrogate pair, from an undecodable file name
    if isinstance(value, list | tuple):
        return [_plain(one) for one in cast(list[Any], value)]
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return value
