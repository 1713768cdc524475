import json
from dataclasses import replace

import pytest
from sample_project import (
    BF16,
    CPU,
    CPU_SPEC,
    CUDA,
    CUDA_PRECISION,
    CUDA_PROBE,
    CUDA_SPEC,
    FINGERPRINT,
    GIB,
    PRECISION,
    PROBE,
    RESTORE,
    SMALLER,
    VERIFY,
)

from tui.errors import ProjectError
from tui.probe.protocol import REQUESTED_ROWS
from tui.project.measured import Measured
from tui.report.documents import (
    Source,
    error_document,
    ledger_document,
    params_document,
    precision_document,
    probe_document,
    report_document,
    restore_document,
    verify_document,
)
from tui.report.json_values import leaves, unexplained
from tui.report.plain import plain_lines

GPU = Source(CUDA_SPEC, CUDA, "gpt.toml", FINGERPRINT)
HOST = Source(CPU_SPEC, CPU, "mlp.toml", "sha256:c0c0c0c0")
EMPTY = Source(CPU_SPEC, Measured(), "mlp.toml", "sha256:c0c0c0c0")
EVERY = (
    params_document,
    verify_document,
    restore_document,
    ledger_document,
    probe_document,
    precision_document,
    report_document,
)


def broken():
    """A project in which whatever can be unknown is, some of it without a reason."""
    probe = replace(
        CUDA_PROBE,
        outcome="out-of-memory",
        failure="out of memory",
        phases={},
        readings={},
        worst_phase=None,
        step_ms_median=None,
        samples_per_s=float("nan"),
        samples_per_s_low=None,
        tokens_per_s=None,
        length=None,
    )
    setting = replace(
        BF16, outcome="failed", validation_loss=float("inf"), samples_per_s=None, requested_bytes=None
    )
    precision = replace(CUDA_PRECISION, noise_floor=None, settings={"bf16": setting}, stall_ratio=None)
    return Source(
        CUDA_SPEC,
        replace(CUDA, probe={PROBE: probe}, precision={PRECISION: precision}),
        "gpt.toml",
        FINGERPRINT,
    )


@pytest.mark.parametrize("build", EVERY)
@pytest.mark.parametrize("source", [GPU, HOST, EMPTY, broken()], ids=["gpu", "cpu", "empty", "broken"])
def test_every_null_has_its_reason_and_nothing_is_nan(build, source):
    document = build(source)
    assert unexplained(document) == []
    nulls = {path for path, value in leaves(document) if value is None}
    assert set(document["unknown"]) == nulls
    assert json.loads(json.dumps(document, allow_nan=False)) == document


@pytest.mark.parametrize("build", EVERY)
def test_every_document_has_the_same_head(build):
    document = build(GPU)
    assert list(document)[:7] == ["schema", "document", "peakmark", "project", "spec", "environment", "batch"]
    assert document["batch"] == {"micro": 8, "accumulate": 4, "ranks": 1, "global": 32, "length": 1024} or (
        build in (ledger_document, probe_document)
    )
    assert document["document"] == build.__name__.removesuffix("_document")


def test_a_null_without_a_reason_is_found():
    document = ledger_document(GPU, PROBE)
    document["rows"][0]["measured_bytes"] = None
    assert unexplained(document) == ["rows.0.measured_bytes"]


def test_the_ledger_document_has_exact_bytes_and_reasons_by_path():
    document = ledger_document(GPU, PROBE)
    weights = document["rows"][0]
    assert (weights["row"], weights["declared_bytes"], weights["declared_as"], weights["measured_bytes"]) == (
        "weights",
        497_759_232,
        "124,439,808 x 4 B",
        497_759_232,
    )
    assert document["unknown"]["rows.0.difference_bytes"] == "not predicted"
    assert document["verdict"]["word"] == "fits"
    assert document["instant"] == {
        "phase": "backward",
        "micro_batch_index": 1,
        "operator": "_log_softmax_backward_data",
        "module": "",
    }
    assert [check["agrees"] for check in document["checks"]] == [True] * 5


def test_a_prediction_gives_the_ledger_document_differences():
    document = ledger_document(GPU, PROBE, predicted={"weights": 497_759_200})
    assert document["rows"][0]["difference_bytes"] == 32


def test_a_reading_that_is_hidden_keeps_its_reason():
    document = ledger_document(HOST)
    index = [reading["name"] for reading in document["readings"]].index("others")
    assert document["unknown"][f"readings.{index}.bytes"] == "the container hides other processes"


