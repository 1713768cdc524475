"""The JSON documents of ``--json``: plain dicts with one envelope, every null explained.

Units end the name (``_bytes`` exact integers, ``_ms``, ``_s``, ``_per_s``, ``_ratio``, ``_count``; ``_index``
counts from 0).  Times are RFC 3339 in UTC.
"""

from __future__ import annotations

from tui import __version__
from tui.budget.ledger import probe_verdict
from tui.errors import PeakmarkError
from tui.report.documents_measured import ledger_document, precision_document, probe_document
from tui.report.documents_params import params_document
from tui.report.envelope import (
    SCHEMA,
    Document,
    Source,
    batch_table,
    checks_table,
    enveloped,
    moment,
    verdict_table,
)
from tui.report.json_values import Missing, known
from tui.report.operating import operating

__all__ = [
    "Document",
    "Source",
    "error_document",
    "ledger_document",
    "params_document",
    "precision_document",
    "probe_document",
    "report_document",
    "restore_document",
    "verify_document",
]


def verify_document(source: Source, verify_id: str | None = None) -> Document:
    """One Verify, None: the latest.

    Raises:
        KeyError: there is no such measurement.
    """
    verify_id = verify_id or max(source.measured.verify, default=None)
    if verify_id is None:
        body: Document = {"id": Missing("never verified"), "verdict": {"word": "unknown"}, "checks": []}
        return enveloped("verify", source, None, body)
    found = source.measured.verify[verify_id]
    body = {
        "id": verify_id,
        "at": moment(found.at),
        "verdict": {"word": found.outcome},
        "precision": found.precision,
        "seconds_s": found.seconds,
        "checks": checks_table(found.checks),
        "checkpoint_bytes": known(found.checkpoint_bytes, found.unknown.get("checkpoint_bytes")),
        "checkpoint_sha256": known(found.checkpoint_sha256, found.unknown.get("checkpoint_sha256")),
        "gradient_receiving_count": known(found.gradient_receiving, found.unknown.get("gradient_receiving")),
    }
    return enveloped("verify", source, found.environment, body)


def restore_document(source: Source, restore_id: str | None = None) -> Document:
    """One restore rehearsal, None: the latest.

    Raises:
        KeyError: there is no such measurement.
    """
    restore_id = restore_id or max(source.measured.restore, default=None)
    if restore_id is None:
        body: Document = {"id": Missing("never rehearsed"), "verdict": {"word": "unknown"}, "checks": []}
        return enveloped("restore", source, None, body)
    found = source.measured.restore[restore_id]
    body = {
        "id": restore_id,
        "at": moment(found.at),
        "verdict": {"word": found.outcome},
        "saved_after_count": found.saved_after,
        "killed_in_count": found.killed_in,
        "iterations_count": found.iterations,
        "checks": checks_table(found.checks),
        "checkpoint_bytes": known(found.checkpoint_bytes, found.unknown.get("checkpoint_bytes")),
        "checkpoint_sha256": known(found.checkpoint_sha256, found.unknown.get("checkpoint_sha256")),
        "recovery_s": known(found.recovery_s, found.unknown.get("recovery_s")),
        "restore_peak_of": found.restore_peak_of,
        "restore_peak_bytes": known(found.restore_peak_bytes, found.unknown.get("restore_peak_bytes")),
    }
    return enveloped("restore", source, found.environment, body)


def report_document(source: Source) -> Document:
    """What the report decides: the operating configuration by its evidence, or that there is none."""
    found = operating(source.spec, source.measured, source.fingerprint)
    if found is None:
        body: Document = {
            "verdict": {"word": "not validated"},
            "operating": Missing("nothing was validated yet"),
        }
        return enveloped("report", source, None, body)
    probe = source.measured.probe[found.probe]
    body = {
        "verdict": verdict_table(probe_verdict(source.spec, probe)) | {"word": "validated"},
        "operating": {
            "probe": found.probe,
            "verify": found.verify,
            "precision": known(found.precision, "no finished comparison of this spec"),
            "restore": known(found.restore, "no rehearsed restore of this spec"),
            "fallback": known(found.fallback, "no smaller micro-batch of the same global batch was measured"),
            "accepted_at": moment(found.accepted_at),
            "micro_batch_tested": list(found.micro_batch_tested),
        },
    }
    batch = batch_table(source, probe.micro_batch, probe.accumulate, probe.length)
    return enveloped("report", source, probe.environment, body, batch)


def error_document(error: PeakmarkError) -> Document:
    """What went wrong, when nothing else can be said."""
    head = {"schema": SCHEMA, "document": "error", "peakmark": __version__}
    return {**head, "code": error.code, "message": error.message, "where": error.where, "hint": error.hint}
