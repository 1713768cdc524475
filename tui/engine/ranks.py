"""What the ranks of one measurement say together: the results of rank 0, and who it was when one of them failed.

Each rank has a journal of its own beside that of rank 0, which stands for the measurement.  A rank that fails takes
the others with it; theirs are then only the words of those who were left alone.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM
from typing import Any

from tui.engine.journal import Reader
from tui.engine.outcome import Gathered, Outcome, crash_sentence, failure_sentence, placed
from tui.probe.protocol import Failed, Plan, rank_journal

OUTLIVED = (0, -int(SIGTERM))
"""Exit codes of a rank that did not fail by itself."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank as its journal has it."""

    index: int
    gathered: Gathered
    failed_ns: int
    """When it told of its failure; 0: it did not."""
    code: int | None
    """How its process ended, where that is known and was no success."""


def count(plan: Plan) -> int:
    """How many ranks the plan is for."""
    return int(_asked(plan).get("count") or 1)


def _asked(plan: Plan) -> dict[str, Any]:
    return plan.extra.get("ranks") or {}


def joined(outcome: Outcome, plan: Plan, where: Callable[[str], str]) -> Outcome:
    """``outcome`` of rank 0 with what the others say; itself where there is one rank.

    Args:
        outcome: of the process that started the ranks, with the events of rank 0.
        plan: what was measured.
        where: ``file:line`` of a key, for sentences.
    """
    if count(plan) == 1:
        return outcome
    codes: Mapping[str, int] = outcome.results.get("ranks", {}).get("codes", {})
    found = [_read(Path(outcome.journal), index, codes, where) for index in range(count(plan))]
    outcome = dataclasses.replace(
        outcome,
        results=_together(outcome.results, found),
        ranks=tuple({"rank": one.index, **one.gathered.results.get(plan.task, {})} for one in found),
    )
    if outcome.word == "cancelled":
        return outcome
    if all(one.gathered.finished for one in found) and not outcome.returncode:
        return outcome
    return _ended(outcome, found, plan)


def _read(journal: Path, index: int, codes: Mapping[str, int], where: Callable[[str], str]) -> Rank:
    gathered, path = Gathered(), Path(rank_journal(str(journal), index))
    reader = Reader(path)
    try:
        for event in reader.events():
            gathered.take(placed(event, where) if isinstance(event, Failed) else event)
    finally:
        reader.close()
    return Rank(index, gathered, _failed_ns(path) if gathered.failure else 0, codes.get(str(index)))


def _failed_ns(path: Path) -> int:
    """When the failure was written: events themselves do not keep their time."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        if '"event":"Failed"' in line:
            try:
                return int(json.loads(line)["t"])
            except (ValueError, KeyError, TypeError):
                return 0
    return 0


def _together(results: Mapping[str, dict[str, Any]], found: list[Rank]) -> dict[str, dict[str, Any]]:
    """The results of rank 0, with the tokens of all ranks, and the other ranks no strangers to it.

    Samples are counted so by the ranks themselves.
    """
    mine = results.get("timed")
    if mine is None:
        return dict(results)
    tables = [one.gathered.results.get("timed") or {} for one in found]
    told = {**mine, **_tokens(mine, tables)}
    own: list[float | None] = [table.get("own_cpu_ratio") for table in tables[1:]]
    known = [one for one in own if one is not None]
    others = mine.get("others_cpu_ratio")
    if others is not None and len(known) == len(own):
        told["others_cpu_ratio"] = max(0.0, others - sum(known))
    return {**results, "timed": told}


def _tokens(mine: Mapping[str, Any], tables: list[dict[str, Any]]) -> dict[str, Any]:
    """Tokens of every iteration summed over the ranks; None where one of them did not count its own."""
    if not mine.get("tokens"):
        return {}
    counted = [table["tokens"] for table in tables if table.get("tokens")]
    if len(counted) < len(tables) or len({len(one) for one in counted}) > 1:
        return {"tokens": None, "tokens_per_iteration": None}
    summed = [sum(together) for together in zip(*counted, strict=True)]
    return {"tokens": summed, "tokens_per_iteration": sum(summed) / len(summed)}


def _ended(outcome: Outcome, found: list[Rank], plan: Plan) -> Outcome:
    """The outcome of the rank that failed first by itself."""
    told = sorted((one for one in found if one.gathered.failure is not None), key=lambda one: one.failed_ns)
    own = [one for one in told if one.gathered.failure and not _is_secondary(one.gathered.failure)]
    if own:
        return _failed(outcome, own[0], _name(own, found))
    gone = [
        one
        for one in found
        if one.gathered.failure is None and not one.gathered.finished and one.code not in (None, *OUTLIVED)
    ]
    if gone:
        return _crashed(outcome, gone[0])
    late = [
        one for one in told if one.gathered.failure and one.gathered.failure.details["secondary"] == "late"
    ]
    if late:
        return _late(outcome, late[0], found, plan)
    if told:
        return _failed(outcome, told[0], f"rank {told[0].index}")
    said = outcome.sentence or crash_sentence(
        outcome.returncode, "after rank 0 had finished", Path(outcome.log)
    )
    return dataclasses.replace(outcome, word="crashed", failure=None, sentence=said)


def _is_secondary(failure: Failed) -> bool:
    return bool(failure.details.get("secondary"))


def _name(own: list[Rank], found: list[Rank]) -> str:
    """Which rank it was; "" when all of them said the same."""
    said = {(one.gathered.failure.kind, one.gathered.failure.sentence) for one in own if one.gathered.failure}
    return "" if len(own) == len(found) and len(said) == 1 else f"rank {own[0].index}"


def _failed(outcome: Outcome, one: Rank, name: str) -> Outcome:
    failure = one.gathered.failure
    assert failure is not None
    if name:
        details = {**failure.details, "rank": one.index}
        failure = dataclasses.replace(failure, sentence=f"{name}: {failure.sentence}", details=details)
    return dataclasses.replace(
        outcome,
        word="out-of-memory" if failure.kind == "out-of-memory" else "failed",
        failure=failure,
        sentence=failure_sentence(failure),
        phase=one.gathered.phase or "start",
    )


def _crashed(outcome: Outcome, one: Rank) -> Outcome:
    said = crash_sentence(one.code, one.gathered.place, Path(outcome.log))
    sentence = f"rank {one.index}: {said}; the other ranks were ended"
    return dataclasses.replace(
        outcome, word="crashed", failure=None, sentence=sentence, phase=one.gathered.phase or "start"
    )


def _late(outcome: Outcome, one: Rank, found: list[Rank], plan: Plan) -> Outcome:
    """One waited in vain: say where the others were last."""
    waited = _asked(plan).get("timeout_s") or 0.0
    others = [f"rank {other.index} was last {other.gathered.place}" for other in found if other is not one]
    assert one.gathered.failure is not None
    failure = dataclasses.replace(
        one.gathered.failure,
        kind="unsupported",
        where="",
        sentence=f"rank {one.index} waited {waited:g} s {one.gathered.place} for the others: {', '.join(others)}",
        hint="every rank must do the same collectives; ranks were ended",
    )
    return dataclasses.replace(outcome, word="failed", failure=failure, sentence=failure_sentence(failure))
