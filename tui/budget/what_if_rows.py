"""Two specs side by side, row by row: declared at once, predicted where a prediction is at hand.

Pure.  Sizes are bytes.  Figures are compared with figures of the same origin alone: a predicted row never with a
declared one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tui.budget.declared import Declared, Situation, declared
from tui.budget.forecast import Forecast, forecast
from tui.budget.prediction import prediction_verdict
from tui.budget.rows import Kind, row_names
from tui.budget.verdict import Verdict, verdict
from tui.budget.what_if import Change
from tui.project.inventory import Inventory
from tui.project.load import Project
from tui.project.prediction import Prediction

NOT_DECLARED = "no formula gives it"
NOT_ASKED = "not predicted yet"
APART = "one side is predicted, the other only declared"


@dataclass(frozen=True, slots=True)
class Case:
    """One spec: what is declared of it, and its prediction or why there is none."""

    project: Project
    inventory: Inventory | None
    """Of this spec's model; None: not counted."""
    device: str
    """cpu | cuda: what the rows are of."""
    prediction: Prediction | None = None
    refused: str = ""
    """Why it cannot be predicted, in a sentence; "": it is, or nobody asked."""
    origin: str = ""
    """saved | cached | predicted: where the prediction is from; "" without one."""
    total_bytes: int | None = None
    """Memory of the GPU that is predicted for; None: of none in particular."""

    @property
    def phase(self) -> str | None:
        """The worst phase by prediction."""
        return None if self.prediction is None else self.prediction.worst_phase

    @property
    def verdict(self) -> Verdict:
        """Whether it fits, by prediction; UNKNOWN with the reason without one."""
        spec = self.project.spec
        if self.prediction is not None:
            return prediction_verdict(spec, self.prediction)
        total = self.total_bytes if self.device == "cuda" else None
        found = verdict(
            None,
            spec.budget.job,
            spec.budget.reserve,
            device_total=total,
            unknown=self.refused or NOT_ASKED,
        )
        return replace(found, by="prediction")


@dataclass(frozen=True, slots=True)
class Side:
    """One figure of a row; ``bytes`` is None where there is none, or where it is a range."""

    bytes: int | None = None
    origin: str = ""
    """predicted | declared; "" where there is no figure."""
    text: str = ""
    """The declared arithmetic."""
    unknown: str = ""
    range: tuple[int, int] | None = None
    """At least and at most."""

    @property
    def is_known(self) -> bool:
        """Whether there is a figure or a range."""
        return self.bytes is not None or self.range is not None


