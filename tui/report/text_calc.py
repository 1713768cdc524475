"""Calculations as text: a line for every term with its figure, its symbols and the numbers put in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tui import units
from tui.budget.arguments import Argument
from tui.budget.fixed_shapes import LEFT_OUT, Plan
from tui.budget.kinds import KINDS, Kind
from tui.budget.worked import Term, Worked
from tui.report.lines import clean, clip, columns, hanging, labelled, wrap

LONGEST_LABEL = 28
LEAST_ROOM = 24
"""Columns below which a formula goes on lines of its own."""
GROUPS = ("layers", "storage", "families")


def worked_lines(found: Worked, given: Mapping[str, Any], width: int = 80) -> list[str]:
    """What was put in, the terms, their total, further answers, and what one block is made of.

    Args:
        found: the calculation.
        given: the arguments that were given; of a family only these are shown.
        width: columns.
    """
    family = KINDS[found.kind].group == "families"
    shown = given if family else found.inputs
    words = " ".join(f"{name}={written(value)}" for name, value in shown.items() if value is not None)
    total = Term("total", "", "", found.total)
    each = [(one, inner) for one in found.terms for inner in one.inner]
    every = [
        *found.terms,
        total,
        *found.further,
        *(Term(f"  {inner.name}", "", "", inner.value) for _, inner in each),
    ]
    label = min(LONGEST_LABEL, max(columns(one.name) for one in every) + 1)
    figure = max(len(f"{one.value:,}") for one in every) + 1
    lines = wrap(words or "all arguments at their defaults", width, len(found.kind) + 2, f"{found.kind}  ")
    for one in found.terms:
        lines += _term(one, label, figure, width)
    lines += _term(total, label, figure, width, found.unit)
    for one in found.further:
        lines += _term(one, label, figure, width)
    for outer in found.terms:
        if outer.inner:
            lines.append("in one block" if outer.name.endswith(" blocks") else f"in {outer.name}")
        for one in outer.inner:
            lines += _term(Term(f"  {one.name}", one.symbols, one.numbers, one.value), label, figure, width)
    if family and words:
        lines += hanging(f"others at their defaults: peakmark calc params --list {found.kind}", width)
    return [*lines, *(hanging(found.note, width) if found.note else [])]


def _term(one: Term, label: int, figure: int, width: int, unit: str = "") -> list[str]:
    """Name, figure, and ``symbols = numbers``, the numbers on a line of their own where both are too long."""
    head = f"{clip(one.name, label - 1).ljust(label)}{one.value:>{figure},}  "
    indent = len(head)
    if not one.symbols:
        return [f"{head}{unit}".rstrip()]
    if width - indent < LEAST_ROOM:
        text = f"{one.symbols} = {one.numbers}" if one.numbers else one.symbols
        return [head.rstrip(), *wrap(text, width, 4, " " * 4)]
    if not one.numbers or one.numbers == one.symbols:
        return wrap(one.symbols, width, indent, head)
    both = f"{one.symbols} = {one.numbers}"
    if indent + len(both) <= width:
        return [head + both]
    return [*wrap(one.symbols, width, indent, head), *wrap(f"= {one.numbers}", width, indent)]


def written(value: object) -> str:
    """``value`` as an argument of the command line.

    >>> written([3, 4]), written(True), written(0.5)
    ('3,4', 'true', '0.5')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(one) for one in cast("Sequence[object]", value))
    return str(value)


def kinds_lines(width: int = 80) -> list[str]:
    """Every layer and family with its arguments; one without ``=`` must be given."""
    label = max(len(name) for name in KINDS) + 2
    lines = hanging("peakmark calc params KIND NAME=VALUE ...; NAME= alone must be given", width)
    for group in GROUPS:
        lines.append(group)
        for kind in KINDS.values():
            if kind.group == group:
                lines += labelled(f"  {kind.name}", kind.summary, label + 2, width)
                lines += wrap(" ".join(_short(one) for one in kind.arguments), width, label + 2)
    return [*lines, *hanging("what an argument means: peakmark calc params --list KIND", width)]