def test_one_probe_has_no_candidates_and_several_have():
    assert probe_document(GPU, [PROBE])["unknown"]["candidates"] == "one batch was asked for"
    both = probe_document(GPU, [SMALLER, PROBE])
    assert [(one["micro"], one["global"], one["outcome"]) for one in both["candidates"]] == [
        (4, 32, "fits"),
        (8, 32, "fits"),
    ]
    assert both["id"] == PROBE


def test_out_of_memory_is_in_the_document():
    probe = replace(CUDA_PROBE, outcome="out-of-memory", asked_bytes=GIB, alive={"weights": 4})
    document = probe_document(replace(GPU, measured=replace(CUDA, probe={PROBE: probe})))
    assert document["out_of_memory"]["asked_bytes"] == GIB
    assert document["out_of_memory"]["alive"] == [{"row": "weights", "bytes": 4}]
    assert document["verdict"]["word"] == "does not fit"


def test_a_figure_that_is_not_finite_is_null_and_says_what_it_was():
    document = precision_document(broken())
    assert document["settings"][0]["validation_loss"] is None
    assert document["unknown"]["settings.0.validation_loss"] == "it was inf"


def test_the_report_document_names_its_evidence():
    assert report_document(GPU)["operating"] == {
        "probe": PROBE,
        "verify": VERIFY,
        "precision": PRECISION,
        "restore": RESTORE,
        "fallback": SMALLER,
        "accepted_at": "2026-12-01T15:00:00Z",
        "micro_batch_tested": [4, 8],
    }
    assert report_document(EMPTY)["verdict"]["word"] == "not validated"


def test_ledgers_and_probes_say_whether_their_spec_has_changed_since():
    for build in (ledger_document, probe_document):
        assert build(GPU)["stale"] is False
        assert build(EMPTY)["stale"] is False
        assert build(replace(GPU, fingerprint="sha256:8a718a71"))["stale"] is True
    assert "stale" not in params_document(GPU)


def test_a_probe_document_has_what_others_took_of_the_cpus():
    assert (
        probe_document(HOST)["unknown"]["others_cpu_ratio"]
        == "timed for too short a time to tell, or not told by the kernel"
    )
    probe = {id: replace(one, others_cpu_ratio=0.25) for id, one in CPU.probe.items()}
    assert probe_document(replace(HOST, measured=replace(CPU, probe=probe)))["others_cpu_ratio"] == 0.25


def test_an_error_document_is_the_sentence_in_parts():
    error = ProjectError(
        "workload.batch.micro must be a whole number", where="gpt.toml:11", hint="remove the quotes"
    )
    assert error_document(error) == {
        "schema": 1,
        "document": "error",
        "peakmark": error_document(error)["peakmark"],
        "code": 2,
        "message": "workload.batch.micro must be a whole number",
        "where": "gpt.toml:11",
        "hint": "remove the quotes",
    }


def test_plain_output_is_one_figure_a_line():
    lines = plain_lines(ledger_document(GPU, PROBE))
    assert "backward.weights.measured_bytes 497759232" in lines
    assert "backward.weights.predicted_bytes n/a not predicted" in lines
    assert "verdict.word fits" in lines
    assert "phases.step.requested_bytes 2488796160" in lines
    assert "checks.requested.agrees true" in lines


@pytest.mark.parametrize("build", EVERY)
def test_every_plain_line_is_a_path_that_occurs_once_and_a_value(build):
    for source in (GPU, HOST, EMPTY):
        lines = plain_lines(build(source))
        paths = [line.split(" ", 1)[0] for line in lines]
        assert len(set(paths)) == len(paths)
        assert all("\n" not in line for line in lines)


def test_a_probe_document_has_the_rows_at_its_peak_and_its_conditions():
    document = probe_document(GPU)
    rows = {row["row"]: row for row in document["memory"]["rows"]}
    assert rows["weights"]["meaning"]
    measured = [rows[key]["measured_bytes"] for key in REQUESTED_ROWS]
    assert sum(measured) == rows["requested"]["measured_bytes"]
    facts = document["environment_facts"]
    assert facts["torch"] == CUDA.environment[document["environment"]].torch
    said = {one["what"]: one["value"] for one in document["assumptions"]}
    assert said["gradients"] == "set to None before each iteration"
    assert all(one["because"] for one in document["assumptions"])
