"""The envelope of every JSON document, and the tables that several documents share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tui import __version__
from tui.budget.verdict import Verdict
from tui.project.measured import Check, Measured
from tui.project.model import Spec
from tui.report.json_values import explained, known

SCHEMA = 1

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """What a document is made from."""

    spec: Spec
    measured: Measured
    project: str
    """The project file's name, without its folder."""
    fingerprint: str
    """Of the spec as it is now."""


def enveloped(
    name: str,
    source: Source,
    environment: str | None,
    body: Document,
    batch: Document | None = None,
    *,
    stale: bool | None = None,
) -> Document:
    """``body`` under the common head, its nulls explained.

    Args:
        name: of the document.
        source: names the project and the spec.
        environment: id of the environment that the figures are from, None: of none.
        body: what this document says; ``Missing`` where it does not know.
        batch: None: the one that the spec asks for.
        stale: whether the spec has changed since it was measured; None: the document does not say.
    """
    asked = source.spec.workload.batch
    longest = asked.length.max if asked.length else None
    return explained(
        {
            "schema": SCHEMA,
            "document": name,
            "peakmark": __version__,
            "project": source.project,
            "spec": source.fingerprint,
            "environment": known(environment, "nothing was measured on a device"),
            "batch": batch or batch_table(source, asked.micro, asked.accumulate, longest),
            **({} if stale is None else {"stale": stale}),
            **body,
        }
    )


def moment(value: datetime) -> str:
    """RFC 3339 in UTC.

    >>> moment(datetime(2026, 12, 1, 14, 12, 3, tzinfo=UTC))
    '2026-12-01T14:12:03Z'
    """
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def verdict_table(found: Verdict) -> Document:
    """A verdict; the word is lower case."""
    why = found.why or "not measured"
    return {
        "word": found.word.lower(),
        "by": found.by,
        "worst_phase": known(found.worst_phase, why),
        "process_bytes": known(found.process_bytes, why),
        "reserve_bytes": found.reserve_bytes,
        "budget_bytes": known(found.budget_bytes, found.budget_from),
        "budget_from": found.budget_from,
        "spare_bytes": known(found.spare_bytes, why),
        "why": found.why,
    }


def batch_table(source: Source, micro: int, accumulate: int, length: int | None) -> Document:
    """Micro x accumulate x ranks = global."""
    ranks = source.spec.placement.ranks
    return {
        "micro": micro,
        "accumulate": accumulate,
        "ranks": ranks,
        "global": micro * accumulate * ranks,
        "length": known(length, "samples have a fixed shape"),
    }


def checks_table(checks: Mapping[str, Check]) -> list[Document]:
    """Lines of evidence, in the order they were found."""
    return [
        {"key": key, "group": one.group, "title": one.title, "outcome": one.outcome, "text": one.text}
        for key, one in checks.items()
    ]
