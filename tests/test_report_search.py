"""A search as text, JSON and Markdown, and in the project file: by the evidence, and no more than that."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sample_project import CPU, CPU_PROBE, CPU_SPEC, CUDA, CUDA_PROBE, CUDA_SPEC, FINGERPRINT, GIB, at

from tui.budget.choose import ledger_probe
from tui.project import save
from tui.project.history import KEEP, trim
from tui.project.load import load
from tui.project.measured import Measured, Reading, Search
from tui.report.documents_search import search_document
from tui.report.envelope import Source
from tui.report.figures import GIBIBYTES
from tui.report.json_values import unexplained
from tui.report.line_text import line_sentence
from tui.report.lines import right
from tui.report.markdown import report_markdown
from tui.report.operating import operating
from tui.report.text_probe import probe_lines
from tui.report.text_search import SIZES, search_lines

ID = "s-20261201T150000-01"


def candidate(micro: int, process: float, rate: float, **more):
    size = int(process * GIB)
    readings = {**CUDA_PROBE.readings, "process": Reading(size, "NVML", "", "backward")}
    values = {
        "micro_batch": micro, "phases": {}, "readings": readings, "samples_per_s": rate, "iterations": 5,
        "tasks": ("timed",), "training_process_bytes": size, "outcome": "fits", "seconds": 30.0,
    }  # fmt: skip
    return replace(CUDA_PROBE, **{**values, **more})


PROBES = {
    "p-20261201T150001-01": candidate(54, 55.154, 281.0),
    "p-20261201T150101-01": candidate(
        55, 0, 0.0, outcome="out-of-memory", failed_phase="first.backward", failure="out of memory: iteration 1",
        readings={}, samples_per_s=None, iterations=0, training_process_bytes=None,
    ),
    "p-20261201T150201-01": candidate(
        54, 55.154, 281.3, soak=True, soaked=50, iterations=50, tasks=("traced", "timed")
    ),
    "p-20261201T150301-01": candidate(32, 39.363, 285.1, iterations=20, tasks=("traced", "timed")),
}  # fmt: skip
IDS = tuple(PROBES)
DONE = Search(
    at=at(15, 0), spec=FINGERPRINT, environment=CUDA_PROBE.environment, precision="bf16-autocast", length=1024,
    accumulate=4, budget_bytes=60 * GIB, reserve_bytes=4 * GIB, candidates={"54": IDS[2], "55": IDS[1], "32": IDS[3]},
    probes=IDS, largest=54, largest_probe=IDS[2], failed_at=55, failed_probe=IDS[1], fastest=32,
    fastest_probe=IDS[3], outcome="done", seconds=241.0,
)  # fmt: skip


def measured(found=DONE, **probes):
    return replace(CUDA, probe={**CUDA.probe, **PROBES, **probes}, search={ID: found})


def shown(found=DONE, measured_=None):
    return search_lines(CUDA_SPEC, measured_ or measured(found), ID, project="gpt.toml")


def last(found):
    text = " ".join(line.strip() for line in shown(found))
    return text[text.index("Fastest") :] if "Fastest" in text else text


def test_a_search_shows_every_candidate_and_ends_with_its_evidence():
    lines = shown()
    assert (
        "\n".join(lines)
        == """\
s-20261201T150000-01: tested from 32 to 55, length 1,024
124M decoder on a shared node · NVIDIA H100 80GB HBM3 (GPU-1f0c) · bf16-autocast
GiB, a fresh process each · took 4 min 1 s
     micro   global  result              process      spare samples/s  how
 1      54      216  fits                 55.154      0.846     281.0  fit 5
 2      55      220  OOM, backward           n/a        n/a       n/a  fit n/a
 3      54      216  fits                 55.154      0.846     281.3  soak 50
 4      32      128  fits                 39.363     16.637     285.1  full 20