def kind_lines(kind: Kind, width: int = 80) -> list[str]:
    """The arguments of one layer or family, with what they mean."""
    label = max(len(_short(one)) for one in kind.arguments) + 2
    label = min(label, width // 2)
    lines = hanging(f"{kind.name}: {kind.summary}", width)
    for one in kind.arguments:
        said = [one.meaning, "" if not one.otherwise else f"default {one.otherwise}", " | ".join(one.choices)]
        said += ["must be given" if one.required else ""]
        lines += labelled(_short(one), "; ".join(filter(None, said)) or "-", label, width)
    return lines


def _short(one: Argument) -> str:
    """``groups=1``, ``in=`` where it must be given, ``[hidden]`` where it follows from others."""
    if one.default is None:
        return f"{one.name}=" if one.required else f"[{one.name}]"
    return f"{one.name}={written(one.default)}"


def batch_lines(plan: Plan, width: int = 80) -> list[str]:
    """Every tensor, the sum of a sample, the largest batch, and what is left out."""
    rows = [
        (one.name, one.bytes, f"{one.count} x {'x'.join(map(str, one.shape))} {one.dtype}")
        for one in plan.tensors
    ]
    rows += [("a sample", plan.sample_bytes, ""), ("fixed", plan.fixed_bytes, "")]
    if plan.budget_bytes is not None:
        rows.append(("budget", plan.budget_bytes, ""))
    label = min(LONGEST_LABEL, width // 3, max(columns(name) for name, _, _ in rows) + 2)
    figure = max(len(f"{size:,}") for _, size, _ in rows)
    lines: list[str] = []
    for name, size, text in rows:
        head = f"{_padded(name, label)}{size:>{figure},} B  {units.size(size):>11}  "
        if width - len(head) < 0:
            head = f"{_padded(name, label)}{size:>{figure},} B  "
        lines += wrap(text, width, len(head), head)
    return [*lines, *_largest(plan, label, width), *_asked(plan, label, width), *_planning_aid(plan, width)]


def _padded(name: str, width: int) -> str:
    """``name`` in ``width`` columns, of which the last is blank."""
    shown = clip(clean(name), width - 2)
    return shown + " " * (width - columns(shown))


def _largest(plan: Plan, label: int, width: int) -> list[str]:
    if plan.budget_bytes is None or plan.largest is None:
        return []
    left = plan.budget_bytes - plan.fixed_bytes
    text = f"({plan.budget_bytes:,} - {plan.fixed_bytes:,}) / {plan.sample_bytes:,}"
    if left >= 0:
        tenths = 10 * left // plan.sample_bytes  # rounded down, or 59.98 would read as 60
        text += f" = {tenths // 10:,}.{tenths % 10}"
    return labelled("largest", f"{text} -> {plan.largest:,}", label, width)


def _asked(plan: Plan, label: int, width: int) -> list[str]:
    batch = plan.batch if plan.batch is not None else plan.largest
    if not batch:
        return []
    size = plan.bytes(batch)
    text = f"{plan.fixed_bytes:,} + {batch:,} x {plan.sample_bytes:,} = {size:,} B, {units.size(size)}"
    if plan.budget_bytes is not None and size <= plan.budget_bytes:
        text += f"; {plan.budget_bytes - size:,} B to spare"
    return labelled(f"batch {batch:,}", text, max(label, len(f"batch {batch:,}") + 2), width)


def _planning_aid(plan: Plan, width: int) -> list[str]:
    lines: list[str] = []
    if short := plan.short_bytes:
        what = "one sample" if plan.batch is None else f"a batch of {plan.batch:,}"
        alone = plan.budget_bytes is not None and plan.fixed_bytes > plan.budget_bytes
        more = "; what is fixed is over it already" if alone else ""
        size = f"{short:,} B ({units.size(short)})" if short >= units.KIB else f"{short} B"
        lines = hanging(f"DOES NOT FIT: {what} is {size} over the budget{more}", width)
    text = f"PLANNING AID, fixed shapes: leaves out {LEFT_OUT}; the real limit is lower. Prove it: peakmark probe"
    return [*lines, *hanging(text, width)]
