"""The text of ``peakmark what-if``: what a change makes of the ledger, what changes first."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tui.budget import prediction as predictions
from tui.budget import what_if
from tui.budget.what_if_rows import Case, Compared, Comparison, Side, WhatIf
from tui.report import figures
from tui.report.figures import Unit, unit_for
from tui.report.lines import clip, closing, columns, hanging, joined, labelled, right, wrap

LABEL, INDENT = 24, 10
COLUMNS = (11, 11, 12)
NAME = 22
SUMMARY = (10, 9, 12, 10)
"""Columns of requested, reserved, process and spare."""
BRIEF = {"FITS ONLY WITHOUT THE RESERVE": "USES RESERVE"}
"""Verdicts that are too long for a column."""
REFUSED = "cannot predict: "
AROUND = ("device_total", "host_total")


def what_if_lines(found: WhatIf, project: str, width: int = 80, *, accepted: bool = False) -> list[str]:
    """Every scenario beside the present spec; of several a line each first.

    Args:
        found: see ``engine.steps.what_if.scenarios``.
        project: as the shell takes it, for the command that comes next.
        width: columns.
        accepted: the last scenario was written: no command comes next.
    """
    unit = unit_of(found)
    lines: list[str] = []
    if len(found.comparisons) > 1:
        lines += [*_summary(found, unit, width), ""]
    for at, one in enumerate(found.comparisons):
        lines += [*([""] if at else []), *_scenario(one, unit, width)]
    return lines if accepted else [*lines, *closing(_next(found, project), width)]


def unit_of(found: WhatIf) -> Unit:
    """GiB, or MiB where all that this process would hold is below one."""
    sizes = [
        side.bytes
        for one in found.comparisons
        for row in one.rows
        for side in (row.now, row.then)
        if row.key not in (*AROUND, "reserve") and side.bytes is not None
    ]
    return unit_for(max(sizes, default=None))


def _scenario(one: Comparison, unit: Unit, width: int) -> list[str]:
    lines = hanging("WHAT IF " + ", ".join(str(change) for change in one.changes), width)
    lines += joined([_for(one.then), *_phases(one)], width)
    lines.append(
        clip(f"{unit.name.ljust(LABEL)}{right(('now', 'then', 'difference'), COLUMNS)}  from", width)
    )
    shown = [row for row in one.unchanged if row.now.range or row.now.bytes]
    lines += [_row(row, unit, width) for row in one.changed]
    if not one.changed:
        lines.append("no row changes")
    if shown:
        lines += ["unchanged", *(_row(row, unit, width) for row in shown)]
    if one.unknown:
        lines += labelled(
            "n/a", ", ".join(row.label.removeprefix("= ") for row in one.unknown), INDENT, width
        )
    if one.then.prediction is None and one.then.inventory is None:
        counted = "not counted yet" if one.now.inventory is None else "not counted of the changed model"
        lines += labelled("declared", f"n/a where parameters count: they were {counted}", INDENT, width)
    lines += _refused(one, width)
    lines += labelled("verdict", _verdicts(one), INDENT, width)
    lines += labelled("spare", _spare(one, unit), INDENT, width)
    return lines + [shown for line in _diff(one) for shown in _whole(f"  {line}", width)]


def _for(case: Case) -> str:
    found = case.prediction
    if found is None:
        return "declared rows alone" if case.device == "cuda" else "declared rows alone, for the CPU"
    if found.semantics == "cpu":
        return "for the CPU"
    return f"for {found.target} ({found.target_from})" if found.target else "for no GPU in particular"


def _phases(one: Comparison) -> list[str]:
    now, then = one.phases
    if now is None and then is None:
        return ["steady iteration"]
    if now == then:
        return [f"peak in {then}"]
    return [f"peak in {now or 'n/a'} now, in {then or 'n/a'} then"]


def _row(row: Compared, unit: Unit, width: int) -> str:
    cells = (_cell(row.now, unit), _cell(row.then, unit), unit.signed(row.difference))
    return clip(f"{clip(row.label, LABEL - 1).ljust(LABEL)}{right(cells, COLUMNS)}  {_origin(row)}", width)


def _cell(side: Side, unit: Unit) -> str:
    return figures.span(side.range, unit) if side.range is not None else unit.cell(side.bytes)


def _origin(row: Compared) -> str:
    now, then = row.now, row.then
    if now.origin != then.origin:
        return f"{now.origin or 'n/a'} -> {then.origin or 'n/a'}"
    if then.origin == "declared" and then.text:
        own = row.key in (*AROUND, "reserve") or then.text.startswith("entered")
        return then.text if own else f"declared: {then.text}"
    return then.origin


def _refused(one: Comparison, width: int) -> list[str]:
    lines: list[str] = []
    for name, case in (("now", one.now), ("then", one.then)):
        if case.prediction is None and case.refused:
            lines += labelled(name, f"not predicted: {case.refused.removeprefix(REFUSED)}", INDENT, width)
    torch = [case.prediction.torch for case in (one.now, one.then) if case.prediction is not None]
    if len(set(torch)) > 1:
        lines += labelled("torch", f"{torch[0]} predicted now, {torch[1]} then", INDENT, width)
    return lines


def _verdicts(one: Comparison) -> str:
    now, then = one.now.verdict, one.then.verdict
    said = f"{now.word} -> {then.word}" if now.word != then.word else f"{then.word}, as now"
    predicted = one.then.prediction is not None
    return (
        f"{said}, by prediction"
        if predicted and not then.why
        else f"{said}{f': {then.why}' if predicted else ''}"
    )


def _spare(one: Comparison, unit: Unit) -> str:
    now, then = one.now.verdict.spare_bytes, one.then.verdict.spare_bytes
    text = f"{unit.text(now)} -> {unit.text(then)}"
    return text if now is None or then is None else f"{text} ({unit.signed(then - now)})"


def _diff(one: Comparison) -> list[str]:
    """The lines of the file that change."""
    text = what_if.difference(one.now.project, one.then.project, lines=0)
    return [line for line in text.splitlines()[2:] if not line.startswith("@@") and len(line) > 1]


def _whole(line: str, width: int) -> list[str]:
    """A line of the file in full: as it is where it fits, else on several."""
    if columns(line) <= width:
        return [line]
    first, *rest = wrap(line, width - 2, 2, "  ")
    return [first, *(f"  {one}" for one in rest)]


def words(one: Comparison) -> str:
    """The changes as the command line has them."""
    return " ".join(what_if.word(change) for change in one.changes)


def _summary(found: WhatIf, unit: Unit, width: int) -> list[str]:
    head = ("requested", "reserved", "process", "spare")
    lines = [clip(f"{unit.name.ljust(NAME)}{right(head, SUMMARY)}  verdict", width)]
    table = [("now", found.now), *((words(one), one.then) for one in found.comparisons)]
    for name, case in table:
        cells = (*_sizes(case, unit), unit.cell(case.verdict.spare_bytes, 10))
        word = BRIEF.get(case.verdict.word, case.verdict.word)
        first, *rest = wrap(name, NAME - 1)
        lines.append(clip(f"{first.ljust(NAME)}{right(cells, SUMMARY)}  {word}", width))
        lines += rest
    return lines


def _sizes(case: Case, unit: Unit) -> tuple[str, str, str]:
    found = case.prediction
    if found is None:
        return "n/a", "n/a", "n/a"
    process = predictions.process_range(found)
    requested, reserved = (predictions.most(found, f"{name}_bytes") for name in ("requested", "reserved"))
    return (
        unit.cell(requested),
        unit.cell(reserved),
        "n/a" if process is None else figures.span(process, unit),
    )


def _next(found: WhatIf, project: str) -> str:
    last = found.comparisons[-1]
    if last.then.prediction is None:
        return "Nothing is saved."
    asked: Sequence[str] = [shlex.quote(what_if.word(change)) for change in last.changes]
    return f"Nothing is saved. Next: peakmark what-if {project} {' '.join(asked)} --accept"


def accepted_lines(one: Comparison, path: str, width: int) -> list[str]:
    """What was written to the project."""
    return wrap(f"Written to {path}: {', '.join(str(change) for change in one.changes)}.", width)
