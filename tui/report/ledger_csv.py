"""The ledger as a table for other programs: every column in exact bytes, where it comes from, why it is not known."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tui.budget.host_ledger import HostRow
from tui.budget.ledger import Ledger
from tui.budget.rows import Row
from tui.budget.temporaries import Part
from tui.report.lines import clean

COLUMNS: tuple[str, ...] = (
    "row",
    "kind",
    "label",
    "residence",
    "declared_bytes",
    "declared_from",
    "declared_as",
    "declared_unknown",
    "predicted_bytes",
    "predicted_low_bytes",
    "predicted_high_bytes",
    "predicted_unknown",
    "measured_bytes",
    "measured_from",
    "measured_unknown",
    "difference_bytes",
    "cause",
    "evidence",
    "meaning",
)
"""Of ``table``, in order; ``kind`` is row | sum | part (of the row that is named before the slash).

The host's rows come last: their ``residence`` is host or disk, and they are in no sum of the device's."""
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")

Cells = dict[str, int | str | None]


def text(found: Ledger) -> str:
    """The ledger as CSV with a head; what is unknown is empty, and its reason stands beside it."""
    written = io.StringIO(newline="")
    table = csv.DictWriter(written, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows({key: _cell(value) for key, value in cells.items()} for cells in rows(found))
    return written.getvalue()


def rows(found: Ledger) -> list[Cells]:
    """Every row by the names of ``COLUMNS``, the causes of temporaries after the row that they are of."""
    made: list[Cells] = []
    for row in found.rows:
        made.append(_row(row))
        made += [_part(one) for one in found.parts if one.row == row.key]
    return made + [_host(one) for one in found.host]


def _row(row: Row) -> Cells:
    low, high = row.predicted_range or (None, None)
    origin = "entered" if row.entered else "formula"
    return {
        "row": row.key,
        "kind": row.kind,
        "label": row.label.removeprefix("= "),
        "residence": "device",
        "declared_bytes": row.declared,
        "declared_from": "" if row.declared is None else origin,
        "declared_as": row.declared_as,
        "declared_unknown": row.reasons.get("declared", ""),
        "predicted_bytes": row.predicted,
        "predicted_low_bytes": low,
        "predicted_high_bytes": high,
        "predicted_unknown": row.reasons.get("predicted", ""),
        "measured_bytes": row.measured,
        "measured_from": row.origin,
        "measured_unknown": row.reasons.get("measured", ""),
        "difference_bytes": row.difference,
        "cause": row.cause,
        "evidence": row.evidence,
        "meaning": row.meaning,
    }


def _part(one: Part) -> Cells:
    unknown = "no timeline of it is kept"
    cells: Cells = dict.fromkeys(COLUMNS, "")
    return cells | {
        "row": f"{one.row}/{one.cause}",
        "kind": "part",
        "label": one.cause,
        "residence": "device",
        "declared_bytes": None,
        "declared_unknown": "a part of the row before it",
        "predicted_bytes": one.predicted,
        "predicted_unknown": unknown if one.predicted is None else "",
        "measured_bytes": one.measured,
        "measured_from": "timeline of the storages" if one.measured is not None else "",
        "measured_unknown": unknown if one.measured is None else "",
        "difference_bytes": one.difference,
        "meaning": one.what,
    }


def _host(one: HostRow) -> Cells:
    cells: Cells = dict.fromkeys(COLUMNS, "")
    return cells | {
        "row": one.key,
        "kind": "sum" if one.label.startswith("= ") else "row",
        "label": one.label.removeprefix("= "),
        "residence": "disk" if one.key.startswith("disk") else "host",
        "declared_bytes": one.declared,
        "declared_from": "" if one.declared is None else "formula",
        "declared_as": one.declared_as,
        "declared_unknown": one.reasons.get("declared", ""),
        "predicted_unknown": "the host's rows are not predicted",
        "measured_bytes": one.measured,
        "measured_from": one.origin,
        "measured_unknown": one.reasons.get("measured", ""),
    }


def _cell(value: int | str | None) -> int | str:
    """A cell that no spreadsheet takes for a formula.

    >>> _cell("+4 B"), _cell(-4), _cell(None)
    ("'+4 B", -4, '')
    """
    if value is None or isinstance(value, int):
        return "" if value is None else value
    plain = clean(value)
    return f"'{plain}" if plain.startswith(_FORMULAS) else plain


def shown(cells: Sequence[Cells], names: Sequence[str]) -> list[str]:
    """Those of ``names`` that any of ``cells`` has something in."""
    return [name for name in names if any(one[name] not in (None, "") for one in cells)]
