"""The JSON document of ``peakmark what-if``."""

from __future__ import annotations

from typing import Any, cast

from tui.budget import what_if
from tui.budget.what_if import Change
from tui.budget.what_if_rows import Case, Compared, Comparison, Side, WhatIf
from tui.report.envelope import Document, Source, enveloped, verdict_table
from tui.report.json_values import Missing, known

NOT_SET = "not set in the file"


def what_if_document(source: Source, found: WhatIf, accepted: bool = False) -> Document:
    """The present spec, then every scenario with its rows in the ledger's order.

    Args:
        source: the project as it was when it was asked.
        found: see ``engine.steps.what_if.scenarios``.
        accepted: whether the last scenario was written into the project.
    """
    body = {
        "now": _case(found.now),
        "scenarios": [_scenario(one) for one in found.comparisons],
        "accepted": accepted,
    }
    made = enveloped("what-if", source, None, body)
    made["unknown"]["environment"] = "a prediction is of no device that was measured on"
    return made


def _scenario(one: Comparison) -> Document:
    return {
        "changes": [_change(change) for change in one.changes],
        "diff": what_if.difference(one.now.project, one.then.project),
        **_case(one.then),
        "phase_now": known(one.phases[0], "of the steady iteration"),
        "phase_then": known(one.phases[1], "of the steady iteration"),
        "rows": [_row(row) for row in one.rows],
    }


def _change(change: Change) -> Document:
    return {
        "key": change.key,
        "was": known(_plain(change.was), NOT_SET),
        "becomes": known(_plain(change.becomes), "the key is deleted"),
    }


def _plain(value: Any) -> Any:
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


def _case(case: Case) -> Document:
    found = case.prediction
    why = case.refused or "not asked for"
    return {
        "verdict": verdict_table(case.verdict),
        "prediction": known(case.origin or None, why),
        "target": Missing(why) if found is None else known(found.target or None, found.target_from),
        "torch": known(None if found is None else found.torch, why),
        "worst_phase": known(case.phase, why),
        "assumptions": [] if found is None else list(found.assumptions),
        "approximate": [] if found is None else list(found.approximate),
    }


def _row(row: Compared) -> Document:
    return {
        "row": row.key,
        "kind": row.kind,
        "changed": row.is_changed,
        "now": _side(row.now),
        "then": _side(row.then),
        "difference_bytes": known(row.difference, row.why),
    }


def _side(side: Side) -> Document:
    made: Document = {
        "bytes": known(side.bytes, side.unknown or "a range"),
        "from": side.origin,
        "formula": side.text,
    }
    if side.range is not None:
        made |= {"low_bytes": side.range[0], "high_bytes": side.range[1]}
    return made
