"""The JSON documents of measurements: ledger, probes, precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.budget.comparable import void
from tui.budget.host_ledger import HostRow
from tui.budget.ledger import Ledger, Timelines, ledger, probe_verdict
from tui.budget.temporaries import Part
from tui.project.measured import Setting
from tui.report.conditions import assumptions, environment_facts
from tui.report.documents_exhausted import exhausted_document
from tui.report.documents_ranks import ranks_document
from tui.report.documents_readings import phases, readings, timing
from tui.report.envelope import Document, Source, batch_table, enveloped, moment, verdict_table
from tui.report.json_values import Missing, known
from tui.report.sentences import UNTIMED_OTHERS
from tui.report.stale import is_stale

NOT_TRACED = "no traced run of it ended"
NO_RANGE = "it is one figure, or none"


def ledger_document(
    source: Source,
    probe_id: str | None = None,
    phase: str | None = None,
    *,
    predicted: Mapping[str, int] | None = None,
    alive: Document | Missing | None = None,
    timelines: Timelines | None = None,
) -> Document:
    """The ledger of one probe (None: the latest) in one phase (None: the worst).

    Args:
        source: what the project holds.
        probe_id: which probe.
        phase: which phase.
        predicted: bytes by row key, instead of those of the project's prediction.
        alive: what is alive at the peak, None: not asked for.
        timelines: what the temporaries are for, and evidence for the causes of differences.

    Raises:
        KeyError: the probe or the phase does not exist.
    """
    found = ledger(source.spec, source.measured, probe_id, phase, predicted=predicted, timelines=timelines)
    told = found.prediction.phases if found.prediction and found.probe is None else {}
    peak = found.phases.get(found.phase or "") or told.get(found.phase or "")
    instant: Document = {
        "phase": known(found.phase, "nothing was measured"),
        "micro_batch_index": known(peak.micro_batch if peak else None, "not recorded with the peak"),
        "operator": peak.operator if peak else "",
        "module": peak.module if peak else "",
    }
    body: Document = {
        "probe": known(found.probe_id, "nothing was measured"),
        "prediction": known(found.prediction_id, "nothing of the same batch, device and spec was predicted"),
        "verdict": {**verdict_table(found.verdict), "unknown_rows": list(found.verdict.unknown_rows)},
        "instant": instant,
        "rows": [_row(found, key) for key in (row.key for row in found.rows)],
        "temporaries": [_part(one) for one in found.parts],
        "reconciliation": _reconciled(found),
        "host": [_host(one) for one in found.host],
        "readings": readings(found.probe),
        "phases": phases(found.probe),
        "checks": _checks(found),
    }
    if alive is not None:
        body["alive"] = alive
    batch = found.situation
    environment = found.probe.environment if found.probe else None
    return enveloped(
        "ledger",
        source,
        environment,
        body,
        batch_table(source, batch.micro, batch.accumulate, batch.length),
        stale=is_stale(source, found.probe_id or found.prediction_id),
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
        return enveloped("probe", source, None, body, stale=False)
    probe_id = chosen[-1]
    probe = source.measured.probe[probe_id]
    body = {
        "id": probe_id,
        "at": moment(probe.at),
        "outcome": probe.outcome,
        "verdict": verdict_table(probe_verdict(source.spec, probe)),
        "precision": probe.precision,
        "contended": probe.contended,
        "others_cpu_ratio": known(
            probe.others_cpu_ratio, probe.unknown.get("others_cpu_ratio", UNTIMED_OTHERS)
        ),
        "nice": probe.nice,
        "cap_bytes": known(probe.limit_bytes, "the process was not held to a limit"),
        "timing": timing(probe),
        "memory": _memory(source, probe_id),
        "ranks": ranks_document(probe),
        "environment_facts": environment_facts(source, probe.environment),
        "assumptions": assumptions(source.spec, probe),
        "loss_first": known(probe.loss_first, probe.unknown.get("loss_first")),
        "loss_last": known(probe.loss_last, probe.unknown.get("loss_last")),
        "out_of_memory": exhausted_document(probe),
        "failure": probe.failure,
    }
    if len(chosen) > 1:
        body["candidates"] = [_candidate(source, one) for one in chosen]
        body["comparison_void"] = void(source.measured.probe[one] for one in chosen)
    else:
        body["candidates"] = Missing("one batch was asked for")
    batch = batch_table(source, probe.micro_batch, probe.accumulate, probe.length)
    return enveloped("probe", source, probe.environment, body, batch, stale=is_stale(source, probe_id))


def precision_document(source: Source, precision_id: str | None = None) -> Document:
    """One comparison of settings, None: the latest.

    Raises:
        KeyError: there is no such comparison.
    """
    precision_id = precision_id or max(source.measured.precision, default=None)
    if precision_id is None:
        body: Document = {"id": Missing("nothing was compared yet"), "outcome": "unknown", "settings": []}
        return enveloped("precision", source, None, body)
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
    return enveloped("precision", source, found.environment, body)


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
        "predicted_low_bytes": known(row.predicted_range and row.predicted_range[0], NO_RANGE),
        "predicted_high_bytes": known(row.predicted_range and row.predicted_range[1], NO_RANGE),
        "difference_bytes": known(row.difference, reasons.get("measured") or reasons.get("predicted")),
        "cause": known(row.cause or None, "no difference to explain"),
        "evidence": row.evidence,
        "entered": row.entered,
        "origin": row.origin,
        "meaning": row.meaning,
    }


def _checks(found: Ledger) -> list[Document]:
    return [
        {
            "sum": check.sum,
            "rows_bytes": known(check.rows_bytes, check.text),
            "reading_bytes": known(check.reading_bytes, check.text),
            "agrees": known(check.agrees, check.text),
        }
        for check in found.checks
    ]


def _part(one: Part) -> Document:
    unkept = "no timeline of it is kept"
    return {
        "row": one.row,
        "cause": one.cause,
        "predicted_bytes": known(one.predicted, unkept),
        "measured_bytes": known(one.measured, unkept),
        "difference_bytes": known(one.difference, unkept),
        "what": one.what,
    }


def _host(one: HostRow) -> Document:
    return {
        "row": one.key,
        "label": one.label,
        "declared_bytes": known(one.declared, one.reasons.get("declared")),
        "declared_as": one.declared_as,
        "measured_bytes": known(one.measured, one.reasons.get("measured")),
        "origin": one.origin,
    }


def _reconciled(found: Ledger) -> Document | Missing:
    told = found.reconciled
    if told is None:
        return Missing("nothing of the same batch, device and spec was both predicted and measured")
    return {
        "absolute_bytes": told.absolute_bytes,
        "compared_count": told.compared,
        "differing_count": told.differing,
        "unexplained_bytes": told.unexplained_bytes,
        "unattributed_bytes": told.unattributed_bytes,
        "unattributed_ratio": told.unattributed_ratio,
        "minor": [
            {"row": key, "cause": one.word, "evidence": one.evidence} for key, one in told.minor.items()
        ],
    }


def _memory(source: Source, probe_id: str) -> Document:
    """Ledger rows at the requested peak of the worst phase, the readings around them, every phase's own peak."""
    probe = source.measured.probe[probe_id]
    found = ledger(source.spec, source.measured, probe_id)
    return {
        "run": "traced",
        "phase": known(found.phase, probe.failure or "no phase was measured to its end"),
        "rows": [_row(found, row.key) for row in found.rows],
        "readings": readings(probe),
        "phases": phases(probe),
        "start_bytes": known(probe.start_bytes, NOT_TRACED),
        "growth_bytes": known(probe.growth_bytes, NOT_TRACED),
        "growth_of": [{"what": what, "bytes": size} for what, size in probe.growth_of.items()],
    }


def _candidate(source: Source, probe_id: str) -> Document:
    probe = source.measured.probe[probe_id]
    found = probe_verdict(source.spec, probe)
    return {
        "id": probe_id,
        "micro": probe.micro_batch,
        "global": probe.micro_batch * probe.accumulate * source.spec.placement.ranks,
        "outcome": probe.outcome,
        "start_bytes": known(probe.start_bytes, NOT_TRACED),
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