spare is of the budget 60.000 GiB less the reserve 4.000 GiB. fit: timed alone,
full: traced too, soak: traced when it holds; the number: timed iterations.
process = 16.394 GiB + 735.0 MiB x micro, residual n/a of 2 sizes: lengths vary
and it is of the longest, so only the measured peak counts.
Fastest of those tried is 32, 285.1 samples/s from 20 iterations; 54 within 2 %
of it.
LARGEST 54 (x 4 = 216 a step): soaked for 50 iterations and validation, and 55
    failed. Above 55: not tried. Saved in gpt.toml."""
    )
    assert all(len(line) <= 80 for line in lines)


def test_sizes_of_five_digits_stand_apart():
    assert right(("9,312.91", "-23,536.65", "152.4"), SIZES).split() == ["9,312.91", "-23,536.65", "152.4"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"outcome": "interrupted", "why": "it was stopped", "largest_probe": IDS[0]},
            "NOT DECIDED: it was stopped. 54 fits and 55 failed; whatever lies between was not decided.",
        ),
        (
            {"outcome": "failed", "why": "micro-batch 55 failed, not for memory: x"},
            "FAILED: micro-batch 55 failed",
        ),
        (
            {"largest": None, "largest_probe": None, "fastest": None, "fastest_probe": None},
            "DOES NOT FIT: none of 3 that were tried.",
        ),
        (
            {"failed_at": None, "why": "above 54 nothing was tried: --upper is 54"},
            "and validation. Above 54 nothing was tried: --upper is 54.",
        ),
        ({"validation_batch": 27}, "Validation does not fit at 54; at 27 it ran."),
        ({"validation_batch": 0}, "Validation does not fit beside it, not even with one sample."),
    ],
)
def test_a_search_says_how_it_ended_and_claims_no_more(change, sentence):
    assert sentence in last(replace(DONE, **change))


def test_batches_that_fit_only_for_a_few_iterations_are_said_to_be_so():
    failed = replace(PROBES[IDS[2]], outcome="out-of-memory", soaked=0, readings={})
    none = replace(DONE, largest=None, largest_probe=None, fastest=None, fastest_probe=None, probes=IDS[:3])
    lines = shown(none, measured(none, **{IDS[2]: failed}))
    text = " ".join(line.strip() for line in lines)
    assert "54 fits for a few iterations and not through the soak: does memory grow" in text
    assert "peakmark probe --batch 54 tells" in text


def test_a_search_that_tried_nothing_has_no_table():
    empty = dict.fromkeys(
        ("largest", "largest_probe", "failed_at", "failed_probe", "fastest", "fastest_probe")
    )
    nothing = replace(
        DONE, probes=(), candidates={}, environment="", outcome="failed", why="batch() fails", **empty
    )
    text = "\n".join(shown(nothing))
    assert "samples/s" not in text
    assert "device n/a" not in text
    assert "FAILED: batch() fails" in text


def test_an_interrupted_search_names_the_command_that_goes_on():
    assert shown(replace(DONE, outcome="interrupted"))[-1] == "Next: peakmark probe gpt.toml --search"


def test_a_smaller_batch_that_failed_is_told_beside_a_larger_that_fits():
    hole = replace(PROBES[IDS[1]], micro_batch=40)
    found = replace(DONE, candidates={**DONE.candidates, "40": "p-x"}, probes=(*IDS, "p-x"))
    text = " ".join(shown(found, measured(found, **{"p-x": hole})))
    assert "Smaller, and failed all the same: 40." in text


def test_a_batch_that_the_data_could_not_fill_has_no_verdict():
    few = replace(
        PROBES[IDS[0]], outcome="not-tested", observed_batch=10, failure="not tested: the model got 10"
    )
    found = replace(DONE, probes=("p-x",))
    text = "\n".join(shown(found, measured(found, **{"p-x": few})))
    assert "  got only 10  " in text
    assert "UNKNOWN" in "\n".join(
        probe_lines(CUDA_SPEC, measured(**{"p-x": few}), ["p-x"], project="gpt.toml")
    )


def test_the_document_explains_every_null_and_names_the_evidence():
    document = search_document(Source(CUDA_SPEC, measured(), "gpt.toml", FINGERPRINT), ID)
    assert unexplained(document) == []
    assert (document["largest"], document["failed_at"], document["fastest"]) == (54, 55, 32)
    assert (document["largest_probe"], document["soaked_count"]) == (IDS[2], 50)
    assert [one["tasks"] for one in document["candidates"]][1:3] == [["timed"], ["traced", "timed"]]
    assert document["batch"]["global"] == 216
    assert document["stale"] is False


def test_a_search_of_nothing_yet_is_a_document_too():
    empty = Search(at(15, 0), FINGERPRINT, "", "fp32")
    source = Source(CUDA_SPEC, measured(empty), "gpt.toml", "sha256:00000000")
    document = search_document(source, ID)
    assert unexplained(document) == []
    assert (document["outcome"], document["stale"], document["candidates"]) == ("interrupted", True, [])
    assert "nothing was tested" in shown(empty)[0]


def test_the_report_says_from_where_to_where_it_was_tested_and_by_which_measurements():
    text = report_markdown(Source(CUDA_SPEC, measured(), "gpt.toml", FINGERPRINT))
    section = text[text.index("## Largest micro-batch") :].split("\n## ")[0]
    assert "Tested from 32 to 55 at length 1,024." in section
    assert f"largest {IDS[2]}, failed {IDS[1]}, fastest {IDS[3]}" in section
    assert "## Largest micro-batch" not in report_markdown(Source(CPU_SPEC, CPU, "a.toml", FINGERPRINT))


def test_a_search_is_saved_and_read_again_and_its_evidence_stays(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('schema = 1\n[workload]\nsource = "mlp"\n')
    probe = replace(CPU_PROBE, soak=True, soaked=20, tasks=("timed",), failed_phase="validate", seconds=1.5)
    table = Measured(probe={IDS[0]: probe}, search={ID: DONE})
    save.record(path, lambda _: table)
    assert load(path).measured.search == {ID: DONE}
    assert load(path).measured.probe == {IDS[0]: probe}
    many = {
        f"p-2027{place:04}": replace(probe, at=CPU_PROBE.at + timedelta(hours=1)) for place in range(KEEP)
    }
    kept, leaving = trim(replace(table, probe={**many, IDS[0]: probe, "p-2025": probe}))
    assert IDS[0] in kept.probe
    assert [name for _, name, _ in leaving] == ["p-2025"]


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        ({1: 130, 2: 160, 4: 220}, "residual 0 B (0 %): a planning aid."),
        ({1: 130, 2: 200, 4: 220}, "a point lies more than 2.0 % off, so only the measured peak counts."),
        ({1: 130, 2: 120, 4: 110}, "it does not grow with the batch, so only the measured peak counts."),
    ],
)
def test_a_line_is_a_planning_aid_only_where_the_sizes_follow_it(points, sentence):
    assert line_sentence(CPU_SPEC, "requested", points, GIBIBYTES).endswith(sentence)


def test_one_size_is_no_line():
    assert line_sentence(CPU_SPEC, "requested", {1: 130}, GIBIBYTES) == ""


def test_a_batch_that_was_not_tested_is_no_candidate_of_the_report_and_no_ledger():
    few = replace(CUDA_PROBE, micro_batch=16, outcome="not-tested", observed_batch=10, phases={}, readings={})
    assert ledger_probe(CUDA_SPEC, Measured(probe={"p-x": few})) is None
    text = report_markdown(
        Source(CUDA_SPEC, replace(CUDA, probe={**CUDA.probe, "p-x": few}), "a", FINGERPRINT)
    )
    assert "16 x 4" not in text


def test_a_probe_with_phases_is_accepted_before_a_later_one_that_only_decided():
    short = replace(PROBES[IDS[0]], micro_batch=8)
    whole = PROBES[IDS[2]]
    phased = replace(whole, phases=CUDA_PROBE.phases)
    found = replace(CUDA, probe={IDS[2]: phased, IDS[3]: short})
    assert operating(CUDA_SPEC, found, FINGERPRINT).probe == IDS[2]
    assert operating(CUDA_SPEC, replace(CUDA, probe={IDS[3]: short}), FINGERPRINT).probe == IDS[3]
