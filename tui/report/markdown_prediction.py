"""The report's prediction: what was predicted beside what was measured, and what it stands on."""

from __future__ import annotations

from tui.budget import prediction as predictions
from tui.budget.ledger import Ledger, ledger
from tui.project.measured import Operating
from tui.project.prediction import Prediction
from tui.report import sentences
from tui.report.envelope import Source
from tui.report.figures import Unit, span
from tui.report.markdown_text import escaped, table
from tui.report.stale import changed, is_stale
from tui.report.text_predict import allocator, unit_of

SHOWN = ("requested", "tensor_allocated", "allocator_reserved", "context", "process")


def prediction(source: Source, found: Operating | None) -> list[str]:
    """Predicted, measured and difference of the sums, then the assumptions; nothing where nothing was predicted."""
    view = ledger(source.spec, source.measured, found.probe if found else None)
    if view.prediction is None or view.prediction_id is None:
        return []
    told, unit = view.prediction, unit_of(view.prediction)
    lines = [f"## Prediction ({view.prediction_id})", "", _of(source, told), ""]
    if is_stale(source, view.prediction_id):
        digits = changed(told.spec, source.fingerprint)
        lines += [f"**Stale**: the spec has changed since it was predicted ({digits}).", ""]
    lines += [*table(["", "predicted", "measured", "measured - predicted"], _rows(view, unit)), ""]
    if view.probe is None:
        verdict = predictions.prediction_verdict(source.spec, told)
        lines += [f"Nothing was measured beside it. {escaped(sentences.verdict(verdict, unit))}", ""]
    return [*lines, *_stands_on(told, unit)]


def _of(source: Source, told: Prediction) -> str:
    batch = sentences.batch(told.micro_batch, told.accumulate, told.ranks, told.length)
    where = "the CPU" if told.semantics == "cpu" else (told.target or "a CUDA GPU, none named")
    return escaped(f"{batch}, {told.precision}, for {where}; traced without values by torch {told.torch}.")


def _rows(view: Ledger, unit: Unit) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in view.rows:
        told = unit.cell(row.predicted) if row.predicted_range is None else span(row.predicted_range, unit)
        shown = row.predicted is not None or row.predicted_range is not None
        if row.key not in SHOWN or not shown:
            continue
        difference = "within" if row.within else unit.signed(row.difference)
        why = f" {row.cause}" if row.cause else ""
        rows.append([f"{row.label} ({unit.name})", told, unit.cell(row.measured), escaped(difference + why)])
    return rows


def _stands_on(told: Prediction, unit: Unit) -> list[str]:
    lines = [f"* assumed: {escaped(one)}" for one in told.assumptions]
    if told.semantics == "cuda":
        lines.append(f"* assumed: {escaped(allocator(told))}")
    if told.context_from:
        lines.append(f"* context: {escaped(told.context_from)}")
    lines += [f"* told {escaped(one)}" for one in told.answered]
    lines += [f"* approximate: {escaped(one)}" for one in told.approximate]
    lines += [f"* not covered: {escaped(one)}" for one in told.not_covered]
    if told.largest is not None:
        limit = unit.text(told.largest_limit_bytes)
        lines.append(f"* largest micro-batch by prediction: {told.largest}, within {limit} reserved")
    return lines or ["* nothing was assumed"]
