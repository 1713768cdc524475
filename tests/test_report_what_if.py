"""The text and the document of what-if, over planted predictions."""

from __future__ import annotations

import json
from pathlib import Path

import predictions as made
import pytest
from predictions import GIB, MIB

from tui.budget import what_if
from tui.budget.what_if_rows import Case, WhatIf, compare
from tui.project.load import parse
from tui.project.prediction import PredictedPeak
from tui.report.documents_what_if import what_if_document
from tui.report.envelope import Source
from tui.report.text_what_if import what_if_lines

TEXT = """\
schema = 1
[workload]
source = "decoder"
[workload.batch]
micro = 8        # samples
length = 1024
[budget]
job = "11 GiB"
reserve = "4 GiB"
"""
REFUSED = "cannot predict: workload.step.compile = true; measure it"


def case(word: str = "", micro: int | None = 8, phase: str = "backward", **more) -> Case:
    """4.5 GiB more than 512 MiB a sample; NVIDIA H100 for the prediction."""
    project = parse(Path("p.toml"), TEXT.encode())
    if word:
        project = what_if.apply(project, [what_if.parse(one, project.spec) for one in word.split()])
    if micro is None:
        return Case(project, None, "cuda", total_bytes=80 * GIB, **more)
    requested = made.FIXED + made.EACH * micro
    rows = {"weights": GIB, "gradients": GIB, "retained_activations": made.EACH * micro}
    peak = PredictedPeak(requested, requested + MIB, requested + 20 * MIB, rows=rows)
    found = made.prediction("s", micro_batch=micro, length=1024, phases={phase: peak}, worst_phase=phase)
    return Case(project, None, "cuda", found, origin="predicted", total_bytes=80 * GIB)


def asked(*words: str, then: list[Case]) -> WhatIf:
    now = case()
    spec = now.project.spec
    changes = [tuple(what_if.parse(one, spec) for one in word.split()) for word in words]
    return WhatIf(now, tuple(compare(now, one, of) for of, one in zip(changes, then, strict=True)))


def test_rows_that_change_come_first_then_verdict_and_spare_before_and_after():
    lines = what_if_lines(asked("batch=16", then=[case("batch=16", 16)]), "p.toml")
    assert lines[0] == "WHAT IF workload.batch.micro 8 -> 16"
    assert lines[1] == "for NVIDIA H100 80GB HBM3 (--gpu) · peak in backward"
    assert lines[2] == "GiB                             now       then  difference  from"
    assert lines[3] == "retained activations          4.000      8.000      +4.000  predicted"
    assert lines[4] == "= requested                   6.000     10.000      +4.000  predicted"
    assert lines[7] == "= process                 6.52-6.63  10.5-10.7      +4.000  predicted"
    assert lines[8] == "unchanged"
    assert lines[9].split() == ["weights", "1.000", "1.000", "0", "predicted"]
    assert "verdict   FITS -> FITS ONLY WITHOUT THE RESERVE, by prediction" in lines
    assert "spare     0.380 GiB -> -3.620 GiB (-4.000)" in lines
    assert lines[-3:-1] == ["  -micro = 8        # samples", "  +micro = 16        # samples"]
    assert lines[-1] == "Nothing is saved. Next: peakmark what-if p.toml batch=16 --accept"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_line_fits_the_width(width):
    long = (
        "optimizer=mine.package.with.a.long.name:TheOptimizer checkpoint=Block,Attention,FeedForward batch=99"
    )
    found = asked(long, "batch=16", then=[case(long, None, refused=REFUSED * 3), case("batch=16", 16)])
    lines = what_if_lines(found, "p.toml", width)
    assert max(map(len, lines)) <= width


def test_several_scenarios_begin_with_a_line_each():
    found = asked("batch=4", "batch=40", then=[case("batch=4", 4), case("batch=40", 40)])
    lines = what_if_lines(found, "p.toml")
    assert lines[0] == "GiB                    requested reserved     process     spare  verdict"
    assert lines[1] == "now                        6.000    6.020   6.52-6.63     0.380  FITS"
    assert lines[3].split() == [
        "batch=40",
        "22.000",
        "22.020",
        "22.5-22.7",
        "-15.509",
        "DOES",
        "NOT",
        "FIT",
    ]


def test_a_spec_that_cannot_be_predicted_shows_what_is_declared_and_why():
    found = asked("batch=16 workload.step.compile=true", then=[case("batch=16", None, refused=REFUSED)])
    lines = what_if_lines(found, "p.toml")
    assert lines[1] == "declared rows alone · peak in backward"
    (batch,) = (line for line in lines if line.startswith("input batch"))
    assert batch.endswith("declared: 16 x 1024…")
    assert "then      not predicted: workload.step.compile = true; measure it" in lines
    assert "verdict   FITS -> UNKNOWN" in lines
    assert "spare     0.380 GiB -> n/a" in lines
    assert lines[-1] == "Nothing is saved."


def test_a_peak_that_moves_to_another_phase_is_told():
    lines = what_if_lines(asked("batch=8", then=[case("batch=8", 8, "step")]), "p.toml")
    assert lines[1] == "for NVIDIA H100 80GB HBM3 (--gpu) · peak in backward now, in step then"
    assert lines[3] == "no row changes"


def test_predictions_of_two_versions_of_torch_are_told():
    now, then = case(), case("batch=8")
    assert then.prediction is not None
    object.__setattr__(then.prediction, "torch", "2.14.0")
    lines = what_if_lines(WhatIf(now, (compare(now, then, ()),)), "p.toml")
    assert "torch     2.13.0+cpu predicted now, 2.14.0 then" in lines


def test_an_accepted_scenario_has_no_command_that_comes_next():
    lines = what_if_lines(asked("batch=16", then=[case("batch=16", 16)]), "p.toml", accepted=True)
    assert not any("Next:" in line or "Nothing is saved" in line for line in lines)


def test_the_document_has_changes_diff_rows_and_both_verdicts():
    found = asked("batch=16 clip=1.0", then=[case("batch=16 clip=1.0", 16)])
    now = found.now.project
    document = what_if_document(Source(now.spec, now.measured, "p.toml", "sha256:1"), found)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert (document["document"], document["accepted"]) == ("what-if", False)
    assert document["now"]["verdict"]["word"] == "fits"
    (one,) = document["scenarios"]
    assert one["changes"][0] == {"key": "workload.batch.micro", "was": 8, "becomes": 16}
    assert one["changes"][1]["was"] is None
    assert document["unknown"]["scenarios.0.changes.1.was"] == "not set in the file"
    assert "+micro = 16" in one["diff"]
    assert one["verdict"]["spare_bytes"] == 11 * GIB - 4 * GIB - 10 * GIB - 635 * MIB
    rows = {row["row"]: row for row in one["rows"]}
    assert rows["retained_activations"]["difference_bytes"] == 4 * GIB
    assert (rows["process"]["now"]["low_bytes"], rows["process"]["difference_bytes"]) == (
        6 * GIB + 540 * MIB,
        4 * GIB,
    )
    assert rows["requested"]["kind"] == "sum"
