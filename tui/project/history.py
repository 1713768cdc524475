"""Keep a project file small: the latest measurements stay in it, older ones move to NAME.history.jsonl."""

from __future__ import annotations

import dataclasses
import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from tui.project.encode import to_table
from tui.project.measured import Measured
from tui.project.prediction import Prediction

KEEP = 50
"""Measurements of each kind."""
KEEP_PREDICTIONS = 20
"""They are made in seconds, and can be made again."""
KINDS = ("verify", "probe", "precision", "restore", "search", "prediction")


def history_path(path: Path) -> Path:
    """``gpt.history.jsonl`` for ``gpt.toml``."""
    return path.with_name(f"{path.stem}.history.jsonl")


def trim(measured: Measured) -> tuple[Measured, list[tuple[str, str, Any]]]:
    """What stays in the file, and (kind, id, measurement) of what leaves it, oldest first.

    The latest ``KEEP`` of each kind stay, and whatever an operating configuration or the latest search refers to; of
    predictions the latest of each batch and device, at most ``KEEP_PREDICTIONS``.
    """
    needed = {
        name
        for one in measured.operating.values()
        for name in (one.probe, one.verify, one.precision, one.restore, one.fallback)
    }
    if measured.search:
        last = measured.search[max(measured.search)]
        needed |= {
            last.largest_probe,
            last.failed_probe,
            last.fastest_probe,
            *last.candidates.values(),
            *last.probes,
        }
    leaving: list[tuple[str, str, Any]] = []
    kept: dict[str, Any] = {}
    for kind in KINDS:
        table: dict[str, Any] = getattr(measured, kind)
        by_age = sorted(table, key=lambda name, table=table: (table[name].at, name))
        stay = _latest_of_each(table, by_age) if kind == "prediction" else by_age[-KEEP:]
        old = [name for name in by_age if name not in stay and name not in needed]
        leaving += [(kind, name, table[name]) for name in old]
        kept[kind] = {name: one for name, one in table.items() if name not in old}
    return (dataclasses.replace(measured, **kept) if leaving else measured), leaving


def _latest_of_each(table: dict[str, Prediction], by_age: list[str]) -> list[str]:
    """The latest prediction of each spec, batch and device, and no more than the latest ``KEEP_PREDICTIONS``.

    However many the last child made stay: they are one table.
    """
    latest: dict[Any, str] = {}
    for name in by_age:
        one = table[name]
        batch = (one.micro_batch, one.accumulate, one.length)
        place = (one.semantics, one.target, one.target_total_bytes, one.allocator, one.ranks, one.strategy)
        key = (one.spec, one.precision, batch, place)
        latest.pop(key, None)
        latest[key] = name
    last = table[by_age[-1]].journal if by_age else ""
    kept = list(latest.values())
    return [
        name
        for at, name in enumerate(kept, KEEP_PREDICTIONS - len(kept))
        if at >= 0 or (last and table[name].journal == last)
    ]


def history_lines(leaving: list[tuple[str, str, Any]]) -> bytes:
    """One JSON object a line: kind, id and the measurement's table as the project file had it."""
    return b"".join(
        json.dumps({"kind": kind, "id": name, "table": _json(to_table(one))}, ensure_ascii=False).encode()
        + b"\n"
        for kind, name, one in leaving
    )


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _json(one) for name, one in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_json(one) for one in cast(list[Any], value)]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
