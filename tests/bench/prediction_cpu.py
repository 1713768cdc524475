"""Fake against real on the CPU: the same iteration traced with values and without, storage by storage."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probe.helpers import run_here
from zoo_models import KINDS, Kind

from tui.project.timeline import Storage, Timeline, read

HIDDEN = ("operator_scratch", "library_workspaces")
"""Rows of what an operator takes and gives back within itself: only the allocator sees it."""
STEADY = ("forward", "backward", "step")
ORDER = "only the order in which one operator makes its results"
ASKED = {
    "semantics": "cpu",
    "target": None,
    "allocator": "",
    "capacity_bytes": None,
    "workspaces": {},
    "largest": None,
    "placement": {"ranks": 1, "strategy": "none", "shard_each": [], "options": {}},
}


@dataclass(frozen=True)
class Compared:
    """One model.  ``real`` and ``fake`` are the highest requested bytes of the steady iteration, scratch left out."""

    name: str
    real: int | None
    fake: int | None
    scratch: int
    """Bytes of operators' own at the real peak, which is higher by them."""
    births: int
    same: bool
    """Every birth and death of the steady iteration, in order and size."""
    why: str
    """The first difference by name, or why it was not predicted."""


def is_hidden(one: Storage) -> bool:
    """Whether only the allocator sees it: scratch, and a Python number that an operator makes a tensor of."""
    return one.row in HIDDEN or (not one.operator and one.bytes <= 8)


def changes(timeline: Timeline) -> list[tuple[int, Storage]]:
    """(signed bytes, storage) in the order of events, without what lives inside one operator.

    A batch is made at once as far as an iteration is concerned, so its parts are in the order of their sizes.
    """
    found: list[tuple[int, int, Storage]] = []
    for one in timeline.storages:
        if is_hidden(one):
            continue
        if one.born >= 0:
            found.append((-1 if one.row == "input_batch" else one.born, one.bytes, one))
        if one.died is not None:
            found.append((one.died, -one.bytes, one))
    return [(size, one) for _, size, one in sorted(found, key=lambda each: (each[0], each[1]))]


def peak(timeline: Timeline) -> int:
    """The highest sum of what is alive and not hidden."""
    seen = [one for one in timeline.storages if not is_hidden(one)]
    level = sum(one.bytes for one in seen if one.born < 0)
    steps: dict[int, int] = {}
    for one in seen:
        if one.born >= 0:
            steps[one.born] = steps.get(one.born, 0) + one.bytes
        if one.died is not None:
            steps[one.died] = steps.get(one.died, 0) - one.bytes
    highest = level
    for event in sorted(steps):
        level += steps[event]
        highest = max(highest, level)
    return highest


Change = tuple[int, Storage]


def by_operator(found: list[Change]) -> list[Change]:
    """``found`` with what one operator makes at once in the order of sizes."""
    out: list[Change] = []
    made: list[Change] = []
    for each in [*found, None]:
        same = each is not None and each[0] > 0 and made and _maker(each[1]) == _maker(made[-1][1])
        if made and not same:
            out += sorted(made, key=lambda one: one[0])
            made = []
        if each is None:
            continue
        if each[0] > 0:
            made.append(each)
        else:
            out.append(each)
    return out


def _maker(one: Storage) -> tuple[str, str]:
    return one.operator, one.module


def first_difference(one: list[Change], other: list[Change]) -> str:
    """Where two timelines part, "" where they do not."""
    for (size, storage), (guess, wrong) in zip(one, other, strict=False):
        if size != guess:
            return f"{_named(size, storage)}, predicted {_named(guess, wrong)}"
    if len(one) != len(other):
        rest, who = (one, "not predicted") if len(one) > len(other) else (other, "predicted alone")
        return f"{_named(*rest[min(len(one), len(other))])} {who}"
    return ""


def held_before(real: Timeline, fake: Timeline) -> str:
    """What is alive before the iteration on one side alone: data that a workload keeps is no fake."""

    def sizes(timeline: Timeline) -> Counter[tuple[int, str]]:
        alive = [one for one in timeline.storages if one.born < 0 and not is_hidden(one)]
        return Counter((one.bytes, one.row) for one in alive)

    more, less = sizes(real) - sizes(fake), sizes(fake) - sizes(real)
    told = [f"{size:,} B of {row} held from before, by the workload" for size, row in more]
    told += [f"{size:,} B of {row} predicted from before" for size, row in less]
    return "; ".join(told[:2])


def _named(size: int, storage: Storage) -> str:
    act = "made" if size > 0 else "freed"
    place = f" in {storage.module}" if storage.module else ""
    return f"{abs(size):,} B of {storage.operator or 'no operator'}{place} {act}"


def traced(task: str, folder: Path, kind: Kind, **more: Any) -> tuple[Any, Timeline]:
    """The table and the timeline of one task in this process."""
    with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
        events = run_here(task, journal=folder / f"{task}.jsonl", **kind.plan(folder), **more)
    return events.table("traced" if task == "traced" else "predicted"), read(folder / f"{task}.timeline.json")


def compare(kind: Kind) -> Compared:
    """Trace ``kind`` both ways."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table, real = traced("traced", folder, kind)
        most = max(STEADY, key=lambda one: table["phases"].get(one, {}).get("requested_bytes", 0))
        rows = table["phases"][most]["rows"]
        scratch = sum(rows.get(row, 0) for row in HIDDEN)
        births = sum(1 for size, _ in changes(real) if size > 0)
        points = [{"micro": kind.micro, "accumulate": kind.more.get("accumulate", 1), "length": kind.length}]
        try:
            _, fake = traced("predict", folder, kind, extra={"predict": {**ASKED, "points": points}})
        except Exception as error:
            return Compared(kind.name, peak(real), None, scratch, births, False, str(error).split("\n")[0])
    one, other = changes(real), changes(fake)
    why = first_difference(one, other)
    if why and not first_difference(by_operator(one), by_operator(other)):
        why = f"{ORDER}: {why}"
    return Compared(
        kind.name, peak(real), peak(fake), scratch, births, not why, why or held_before(real, fake)
    )


def section(only: Iterable[str] = ()) -> list[str]:
    """The lines of the page."""
    chosen = [kind for kind in KINDS if not only or kind.name in only]
    found = []
    for kind in chosen:
        found.append(compare(kind))
        print(found[-1], flush=True)
    peaks = sum(1 for one in found if one.real == one.fake)
    whole = sum(1 for one in found if one.same)
    order = sum(1 for one in found if one.why.startswith(ORDER))
    lines = [
        "## Fake against real on the CPU",
        "",
        "The models of `tests/zoo_models.py`, traced with values and without. Peaks and timelines are of the steady "
        "iteration, without what an operator takes and gives back within itself, which only the real allocator "
        f"sees (the column scratch, at the real peak). Peaks equal to the byte: {peaks} of {len(found)}; whole "
        f"timelines equal, every birth and death in order and size: {whole} of {len(found)}, and {order} more but for "
        "the order in which one operator makes its results.",
        "",
        "| model | real peak B | predicted B | difference B | scratch B | births | timeline | first difference |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for one in found:
        off = "n/a" if one.fake is None or one.real is None else f"{one.fake - one.real:,}"
        cells = [
            one.name,
            "n/a" if one.real is None else f"{one.real:,}",
            "n/a" if one.fake is None else f"{one.fake:,}",
            off,
            f"{one.scratch:,}",
            f"{one.births:,}",
            "equal" if one.same else "differs",
            one.why or "none",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]
