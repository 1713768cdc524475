"""The JSON documents of ``--json``: plain dicts with one envelope, every null explained.

Units end the name (``_bytes`` exact integers, ``_ms``, ``_s``, ``_per_s``, ``_ratio``, ``_count``; ``_index``
counts from 0).  Times are RFC 3339 in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tui import __version__
from tui.budget.ledger import Ledger, ledger, probe_verdict
from tui.budget.verdict import Verdict
from tui.errors import PeakmarkError
from tui.probe.protocol import PHASES, REQUESTED_ROWS
from tui.project.measured import Check, Measured, Probe, Setting
from tui.project.model import Spec
from tui.report.json_values import Missing, explained, known
from tui.report.operating import operating
from tui.report.text_checks import no_formula, params_word, spec_formula

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


def params_document(source: Source) -> Document:
    """Formula against unique inventory."""
    inventory, declared = source.measured.inventory, spec_formula(source.spec)
    body: Document = {
        "verdict": {"word": params_word(inventory).lower()},
        "formula": {
            "family": known(
                declared and declared.family, "no formula is asked for or its arguments are wrong"
            ),
            "parameters_count": known(declared and declared.total, "no formula"),
            "parts": declared.parts if declared else {},
            "text": declared.text if declared else "",
        },
    }
    if inventory is None:
        body["inventory"] = Missing("the parameters were not counted yet")
        body["difference_count"] = Missing("the parameters were not counted yet")
        return _document("params", source, None, body)
    difference = None
    if inventory.formula_parameters is not None:
        difference = inventory.unique_parameters - inventory.formula_parameters
    body["inventory"] = {
        "spec": inventory.spec,
        "unique_parameters_count": inventory.unique_parameters,
        "trainable_parameters_count": inventory.trainable_parameters,
        "gradient_receiving_count": known(inventory.gradient_receiving, "no backward was run yet"),
        "tensors_count": inventory.tensors,
        "parameter_bytes": inventory.parameter_bytes,
        "buffer_elements_count": inventory.buffer_elements,
        "buffer_bytes": inventory.buffer_bytes,
        "state_entries_count": inventory.state_entries,
        "state_entry_elements_count": inventory.state_entry_elements,
        "dtypes": dict(inventory.dtypes),
        "parts": dict(inventory.groups),
        "shared": list(inventory.shared),
    }
    body["difference_count"] = known(difference, no_formula(inventory))
    return _document("params", source, None, body)


def verify_document(source: Source, verify_id: str | None = None) -> Document:
    """One Verify, None: the latest.

    Raises:
        KeyError: there is no such measurement.
    """
    verify_id = verify_id or max(source.measured.verify, default=None)
    if verify_id is None:
        body: Document = {"id": Missing("never verified"), "verdict": {"word": "unknown"}, "checks": []}
        return _document("verify", source, None, body)
    found = source.measured.verify[verify_id]
    body = {
        "id": verify_id,
        "at": moment(found.at),
        "verdict": {"word": found.outcome},
        "precision": found.precision,
        "seconds_s": found.seconds,
        "checks": _checks(found.checks),
        "checkpoint_bytes": known(found.checkpoint_bytes, found.unknown.get("checkpoint_bytes")),
        "checkpoint_sha256": known(found.checkpoint_sha256, found.unknown.get("checkpoint_sha256")),
        "gradient_receiving_count": known(found.gradient_receiving, found.unknown.get("gradient_receiving")),
    }
    return _document("verify", source, found.environment, body)


def restore_document(source: Source, restore_id: str | None = None) -> Document:
    """One restore rehearsal, None: the latest.

    Raises:
        KeyError: there is no such measurement.
    """
    restore_id = restore_id or max(source.measured.restore, default=None)
    if restore_id is None:
        body: Document = {"id": Missing("never rehearsed"), "verdict": {"word": "unknown"}, "checks": []}
        return _document("restore", source, None, body)
    found = source.measured.restore[restore_id]
    body = {
        "id": restore_id,
        "at": moment(found.at),
        "verdict": {"word": found.outcome},
        "saved_after_count": found.saved_after,
        "killed_in_count": found.killed_in,
        "iterations_count": found.iterations,
        "checks": _checks(found.checks),
        "checkpoint_bytes": known(found.checkpoint_bytes, found.unknown.get("checkpoint_bytes")),
        "checkpoint_sha256": known(found.checkpoint_sha256, found.unknown.get("checkpoint_sha256")),
        "recovery_s": known(found.recovery_s, found.unknown.get("recovery_s")),
        "restore_peak_bytes": known(found.restore_peak_bytes, found.unknown.get("restore_peak_bytes")),
    }
    return _document("restore", source, found.environment, body)


def ledger_document(
    source: Source,
    probe_id: str | None = None,
    phase: str | None = None,
    *,
    predicted: Mapping[str, int] | None = None,
) -> Document:
    """The ledger of one probe (None: the latest) in one phase (None: the worst).

    Raises:
        KeyError: the probe or the phase does not exist.
    """
    found = ledger(source.spec, source.measured, probe_id, phase, predicted=predicted)
    peak = found.phases.get(found.phase or "")
    instant: Document = {
        "phase": known(found.phase, "nothing was measured"),
        "micro_batch_index": known(peak.micro_batch if peak else None, "not recorded with the peak"),
        "operator": peak.operator if peak else "",
        "module": peak.module if peak else "",
    }
    body: Document = {
        "probe": known(found.probe_id, "nothing was measured"),
        "verdict": verdict_table(found.verdict),
        "instant": instant,
        "rows": [_row(found, key) for key in (row.key for row in found.rows)],
        "readings": _readings(found.probe),
        "phases": _phases(found.probe),
        "checks": [
            {
                "sum": check.sum,
                "rows_bytes": known(check.rows_bytes, check.text),
                "reading_bytes": known(check.reading_bytes, check.text),
                "agrees": known(check.agrees, check.text),
            }
            for check in found.checks
        ],
    }
    batch = found.situation
    environment = found.probe.environment if found.probe else None
    return _document(
        "ledger", source, environment, body, batch_table(source, batch.micro, batch.accumulate, batch.length)
    )


def probe_document(source: Source, ids: Sequence[str] = ()) -> Document:
    """One probe (none named: the latest); of several the last one in full, all of them as candidates.

    Raises:
        KeyError: there is no such probe.
    """
    chosen = list(ids) or ([max(source.measured.probe)] if source.measured.probe else [])
    if not chosen:
        body: Document = {"id": Missing("nothing was measured yet"), "outcome": "unknown"}
        body["candidates"] = Missing("nothing was measured yet")
        return _document("probe", source, None, body)
    probe_id = chosen[-1]
    probe = source.measured.probe[probe_id]
    body = {
        "id": probe_id,
        "at": moment(probe.at),
        "outcome": probe.outcome,
        "verdict": verdict_table(probe_verdict(source.spec, probe)),
        "precision": probe.precision,
        "contended": probe.contended,
        "nice": probe.nice,
        "cap_bytes": known(probe.limit_bytes, "the process was not held to a limit"),
        "timing": _timing(probe),
        "memory": {"run": "traced", "readings": _readings(probe), "phases": _phases(probe)},
        "loss_first": known(probe.loss_first, probe.unknown.get("loss_first")),
        "loss_last": known(probe.loss_last, probe.unknown.get("loss_last")),
        "out_of_memory": _out_of_memory(probe),
        "failure": probe.failure,
    }
    if len(chosen) > 1:
        body["candidates"] = [_candidate(source, one) for one in chosen]
    else:
        body["candidates"] = Missing("one batch was asked for")
    batch = batch_table(source, probe.micro_batch, probe.accumulate, probe.length)
    return _document("probe", source, probe.environment, body, batch)


def precision_document(source: Source, precision_id: str | None = None) -> Document:
    """One comparison of settings, None: the latest.

    Raises:
        KeyError: there is no such comparison.
    """
    precision_id = precision_id or max(source.measured.precision, default=None)
    if precision_id is None:
        body: Document = {"id": Missing("nothing was compared yet"), "outcome": "unknown", "settings": []}
        return _document("precision", source, None, body)
    found = source.measured.precision[precision_id]
    names = ("loader_samples_per_s", "compute_samples_per_s", "together_samples_per_s", "stall_ratio")
    body = {
        "id": precision_id,
        "at": moment(found.at),
        "outcome": found.outcome,
        "failure": found.failure,
        "reference": found.reference,
        "iterations_count": found.steps,
        "seeds_count": found.seeds,
        "micro": found.micro_batch,
        "noise_floor": known(found.noise_floor, found.unknown.get("noise_floor")),
        "gradient_limit_ratio": found.gradient_limit,
        "settings": [_setting(name, setting) for name, setting in found.settings.items()],
        **{name: known(getattr(found, name), found.unknown.get(name, "not timed")) for name in names},
    }
    return _document("precision", source, found.environment, body)


def report_document(source: Source) -> Document:
    """What the report decides: the operating configuration by its evidence, or that there is none."""
    found = operating(source.spec, source.measured, source.fingerprint)
    if found is None:
        body: Document = {
            "verdict": {"word": "not validated"},
            "operating": Missing("nothing was validated yet"),
        }
        return _document("report", source, None, body)
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
    return _document("report", source, probe.environment, body, batch)


def error_document(error: PeakmarkError) -> Document:
    """What went wrong, when nothing else can be said."""
    head = {"schema": SCHEMA, "document": "error", "peakmark": __version__}
    return {**head, "code": error.code, "message": error.message, "where": error.where, "hint": error.hint}


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


def _document(
    name: str, source: Source, environment: str | None, body: Document, batch: Document | None = None
) -> Document:
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
            **body,
        }
    )


def _checks(checks: Mapping[str, Check]) -> list[Document]:
    return [
        {"key": key, "group": one.group, "title": one.title, "outcome": one.outcome, "text": one.text}
        for key, one in checks.items()
    ]


def _row(found: Ledger, key: str) -> Document:
    row = found.row(key)
    reasons = row.reasons
    return {
        "row": row.key,
        "kind": row.kind,
        "declared_bytes": known(row.declared, reasons.get("declared")),
        "declared_as": row.declared_as,
        "predicted_bytes": known(row.predicted, reasons.get("predicted")),
        "measured_bytes": known(row.measured, reasons.get("measured")),
        "difference_bytes": known(row.difference, reasons.get("measured") or reasons.get("predicted")),
        "origin": row.origin,
        "meaning": row.meaning,
    }


def _readings(probe: Probe | None) -> list[Document]:
    if probe is None:
        return []
    return [
        {
            "name": name,
            "bytes": known(one.bytes, one.unknown),
            "source": one.source,
            "at": one.phase,
            "meaning": one.meaning,
        }
        for name, one in probe.readings.items()
    ]


def _phases(probe: Probe | None) -> list[Document]:
    phases = probe.phases if probe else {}
    return [
        {
            "phase": name,
            "requested_bytes": phases[name].requested_bytes,
            "allocated_bytes": known(phases[name].allocated_bytes, "not read in this phase"),
            "reserved_bytes": known(phases[name].reserved_bytes, "not read in this phase"),
            "process_bytes": known(phases[name].process_bytes, "not read in this phase"),
            "rows": {key: phases[name].rows.get(key, 0) for key in REQUESTED_ROWS},
        }
        for name in PHASES
        if name in phases
    ]


def _timing(probe: Probe) -> Document:
    names = (
        "first_ms",
        "step_ms_median",
        "step_ms_mean",
        "step_ms_p90",
        "samples_per_s",
        "samples_per_s_low",
        "samples_per_s_high",
        "tokens_per_s",
    )
    reason = probe.failure or "not timed"
    values = {name: known(getattr(probe, name), probe.unknown.get(name, reason)) for name in names}
    return {"run": "untraced", "timed_count": probe.iterations, "warmup_count": probe.warmup, **values}


def _out_of_memory(probe: Probe) -> Document | Missing:
    if probe.outcome != "out-of-memory":
        return Missing("it did not run out of memory")
    return {
        "asked_bytes": known(probe.asked_bytes, probe.unknown.get("asked_bytes")),
        "cap_bytes": known(probe.limit_bytes, "the process was not held to a limit"),
        "alive": [{"row": key, "bytes": size} for key, size in probe.alive.items()],
    }


def _candidate(source: Source, probe_id: str) -> Document:
    probe = source.measured.probe[probe_id]
    found = probe_verdict(source.spec, probe)
    return {
        "id": probe_id,
        "micro": probe.micro_batch,
        "global": probe.micro_batch * probe.accumulate * source.spec.placement.ranks,
        "outcome": probe.outcome,
        "process_bytes": known(found.process_bytes, found.why or "not read"),
        "spare_bytes": known(found.spare_bytes, found.why or "not read"),
        "samples_per_s": known(probe.samples_per_s, probe.unknown.get("samples_per_s", probe.failure)),
    }


def _setting(name: str, setting: Setting) -> Document:
    keys = {
        "validation_loss": "validation_loss",
        "validation_distance": "distance",
        "final_loss": "training_loss",
        "gradient_error": "gradient_error_ratio",
        "requested_bytes": "requested_bytes",
        "allocated_bytes": "allocated_bytes",
        "reserved_bytes": "reserved_bytes",
        "process_bytes": "process_bytes",
        "step_ms_median": "step_ms_median",
        "samples_per_s": "samples_per_s",
        "samples_per_s_low": "samples_per_s_low",
        "samples_per_s_high": "samples_per_s_high",
        "quality_met": "quality_met",
    }
    values = {
        shown: known(getattr(setting, key), setting.unknown.get(key) or setting.why or None)
        for key, shown in keys.items()
    }
    return {
        "name": name,
        "effective": setting.effective,
        "outcome": setting.outcome,
        **values,
        "nonfinite_count": setting.nonfinite,
        "skipped_count": setting.skipped,
        "verdict": setting.verdict,
        "gain": list(setting.gain),
        "why": setting.why,
    }
