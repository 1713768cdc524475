"""The JSON documents of predictions, and of the table of GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from tui import __version__
from tui.budget import gpus
from tui.budget import prediction as predictions
from tui.probe.protocol import REQUESTED_ROWS
from tui.project.prediction import PredictedPeak, Prediction, Within
from tui.report.envelope import SCHEMA, Document, Source, batch_table, enveloped, moment, verdict_table
from tui.report.json_values import Missing, explained, known
from tui.report.operating import is_current

EMPTYING = "what runs when the cache is emptied was not found"
NONE_YET = "nothing was predicted yet"
ON_CPU = "the CPU has no caching allocator of torch's"


def predict_document(source: Source, ids: Sequence[str] = ()) -> Document:
    """One prediction (none named: the latest); of several the first in full, all of them as points.

    Raises:
        KeyError: there is no such prediction.
    """
    table = source.measured.prediction
    chosen = list(ids) or ([max(table)] if table else [])
    if not chosen:
        return enveloped("predict", source, None, {"id": Missing(NONE_YET), "points": []})
    id = chosen[0]
    found = table[id]
    body = {**_body(source, id, found), "points": [_point(source, one) for one in chosen]}
    batch = batch_table(source, found.micro_batch, found.accumulate, found.length)
    made = enveloped(
        "predict", source, None, body, batch, stale=not is_current(found.spec, source.fingerprint)
    )
    made["unknown"]["environment"] = "a prediction is of no device that was measured on"
    return made


def _body(source: Source, id: str, found: Prediction) -> Document:
    return {
        "id": id,
        "at": moment(found.at),
        "seconds_s": known(found.seconds, "not recorded"),
        "precision": found.precision,
        "torch": found.torch,
        "semantics": found.semantics,
        "target": _target(found),
        "verdict": _verdict(source, found),
        **_sizes(found),
        "reserved_band_ratio": predictions.RESERVED_BAND if found.semantics == "cuda" else Missing(ON_CPU),
        "context_low_bytes": known(found.context_low_bytes, found.unknown.get("context_low_bytes")),
        "context_high_bytes": known(found.context_high_bytes, found.unknown.get("context_low_bytes")),
        "context_from": found.context_from,
        "phases": [_phase(found, name, peak) for name, peak in found.phases.items()],
        "line": _line(found),
        "largest": _largest(found),
        "assumptions": list(found.assumptions),
        "items_answered": list(found.answered),
        "approximate": list(found.approximate),
        "not_covered": list(found.not_covered),
        "ranges": [{"name": name, "bytes": list(limits)} for name, limits in found.ranges.items()],
        "allocator": found.allocator,
        "allocator_rules": known(found.allocator_rules or None, "not recorded"),
        "within": [_within(one) for one in found.within],
        "timeline": known(found.timeline or None, found.unknown.get("timeline")),
    }


def _verdict(source: Source, found: Prediction) -> Document:
    verdict = predictions.prediction_verdict(source.spec, found)
    made = verdict_table(verdict)
    return {**made, "retries_count": verdict.retries, "steady_retries_count": verdict.steady_retries}


def _within(one: Within) -> Document:
    why = "it does not run out of memory"
    failed = None
    if one.phase:
        failed = {
            "phase": one.phase,
            "operator": one.operator,
            "module": one.module,
            "asked_bytes": one.asked_bytes,
            "allocated_bytes": one.allocated_bytes,
            "largest_free_block_bytes": one.largest_free_block_bytes,
            "cause": one.cause,
        }
    return {
        "capacity_bytes": one.capacity_bytes,
        "retries_count": one.retries,
        "steady_retries_count": one.steady_retries,
        "reserved_bytes": known(one.reserved_bytes, "not recorded"),
        "out_of_memory": known(failed, why),
    }


def _sizes(found: Prediction) -> Document:
    process = predictions.process_range(found)
    why = found.unknown.get("context_low_bytes") or predictions.ON_CPU
    allocator = ON_CPU if found.semantics == "cpu" else "the allocator was not simulated"
    return {
        "requested_bytes": known(predictions.most(found, "requested_bytes"), "no phase was predicted"),
        "allocated_bytes": known(predictions.most(found, "allocated_bytes"), allocator),
        "reserved_bytes": known(predictions.most(found, "reserved_bytes"), allocator),
        "process_low_bytes": known(process[0] if process else None, why),
        "process_high_bytes": known(process[1] if process else None, why),
    }


def _target(found: Prediction) -> Document | Missing:
    if found.semantics == "cpu":
        return Missing("predicted for the CPU")
    if not found.target:
        return Missing(found.target_from or "no GPU was named")
    one = gpus.known(found.target)
    why = "it is not in the table of GPUs"
    capability = None if one is None or one.capability is None else list(one.capability)
    return {
        "name": found.target,
        "from": found.target_from,
        "total_bytes": known(found.target_total_bytes, "not known"),
        "capability": known(capability, why),
        "sm_count": known(one.sm_count if one else None, one.unknown.get("sm_count") if one else why),
        "threads_per_sm": known(one.threads_per_sm if one else None, why),
    }


def _phase(found: Prediction, name: str, peak: PredictedPeak) -> Document:
    allocator = ON_CPU if found.semantics == "cpu" else "the allocator was not simulated"
    return {
        "phase": name,
        "requested_bytes": peak.requested_bytes,
        "allocated_bytes": known(peak.allocated_bytes, allocator),
        "reserved_bytes": known(peak.reserved_bytes, allocator),
        "operator": peak.operator,
        "module": peak.module,
        "micro_batch_index": known(peak.micro_batch, "of no micro-batch"),
        "rows": [{"row": row, "bytes": peak.rows.get(row, 0)} for row in REQUESTED_ROWS],
    }


def _line(found: Prediction) -> Document | Missing:
    if found.line_per_sample_bytes is None:
        return Missing(found.unknown.get("largest") or "not asked for: --largest")
    return {
        "fixed_bytes": found.line_fixed_bytes,
        "per_sample_bytes": found.line_per_sample_bytes,
        "residual_max_bytes": known(found.line_residual_bytes, "two batches lie on a line always"),
    }


def _largest(found: Prediction) -> Document | Missing:
    if found.largest is None:
        return Missing(found.unknown.get("largest") or "not asked for: --largest")
    return {
        "micro": found.largest,
        "limit_bytes": known(found.largest_limit_bytes, "not recorded"),
        "reserved_bytes": known(found.largest_reserved_bytes, "not recorded"),
        "next_micro": known(found.largest_next, "nothing above it was tried"),
        "exact": found.largest_exact,
        "emptying_micro": known(found.emptying, EMPTYING),
        "emptying_retries_count": known(found.emptying_retries, EMPTYING),
        "emptying_next_micro": known(found.emptying_next, EMPTYING),
    }


def _point(source: Source, id: str) -> Document:
    found = source.measured.prediction[id]
    verdict = predictions.prediction_verdict(source.spec, found)
    return {
        "id": id,
        **batch_table(source, found.micro_batch, found.accumulate, found.length),
        **_sizes(found),
        "verdict": verdict.word.lower(),
        "retries_count": verdict.retries,
        "worst_phase": known(found.worst_phase, "no phase was predicted"),
    }


def gpus_document(table: Sequence[gpus.Gpu]) -> Document:
    """The table of GPUs with the source of every figure."""
    listed: list[Document] = []
    for one in table:
        context = one.context_bytes
        why = one.unknown.get("context")
        listed.append(
            {
                "name": one.name,
                "aliases": list(one.aliases),
                "total_bytes": known(one.total_bytes, one.unknown.get("total")),
                "capability": list(one.capability) if one.capability else Missing("not known"),
                "sm_count": known(one.sm_count, one.unknown.get("sm_count")),
                "threads_per_sm": known(one.threads_per_sm, one.unknown.get("threads_per_sm")),
                "context_low_bytes": known(context[0] if context else None, why),
                "context_high_bytes": known(context[1] if context else None, why),
                "sources": dict(one.sources),
            }
        )
    return explained({"schema": SCHEMA, "document": "gpus", "peakmark": __version__, "gpus": listed})
