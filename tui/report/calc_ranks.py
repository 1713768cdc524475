"""What ``peakmark calc ranks`` answers: a line a row with its divisor, what shrinks, and other people's estimates."""

from __future__ import annotations

from tui import units
from tui.budget.scope import SCOPES, Comparison
from tui.budget.sharding import Share, Sheet
from tui.budget.sharding_estimates import Estimate
from tui.report.documents_calc import headed
from tui.report.envelope import Document
from tui.report.lines import labelled, wrap

LABEL = 20


def lines(found: Sheet, older: Estimate | None, compared: Comparison | None, width: int = 80) -> list[str]:
    """For people."""
    ranked = f"{found.ranks:,} rank" + ("" if found.ranks == 1 else "s")
    told = wrap(f"one of {ranked} · {found.variant}", width)
    for one in found.shares:
        told += _line(one, width)
    told += _sum("states", found.states_bytes, SCOPES["training states"], width)
    shrinking = ", ".join(one.replace("_", " ") for one in found.shrinking) or "none of these lines"
    told += labelled("more ranks shrink", shrinking, LABEL, width)
    told += labelled("left out", "activations, the batch, temporaries, libraries and context", LABEL, width)
    if older is not None:
        told += _sum("older formula", older.bytes, f"{older.name}: {older.text}", width)
    if compared is not None:
        said = compared.reason or units.size(compared.difference_bytes)
        told += labelled("compared", f"REFUSED: {said}" if compared.refused else said, LABEL, width)
        if compared.pool_bytes is not None:
            told += _sum("pre-reserved pool", compared.pool_bytes, "of the process", width)
    return told


def _line(one: Share, width: int) -> list[str]:
    name = one.key.replace("_", " ")
    if one.bytes is None:
        return labelled(name, f"n/a: {one.unknown}", LABEL, width)
    text = f"{one.text}, {one.obtained}" if one.text else one.obtained
    if one.host_bytes:
        text += f"; {one.host_bytes:,} B on the host"
    return _sum(name, one.bytes, text, width)


def _sum(name: str, size: int | None, text: str, width: int) -> list[str]:
    if size is None:
        return labelled(name, "n/a", LABEL, width)
    head = f"{name:<{LABEL}}{size:>15,} B {units.gib(size):>9} GiB  "
    return wrap(text, width, len(head), head)


def document(found: Sheet, older: Estimate | None, compared: Comparison | None) -> Document:
    """For programs."""
    body: Document = {
        "strategy": found.strategy,
        "ranks_count": found.ranks,
        "variant": found.variant,
        "rows": {
            one.key: {
                "bytes": one.bytes,
                "unknown": one.unknown,
                "divisor_count": one.divisor,
                "text": one.text,
                "obtained": one.obtained,
                "shrinks": one.shrinks,
                "host_bytes": one.host_bytes,
            }
            for one in found.shares
        },
        "states_bytes": found.states_bytes,
        "scope": SCOPES["training states"],
    }
    if older is not None:
        body["older"] = {"bytes": older.bytes, "name": older.name, "text": older.text, "scope": older.scope}
    if compared is not None:
        body["compared"] = {
            "refused": compared.refused,
            "reason": compared.reason,
            "difference_bytes": compared.difference_bytes,
            "pool_bytes": compared.pool_bytes,
        }
    return headed("calc-ranks", body)
