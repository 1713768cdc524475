"""A verdict from the rows of a ledger: sums of what is declared, and which rows leave it unknown.

Sizes are bytes.  A sum is declared only when every row inside it is; what some rows take by themselves is enough to say
that something cannot fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tui.budget.rows import Row
from tui.budget.verdict import Verdict, verdict
from tui.project.model import Spec

_INSIDE = ("requested", "tensor_allocated", "allocator_reserved", "process")
"""Sums of the rows before them, from the inside out."""
NOTHING = "nothing was measured yet"


def with_declared_sums(rows: Sequence[Row]) -> tuple[Row, ...]:
    """``rows`` whose sums are declared where all rows inside are; unattributed bytes are declared by nobody."""
    made: list[Row] = []
    total, whole, ended = 0, True, False
    for row in rows:
        if ended or row.kind == "row":
            whole = whole and (row.declared is not None or row.key == "unattributed")
            total += row.declared or 0
            made.append(row)
            continue
        ended = row.key == "process"
        if row.key in _INSIDE and whole and row.declared is None:
            reasons = {key: said for key, said in row.reasons.items() if key != "declared"}
            made.append(replace(row, declared=total, declared_as="the rows above", reasons=reasons))
        else:
            made.append(row)
    return tuple(made)


def inside_process(rows: Sequence[Row]) -> list[Row]:
    """The rows that process is made of, sums left out."""
    keys = [row.key for row in rows]
    return [row for row in rows[: keys.index("process")] if row.kind == "row"]


def unknown_rows(rows: Sequence[Row], column: str) -> tuple[str, ...]:
    """Labels of the rows inside process that ``column`` (declared | predicted | measured) has no figure for.

    A range is a figure; without any row of its own, process itself is what is not known.
    """
    found: list[str] = []
    for row in inside_process(rows):
        known = getattr(row, column) is not None or (
            column == "predicted" and row.predicted_range is not None
        )
        if not known and row.key != "unattributed":
            found.append(row.label)
    return tuple(found) or ("process",)


def by_declaration(spec: Spec, rows: Sequence[Row]) -> Verdict:
    """Whether it fits by what is declared alone: known when every row inside process is, or when some are too much."""
    process = next(row for row in rows if row.key == "process").declared
    least = sum(row.declared or 0 for row in inside_process(rows))
    entered = spec.ledger
    found = verdict(
        process if process is not None else least,
        spec.budget.job,
        spec.budget.reserve,
        device_total=entered.device_total,
        others=entered.other_processes,
        driver_reserved=entered.driver_reserved,
    )
    found = replace(found, by="declaration")
    if process is not None:
        return found
    limit = found.budget_bytes
    if found.word == "DOES NOT FIT" and limit is not None:
        why = f"the declared rows alone take {least:,} B, {least - limit:,} B more than the {limit:,} B there are"
        return replace(found, why=why)
    return replace(
        found, word="UNKNOWN", process_bytes=None, spare_bytes=None, why=NOTHING, by="measurement",
        unknown_rows=unknown_rows(rows, "declared"),
    )  # fmt: skip
