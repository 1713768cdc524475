"""Predicted and measured, row by row: what every difference comes from, and how much of all of it is explained.

A row that is off by more than max(1 MiB, 1 %) of what was predicted gets one cause of ``reconcile_causes.CAUSES``;
a sum is off because of the rows inside.  Sizes are bytes, differences are measured less predicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tui.budget import reconcile_causes as causes
from tui.budget.forecast import UNEXPLAINED, needs_cause
from tui.budget.reconcile_causes import Cause, Figures
from tui.budget.reconcile_evidence import Case
from tui.budget.rows import Row

_NOTHING = Cause(UNEXPLAINED)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The differences of one ledger together; rows of a single figure alone, sums left out."""

    absolute_bytes: int
    """Sum of the absolute differences."""
    compared: int
    """Rows with both figures."""
    differing: int
    """Those of them that are not equal to the byte."""
    unexplained_bytes: int
    """Of ``absolute_bytes``: in rows that are off and have no cause."""
    unattributed_bytes: int
    """Requested bytes that no label explains."""
    requested_bytes: int
    minor: Mapping[str, Cause] = field(default_factory=dict[str, Cause])
    """Causes of differences that are too small to need one, by row."""

    @property
    def unattributed_ratio(self) -> float:
        """Share of the requested bytes that no label explains."""
        return self.unattributed_bytes / self.requested_bytes if self.requested_bytes else 0.0


def reconcile(rows: Sequence[Row], case: Case) -> tuple[tuple[Row, ...], Reconciled | None]:
    """``rows`` with the cause and evidence of every one that is off, and what that comes to.

    Returns:
        None instead of the second where no row has both figures.
    """
    figures: Figures = {row.key: (row.predicted, row.measured) for row in rows}
    found = _of_rows(rows, figures, case)
    for place, row in enumerate(rows):
        if row.kind == "sum" and _is_off(row):
            found[row.key] = _of_sum(row, [one for one in rows[:place] if one.kind == "row"], found)
    made = tuple(
        replace(row, cause=found[row.key].word, evidence=found[row.key].evidence) if row.key in found else row
        for row in rows
    )
    return made, _summary(made, case)


def off_by(row: Row) -> int | None:
    """Measured less predicted; of a range, how far outside of it; None: a figure is not there."""
    if row.difference is not None:
        return row.difference
    if row.measured is None or row.predicted_range is None:
        return None
    low, high = row.predicted_range
    return row.measured - min(max(row.measured, low), high)


def _is_off(row: Row) -> bool:
    size = off_by(row)
    if row.predicted_range is not None and row.predicted is None:
        return bool(size)
    return bool(size) and needs_cause(size, row.predicted)


def _of_rows(rows: Sequence[Row], figures: Figures, case: Case) -> dict[str, Cause]:
    off = [row for row in rows if row.kind == "row" and _is_off(row)]
    found: dict[str, Cause] = {}
    for row in off:
        if (cause := causes.shown(row.key, figures, case)) is not None:
            found[row.key] = cause
    left = [row for row in off if row.key not in found]
    found |= _by_instant([row for row in left if row.key in causes.PASSING], figures, case)
    for row in left:
        if row.key in found:
            continue
        outside = Cause(UNEXPLAINED, "outside the range") if row.predicted is None else _NOTHING
        known = causes.likely(row.key, case) if case.found and row.predicted is not None else None
        found[row.key] = known or outside
    return found


def _by_instant(rows: Sequence[Row], figures: Figures, case: Case) -> dict[str, Cause]:
    """Rows that only traded bytes, because the peaks are two instants of nearly the same height."""
    where = causes.instant(case)
    net = sum(row.difference or 0 for row in rows)
    if not where or len(rows) < 2 or needs_cause(net, figures["requested"][0] or 0):
        return {}
    together = f"the {len(rows)} rows together {causes.signed(net) if net else 'agree'}"
    cause = Cause(causes.INSTANT, f"{where}; {together}")
    return {row.key: cause for row in rows}


def _of_sum(row: Row, inside: Sequence[Row], found: Mapping[str, Cause]) -> Cause:
    size = off_by(row) or 0
    known = [
        one for one in inside if off_by(one) and (one.key not in found or found[one.key].word != UNEXPLAINED)
    ]
    rest = size - sum(off_by(one) or 0 for one in known)
    if row.predicted is None and rest * size < 0:
        rest = 0  # the range takes up some of what its parts are off by
    largest = max(known, key=lambda one: abs(off_by(one) or 0), default=None)
    if largest is None or needs_cause(rest, row.predicted or 0):
        return _NOTHING
    named = [one for one in known if one.key in found]
    if len(named) == 1:
        return found[named[0].key]
    said = ", ".join(f"{one.label} {causes.signed(off_by(one) or 0)}" for one in named or known)
    word = found[largest.key].word if largest.key in found else _NOTHING.word
    return Cause(word, f"the sum of {said}")


def _summary(rows: Sequence[Row], case: Case) -> Reconciled | None:
    both = [row for row in rows if row.kind == "row" and row.difference is not None]
    if not both:
        return None
    by_key = {row.key: row for row in rows}
    minor = {
        row.key: cause
        for row in both
        if not row.cause
        and case.found is not None
        and (cause := causes.minor(row.key, row.difference or 0, row.predicted or 0, case)) is not None
    }
    return Reconciled(
        absolute_bytes=sum(abs(row.difference or 0) for row in both),
        compared=len(both),
        differing=sum(1 for row in both if row.difference),
        unexplained_bytes=sum(abs(row.difference or 0) for row in both if row.cause == UNEXPLAINED),
        unattributed_bytes=by_key["unattributed"].measured or 0,
        requested_bytes=by_key["requested"].measured or 0,
        minor=minor,
    )
