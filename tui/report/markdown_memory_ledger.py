"""One ledger as a page of Markdown: exact bytes of every column, what each is from, and why others are not known."""

from __future__ import annotations

from tui.budget.ledger import Ledger
from tui.project.model import Spec
from tui.report import ledger_csv, sentences
from tui.report.figures import BYTES
from tui.report.ledger_csv import Cells
from tui.report.markdown_text import escaped, table

_FIGURES = (
    "declared_bytes",
    "predicted_bytes",
    "predicted_low_bytes",
    "predicted_high_bytes",
    "measured_bytes",
    "difference_bytes",
)
_WORDS = ("declared_as", "measured_from", "cause", "evidence")
_HEADS = {
    "declared_bytes": "declared",
    "predicted_bytes": "predicted",
    "predicted_low_bytes": "predicted, at least",
    "predicted_high_bytes": "predicted, at most",
    "measured_bytes": "measured",
    "difference_bytes": "measured less predicted",
    "declared_as": "declared as",
    "measured_from": "measured from",
}


def page(spec: Spec, found: Ledger) -> str:
    """The whole page, which ends with a line feed."""
    at = found.situation
    asked = sentences.batch(at.micro, at.accumulate, spec.placement.ranks, at.length)
    where = [found.phase or "declared", asked, at.precision]
    ids = [one for one in (found.probe_id, found.prediction_id) if one]
    lines = [
        f"# Ledger: {escaped(sentences.title(spec))}",
        "",
        f"{escaped(' · '.join([*where, *ids]))}; bytes.",
        "",
    ]
    cells = ledger_csv.rows(found)
    figures = ledger_csv.shown(cells, _FIGURES)
    head = ["row", *(_HEADS.get(name, name) for name in figures)]
    lines += table(head, [[_label(one), *(_figure(one[name]) for name in figures)] for one in cells])
    words = ledger_csv.shown(cells, _WORDS)
    head = ["row", *(_HEADS.get(name, name) for name in words), "not known because"]
    said = [[_label(one), *(escaped(str(one[name] or "")) for name in words), _unknown(one)] for one in cells]
    lines += ["", *table(head, said, numbers=False), ""]
    lines += [f"- {escaped(one)}" for one in _sums(found)]
    lines += [f"- {escaped(one)}." for one in sentences.budget(found.verdict, BYTES)]
    if found.verdict.unknown_rows:
        lines.append(f"- unknown for want of: {escaped('; '.join(found.verdict.unknown_rows))}.")
    return "\n".join([*lines, "", f"**{escaped(sentences.verdict(found.verdict, BYTES))}**", ""])


def _label(one: Cells) -> str:
    name = escaped(str(one["label"]))
    name = {"sum": f"**{name}**", "part": f"· {name}"}.get(str(one["kind"]), name)
    return name if one["residence"] == "device" else f"{one['residence']}: {name}"


def _figure(value: int | str | None) -> str:
    return "" if value in (None, "") else f"{value:,}"


def _unknown(one: Cells) -> str:
    said = {
        f"{name}: {one[f'{name}_unknown']}"
        for name in ("declared", "predicted", "measured")
        if one[f"{name}_unknown"]
    }
    return escaped("; ".join(sorted(said)))


def _sums(found: Ledger) -> list[str]:
    lines = [f"{check.sum.replace('_', '-')}: {check.text}." for check in found.checks]
    told = found.reconciled
    if told is not None and found.probe is not None:
        lines.append(
            f"Absolute differences add up to {told.absolute_bytes:,} B in {told.differing} of {told.compared} rows, "
            f"{told.unexplained_bytes:,} B of it unexplained; {told.unattributed_bytes:,} B of "
            f"{told.requested_bytes:,} B requested are unattributed."
        )
    return lines