@dataclass(frozen=True, slots=True)
class Compared:
    """One row now and then."""

    key: str
    label: str
    kind: Kind
    now: Side
    then: Side

    @property
    def difference(self) -> int | None:
        """Then less now; None where a side is unknown or of another origin, or where ranges differ in width."""
        now, then = self.now, self.then
        if now.origin != then.origin:
            return None
        if now.bytes is not None and then.bytes is not None:
            return then.bytes - now.bytes
        if now.range is None or then.range is None:
            return None
        low, high = (later - before for before, later in zip(now.range, then.range, strict=True))
        return low if low == high else None

    @property
    def is_changed(self) -> bool:
        """Whether the change shows here: another figure, or a figure on one side alone."""
        if self.difference is not None:
            return self.difference != 0
        return (self.now.bytes, self.now.range) != (self.then.bytes, self.then.range)

    @property
    def why(self) -> str:
        """Why there is no difference; "" where there is one."""
        if self.difference is not None:
            return ""
        if self.now.is_known and self.then.is_known:
            return APART if self.now.origin != self.then.origin else "the two ranges differ in width"
        return self.then.unknown or self.now.unknown


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scenario beside the present spec."""

    changes: tuple[Change, ...]
    now: Case
    then: Case
    rows: tuple[Compared, ...]
    phases: tuple[str | None, str | None]
    """At whose peaks the rows are, now and then; None: of the steady iteration."""

    @property
    def changed(self) -> tuple[Compared, ...]:
        """Rows that change, the largest change first, then the sums that do, in the ledger's order."""
        found = [row for row in self.rows if row.is_changed]
        rows = sorted((row for row in found if row.kind == "row"), key=_weight)
        return (*rows, *(row for row in found if row.kind == "sum"))

    @property
    def unchanged(self) -> tuple[Compared, ...]:
        """Rows with the same figure on both sides."""
        return tuple(row for row in self.rows if not row.is_changed and row.then.is_known)

    @property
    def unknown(self) -> tuple[Compared, ...]:
        """Rows that neither side has a figure of."""
        return tuple(row for row in self.rows if not row.now.is_known and not row.then.is_known)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The present spec, and every scenario beside it."""

    now: Case
    comparisons: tuple[Comparison, ...]


def _weight(row: Compared) -> tuple[bool, int]:
    """Rows with a difference first, the largest first; then those that one side alone has."""
    if row.difference is not None:
        return False, -abs(row.difference)
    sizes = [max(side.range) if side.range else side.bytes or 0 for side in (row.now, row.then)]
    return True, -max(sizes)


def compare(now: Case, then: Case, changes: tuple[Change, ...]) -> Comparison:
    """The rows of both, each at the peak of its own worst phase.

    Args:
        now: the present spec.
        then: the changed one.
        changes: what makes the second of the first.
    """
    both = now.prediction is not None and then.prediction is not None
    at = now.phase or then.phase
    phases = (now.phase, then.phase) if both else (at, at)
    known = [_Columns.of(one, phase) for one, phase in zip((now, then), phases, strict=True)]
    rows: list[Compared] = []
    for name in row_names(then.device):
        sides = _sides(name.key, known[0], known[1])
        label = f"= {name.label}" if name.kind == "sum" else name.label
        rows.append(Compared(name.key, label, name.kind, *sides))
    return Comparison(changes, now, then, tuple(rows), phases)


@dataclass(frozen=True, slots=True)
class _Columns:
    """What is declared and what is predicted of one case in one phase."""

    formulas: Mapping[str, Declared]
    predicted: Forecast | None

    @classmethod
    def of(cls, case: Case, phase: str | None) -> _Columns:
        """The columns of ``case``."""
        spec, found = case.project.spec, case.prediction
        batch = spec.workload.batch
        longest = batch.length.max if batch.length else None
        at = Situation(spec.precision.use, batch.micro, batch.accumulate, longest, case.device, phase)
        formulas = dict(declared(spec, case.inventory, at))
        formulas["reserve"] = Declared(spec.budget.reserve, spec.budget.reserve_for or "entered")
        if case.device == "cuda" and case.total_bytes is not None:
            formulas["device_total"] = Declared(case.total_bytes, "the GPU's total")
        return cls(formulas, None if found is None else forecast("", found, phase))

    def predicted_side(self, key: str) -> Side | None:
        """The predicted figure or range, with the arithmetic that is declared of the row; None: there is none."""
        column, text = self.predicted, self.formulas.get(key, Declared(None)).text
        if column is None:
            return None
        if key in column.bytes:
            return Side(column.bytes[key], "predicted", text)
        if key in column.ranges:
            return Side(None, "predicted", text, column.reason(key), column.ranges[key])
        return None

    def declared_side(self, key: str) -> Side | None:
        """The declared figure; None: there is none."""
        found = self.formulas.get(key)
        return None if found is None or found.bytes is None else Side(found.bytes, "declared", found.text)

    def reason(self, key: str) -> str:
        """Why the row has no figure."""
        found = self.formulas.get(key)
        if self.predicted is not None:
            return self.predicted.reason(key)
        return found.unknown if found is not None and found.unknown else NOT_DECLARED


def _sides(key: str, now: _Columns, then: _Columns) -> tuple[Side, Side]:
    """Both predicted where both are, else both declared where both are, else what each has."""
    predicted = now.predicted_side(key), then.predicted_side(key)
    if predicted[0] is not None and predicted[1] is not None:
        return predicted[0], predicted[1]
    formulas = now.declared_side(key), then.declared_side(key)
    if formulas[0] is not None and formulas[1] is not None:
        return formulas[0], formulas[1]
    found = [
        first or second or Side(unknown=column.reason(key))
        for first, second, column in zip(predicted, formulas, (now, then), strict=True)
    ]
    return found[0], found[1]
