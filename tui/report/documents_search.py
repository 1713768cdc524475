"""The JSON document of a search."""

from __future__ import annotations

from tui.budget import batch
from tui.budget.ledger import probe_verdict
from tui.project.measured import Search
from tui.report.envelope import Document, Source, batch_table, enveloped, moment
from tui.report.json_values import Missing, known
from tui.report.operating import is_current


def search_document(source: Source, id: str) -> Document:
    """The search ``id``: what was tried, by which evidence, and what follows.

    Raises:
        KeyError: there is no such search.
    """
    found = source.measured.search[id]
    reason = found.why or "the search was not decided"
    body: Document = {
        "id": id,
        "at": moment(found.at),
        "outcome": found.outcome,
        "why": found.why,
        "precision": found.precision,
        "multiple_of_count": found.multiple_of,
        "upper_count": known(found.upper, "nothing but memory bounds it"),
        "upper_from": found.upper_from,
        "budget_bytes": known(found.budget_bytes, "no budget is entered: what the device leaves"),
        "reserve_bytes": found.reserve_bytes,
        "largest": known(found.largest, reason if found.outcome != "done" else "nothing that was tried fits"),
        "largest_probe": known(found.largest_probe, "there is no largest"),
        "soaked_count": _soaked(source, found),
        "failed_at": known(found.failed_at, found.why or "nothing above the largest failed"),
        "failed_probe": known(found.failed_probe, "nothing above the largest failed"),
        "validation_batch": known(
            found.validation_batch, "validation ran at the micro-batch itself, or not yet"
        ),
        "fastest": known(found.fastest, "none that fits was timed"),
        "fastest_probe": known(found.fastest_probe, "none that fits was timed"),
        "quick": found.quick,
        "reused": list(found.reused),
        "seconds_s": found.seconds,
        "line": _line(source, found),
        "candidates": [_candidate(source, one) for one in found.probes if one in source.measured.probe],
    }
    micro = found.largest or source.spec.workload.batch.micro
    table = batch_table(source, micro, found.accumulate, found.length)
    stale = not is_current(found.spec, source.fingerprint)
    return enveloped("search", source, found.environment or None, body, table, stale=stale)


def _soaked(source: Source, found: Search) -> int:
    probe = source.measured.probe.get(found.largest_probe or "")
    return probe.soaked if probe is not None else 0


def _line(source: Source, found: Search) -> Document | Missing:
    points = {
        one.micro_batch: one.training_process_bytes
        for id in found.probes
        if (one := source.measured.probe.get(id)) is not None and one.training_process_bytes is not None
    }
    if len(points) < 2:
        return Missing("a line needs two sizes that were measured to the end")
    line = batch.fit(points)
    return {
        "of": "process",
        "fixed_bytes": line.fixed_bytes,
        "per_sample_bytes": line.per_sample_bytes,
        "residual_max_bytes": line.residual_max_bytes,
        "residual_ratio": batch.residual_share(line),
        "follows": batch.follows(line),
        "use": "planning aid; only what was measured is proven",
    }


def _candidate(source: Source, id: str) -> Document:
    probe = source.measured.probe[id]
    found = probe_verdict(source.spec, probe)
    return {
        "id": id,
        "micro": probe.micro_batch,
        "global": probe.micro_batch * probe.accumulate * source.spec.placement.ranks,
        "outcome": probe.outcome,
        "failed_phase": probe.failed_phase,
        "observed_batch": known(probe.observed_batch, probe.unknown.get("observed_batch")),
        "tasks": list(probe.tasks),
        "iterations_count": probe.iterations,
        "soak": probe.soak,
        "soaked_count": probe.soaked,
        "process_bytes": known(found.process_bytes, found.why or "not read"),
        "spare_bytes": known(found.spare_bytes, found.why or "not read"),
        "samples_per_s": known(probe.samples_per_s, probe.unknown.get("samples_per_s") or probe.failure),
        "seconds_s": known(probe.seconds, "not recorded"),
    }
