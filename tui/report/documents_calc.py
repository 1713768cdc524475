"""The JSON documents of ``peakmark calc``; they are of no project, so their head names none."""

from __future__ import annotations

from typing import Any

from tui import __version__
from tui.budget.arguments import Argument
from tui.budget.fixed_shapes import BITS, LEFT_OUT, Plan
from tui.budget.kinds import KINDS, Kind
from tui.budget.worked import Term, Worked
from tui.report.envelope import SCHEMA, Document
from tui.report.json_values import Missing, explained, known

FIGURE = {"parameters": "parameters_count", "elements": "elements_count", "bytes": "bytes"}


def headed(name: str, body: Document) -> Document:
    return explained({"schema": SCHEMA, "document": name, "peakmark": __version__, **body})


def worked_document(found: Worked, kind: Kind) -> Document:
    """A formula with symbols, numbers and result."""
    figure = FIGURE[found.unit]
    follows = {one.name: one.otherwise for one in kind.arguments}
    arguments = {name: known(value, f"follows: {follows[name]}") for name, value in found.inputs.items()}
    body: Document = {
        "kind": found.kind,
        "group": kind.group,
        "arguments": arguments,
        "terms": {one.name: _term(one, figure) for one in found.terms},
        figure: found.total,
        "further": {one.name: _term(one, "count") for one in found.further},
        "note": found.note,
    }
    return headed("calc-params", body)


def _term(one: Term, figure: str) -> Document:
    body: Document = {"symbols": one.symbols, "numbers": one.numbers} if one.symbols else {}
    body[figure] = one.value
    if one.inner:
        body["each"] = {inner.name: _term(inner, figure) for inner in one.inner}
    return body


def kinds_document(only: str | None = None) -> Document:
    """Every layer and family, or one, with its arguments and their defaults."""
    kinds: dict[str, Any] = {
        name: {
            "group": kind.group,
            "summary": kind.summary,
            "arguments": {one.name: _argument(one) for one in kind.arguments},
        }
        for name, kind in KINDS.items()
        if only in (None, name)
    }
    return headed("calc-params-list", {"kinds": kinds})


def _argument(one: Argument) -> Document:
    default = Missing("it must be given" if one.required else f"follows: {one.otherwise}")
    return {
        "type": one.kind,
        "required": one.required,
        "default": default if one.default is None else one.default,
        "choices": list(one.choices),
        "meaning": one.meaning,
    }


def batch_document(plan: Plan) -> Document:
    """Bytes of each tensor, of a sample, and the largest batch."""
    no_budget, no_batch = "no budget was given", "no batch was asked about"
    asked = None if plan.batch is None else plan.bytes(plan.batch)
    spare = None if asked is None or plan.budget_bytes is None else plan.budget_bytes - asked
    word = "unknown" if plan.budget_bytes is None else ("does not fit" if plan.short_bytes else "fits")
    body: Document = {
        "tensors": {
            one.name: {
                "shape": list(one.shape),
                "dtype": one.dtype,
                "bits_count": BITS[one.dtype],
                "count": one.count,
                "bytes": one.bytes,
            }
            for one in plan.tensors
        },
        "sample_bytes": plan.sample_bytes,
        "fixed_bytes": plan.fixed_bytes,
        "budget_bytes": known(plan.budget_bytes, no_budget),
        "largest_batch_count": known(plan.largest, no_budget),
        "batch_count": known(plan.batch, no_batch),
        "batch_bytes": known(asked, no_batch),
        "spare_bytes": known(spare, no_batch if asked is None else no_budget),
        "short_bytes": plan.short_bytes,
        "verdict": {"word": word},
        "planning_aid": f"fixed shapes; leaves out {LEFT_OUT}; the real limit is lower",
    }
    return headed("calc-batch", body)
