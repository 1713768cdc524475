import doctest
import importlib
import re
import tomllib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sample_project import (
    CPU,
    CPU_PROBE,
    CPU_PROBE_ID,
    CPU_SPEC,
    CUDA,
    CUDA_PRECISION,
    CUDA_PROBE,
    CUDA_RESTORE,
    CUDA_SMALLER,
    CUDA_SPEC,
    CUDA_VERIFY,
    FINGERPRINT,
    GIB,
    PRECISION,
    PROBE,
    RESTORE,
    SMALLER,
    VERIFY,
)

from tui.project.load import parse
from tui.project.measured import Measured, Operating
from tui.report.documents import Source
from tui.report.markdown import markdown, report_markdown
from tui.report.operating import batches_run, operating
from tui.report.project_text import as_run, project_toml

GPU = Source(CUDA_SPEC, CUDA, "gpt.toml", FINGERPRINT)
HOST = Source(CPU_SPEC, CPU, "mlp.toml", "sha256:c0c0c0c0")
EMPTY = Source(CPU_SPEC, Measured(), "mlp.toml", "sha256:c0c0c0c0")
LATER = "p-20261201T170000-0a"


def found(measured=CUDA, spec=CUDA_SPEC, fingerprint=FINGERPRINT):
    return operating(spec, measured, fingerprint)


def loaded(text):
    return parse(Path("gpt.toml"), text.encode()).spec


@pytest.mark.parametrize(
    "name",
    [
        "envelope",
        "figures",
        "json_values",
        "lines",
        "markdown_text",
        "operating",
        "plain",
        "project_text",
        "sentences",
        "settle",
        "stale",
    ],
)
def test_the_examples_in_the_docstrings_hold(name):
    result = doctest.testmod(importlib.import_module(f"tui.report.{name}"))
    assert result.attempted
    assert not result.failed


def test_the_operating_configuration_is_the_evidence_that_passed():
    assert found() == Operating(
        probe=PROBE,
        verify=VERIFY,
        spec=FINGERPRINT,
        environment="e-7c1f",
        accepted_at=CUDA_RESTORE.at,
        micro_batch_tested=(4, 8),
        precision=PRECISION,
        restore=RESTORE,
        fallback=SMALLER,
    )


def test_evidence_of_another_spec_counts_for_nothing():
    assert found(fingerprint="sha256:ffffffff") is None
    assert found(fingerprint=FINGERPRINT + "7777").probe == PROBE


@pytest.mark.parametrize(
    "measured",
    [
        replace(CUDA, verify={}),
        replace(CUDA, verify={VERIFY: replace(CUDA_VERIFY, outcome="failed")}),
        replace(
            CUDA, verify={VERIFY: CUDA_VERIFY, "v-20261201T180000-00": replace(CUDA_VERIFY, outcome="failed")}
        ),
        replace(CUDA, verify={VERIFY: replace(CUDA_VERIFY, environment="e-other")}),
        replace(CUDA, probe={PROBE: replace(CUDA_PROBE, contended=True)}),
        replace(CUDA, probe={PROBE: replace(CUDA_PROBE, precision="fp32")}),
        replace(CUDA, probe={PROBE: CUDA_PROBE, LATER: replace(CUDA_PROBE, outcome="out-of-memory")}),
        Measured(),
    ],
    ids=[
        "no verify",
        "failed",
        "failed later",
        "elsewhere",
        "contended",
        "other precision",
        "later out",
        "nothing",
    ],
)
def test_nothing_is_validated_without_every_piece_of_evidence(measured):
    assert found(measured) is None


def test_a_cancelled_probe_takes_nothing_back():
    measured = replace(CUDA, probe={PROBE: CUDA_PROBE, LATER: replace(CUDA_PROBE, outcome="cancelled")})
    assert found(measured).probe == PROBE


def test_the_batch_that_the_spec_asks_for_comes_before_a_later_larger_one():
    larger = replace(CUDA_PROBE, micro_batch=16)
    assert found(replace(CUDA, probe={PROBE: CUDA_PROBE, LATER: larger})).probe == PROBE
    assert found(replace(CUDA, probe={LATER: larger})).probe == LATER
    assert batches_run(CUDA_SPEC, replace(CUDA, probe={PROBE: CUDA_PROBE, LATER: larger}), FINGERPRINT) == (
        8,
        16,
    )


def test_a_fallback_has_the_same_global_batch_and_was_run():
    other_total = replace(CUDA_SMALLER, accumulate=4)
    assert found(replace(CUDA, probe={PROBE: CUDA_PROBE, SMALLER: other_total})).fallback is None
    out = replace(CUDA_SMALLER, outcome="out-of-memory")
    assert found(replace(CUDA, probe={PROBE: CUDA_PROBE, SMALLER: out})).fallback is None
    tiny = replace(CUDA_SMALLER, micro_batch=1, accumulate=32)
    assert (
        found(replace(CUDA, probe={PROBE: CUDA_PROBE, SMALLER: CUDA_SMALLER, LATER: tiny})).fallback
        == SMALLER
    )


def test_a_restore_that_failed_later_is_no_evidence():
    measured = replace(CUDA, restore={RESTORE: CUDA_RESTORE, "r-9": replace(CUDA_RESTORE, outcome="failed")})
    assert found(measured).restore is None


def test_the_toml_block_is_a_whole_project():
    text = project_toml(as_run(CUDA_SPEC, CUDA_PROBE))
    assert tomllib.loads(text)["budget"]["job"] == "60 GiB"
    assert loaded(text) == CUDA_SPEC
    assert loaded(project_toml(CPU_SPEC)) == CPU_SPEC


def test_the_toml_block_has_the_batch_that_was_run_and_nothing_of_this_machine():
    local = replace(
        CUDA_SPEC, environment=replace(CUDA_SPEC.environment, python="/opt/python", launch="srun")
    )
    ran = loaded(project_toml(as_run(local, CUDA_SMALLER)))
    assert (ran.workload.batch.micro, ran.workload.batch.accumulate) == (4, 8)
    assert (ran.environment.python, ran.environment.launch) == (None, None)


def test_the_toml_block_of_the_report_is_that_project():
    block = re.search(r"```toml\n(.*?)```", report_markdown(GPU), re.DOTALL)
    assert loaded(block[1]) == CUDA_SPEC


def test_the_report_begins_with_the_verdict():
    lines = report_markdown(GPU).splitlines()
    assert lines[0] == "# 124M decoder on a shared node"
    assert lines[2] == (
        "> **VALIDATED: runs as 8 x 4 x 1 rank = 32 samples, length 1024, bf16-autocast, in 9.586 GiB of a budget "
        "of 60.000 GiB; reserve of 4.000 GiB kept, 46.414 GiB to spare.**"
    )
    assert lines[4] == (
        "> 270.3 samples/s (95 %: 268.1-272.2). Restores after a kill. Not accepted yet; evidence of 2026-12-01."
    )


def test_the_quote_says_whether_the_quality_target_is_met():
    def quality(met, target=2.0, precision=True):
        settings = {
            name: replace(one, quality_met=name in met) for name, one in CUDA_PRECISION.settings.items()
        }
        made = replace(CUDA_PRECISION, steps=30, settings=settings)
        spec = replace(CUDA_SPEC, quality=replace(CUDA_SPEC.quality, target=target))
        measured = replace(CUDA, precision={PRECISION: made} if precision else {})
        lines = report_markdown(replace(GPU, spec=spec, measured=measured)).splitlines()
        return lines[5]

    none = "> Not decided: quality target 2.000, which no setting reaches in 30 steps."
    assert quality(()) == none
    assert quality(("fp32", "bf16-autocast")) == "> Quality target met: 2.000, by bf16-autocast in 30 steps."
    assert quality(("fp32",)) == (
        "> Not decided: quality target 2.000, which bf16-autocast does not reach in 30 steps and fp32 does."
    )
    assert quality((), precision=False) == (
        "> Not decided: quality target 2.000, no comparison of this spec was finished."
    )
    assert quality((), target=None) == ""


def test_only_what_can_be_settled_names_a_command():
    reference = replace(CUDA_PRECISION.settings["fp32"], unknown={"gradient_error": "this is the reference"})
    other = replace(
        CUDA_PRECISION.settings["bf16-autocast"], unknown={"quality_met": "no quality target is entered"}
    )
    made = replace(CUDA_PRECISION, settings={"fp32": reference, "bf16-autocast": other})
    text = report_markdown(replace(GPU, measured=replace(CUDA, precision={PRECISION: made})))
    assert "this is the reference" not in text
    assert (
        "| bf16-autocast: quality met | no quality target is entered | set quality.target in gpt.toml |"
        in text
    )
    text = report_markdown(HOST)
    assert "an interval needs 5 | `peakmark probe mlp.toml --iterations N` |" in text


def test_notes_that_were_not_written_say_where_to_write_them():
    text = report_markdown(HOST)
    assert "* Brief: none written; write it as brief under [notes] in mlp.toml" in text
    assert "* Decisions: none written; write it as handoff under [notes] in mlp.toml" in text


def test_a_report_of_a_spec_that_has_changed_says_so_above_the_ledger():
    text = report_markdown(replace(HOST, fingerprint="sha256:8a710000"))
    assert f"**Stale**: the spec has changed since {CPU_PROBE_ID} was measured (then c0c0, now 8a71);" in text
    assert "**Stale**" not in report_markdown(HOST)


def test_a_report_after_an_out_of_memory_alone_says_it_once():
    probe = replace(CUDA_PROBE, outcome="out-of-memory", failure="out of memory: step", phases={})
    text = report_markdown(replace(GPU, measured=replace(CUDA, probe={PROBE: probe})))
    assert "No phase was measured to its end. DOES NOT FIT: out of memory: step." in text
    assert text.count("| out of memory: step |") == 1


def test_the_report_of_a_cpu_says_what_others_took_of_it():
    probe = replace(CPU_PROBE, others_cpu_ratio=0.62)
    verify = replace(CUDA_VERIFY, spec=CPU_PROBE.spec, environment=CPU_PROBE.environment)
    measured = replace(CPU, probe={CPU_PROBE_ID: probe}, verify={VERIFY: verify})
    text = report_markdown(replace(HOST, measured=measured))
    assert "at nice 10; others took 62 % of the CPUs; drift over hours" in text
    assert "* others took 62 % of the CPUs while it was timed: the rate is that of a shared machine" in text


def test_an_accepted_configuration_is_named():
    accepted = replace(found(), accepted_at=datetime(2026, 12, 3, tzinfo=UTC))
    text = report_markdown(replace(GPU, measured=replace(CUDA, operating={"o-1": accepted})))
    assert "Configuration o-1, accepted 2026-12-03." in text


def test_every_section_is_there_when_everything_was_measured():
    headings = [line.split(" (")[0] for line in report_markdown(GPU).splitlines() if line.startswith("## ")]
    assert headings == [
        "## Operating configuration",
        "## Ledger by phase",
        "## Readings",
        "## Candidates",
        "## Precision",
        "## Throughput and time",
        "## Restore",
        "## Environment",
        "## Parameters",
        "## Assumptions and unknowns",
        "## Hand-off",
    ]


def test_the_ledger_by_phase_has_the_worst_phase_first_and_in_bold():
    text = report_markdown(GPU)
    assert "| row | declared | **backward** | build | step |" in text
    assert "| optimizer state | 0.927 | 0.927 | 0 | 0.927 |" in text
    assert "| **= process** |  | 9.586 | n/a | 9.586 |" in text


def test_every_reading_has_its_meaning_and_phases_have_what_they_leave():
    text = report_markdown(GPU)
    assert "| process | 9.586 | backward | charged | device less others |" in text
    peak = replace(CUDA_PROBE.phases["backward"], end_requested_bytes=GIB, end_process_bytes=9 * GIB)
    probe = replace(CUDA_PROBE, phases={**CUDA_PROBE.phases, "backward": peak}, loader_ms_median=12.0)
    told = report_markdown(replace(GPU, measured=replace(CUDA, probe={**CUDA.probe, PROBE: probe})))
    assert "| backward | 7.917, 1.000 | 7.918, n/a | 9.000, n/a | 9.586, 9.000 |" in told
    assert "* loader: 12.0 ms an iteration to make its batches, not in the time" in told


def test_the_candidates_are_bars_of_one_scale_with_the_limit_marked():
    chart = re.search(r"```\n(micro.*?)```", report_markdown(GPU), re.DOTALL)[1].splitlines()
    assert chart[1].startswith("    4 x 8    █████▒c ")
    assert chart[2].startswith("    8 x 4    ████████▒c ")
    assert [line.index("|") for line in chart[1:]] == [13 + 56] * 2
    assert chart[1].split()[-2:] == ["6.586", "246.0"]


def test_the_report_works_when_nothing_was_measured_and_says_what_to_run():
    text = report_markdown(EMPTY)
    assert "NOT VALIDATED: nothing was measured yet.** Next: `peakmark verify mlp.toml`" in text
    assert "| memory and speed | nothing was measured | `peakmark probe mlp.toml` |" in text
    assert "Not measured yet. Next: `peakmark probe mlp.toml`" in text


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        (CPU, "this spec was not verified"),
        (replace(CUDA, verify={VERIFY: replace(CUDA_VERIFY, outcome="failed")}), "the last Verify failed"),
        (replace(CUDA, probe={}), "no probe of this spec was run"),
        (
            replace(CUDA, probe={PROBE: replace(CUDA_PROBE, contended=True)}),
            "no uncontended probe of this spec fits with the reserve",
        ),
    ],
)
def test_a_report_without_a_configuration_says_why(measured, why):
    spec, mark = (CPU_SPEC, "sha256:c0c0c0c0") if measured is CPU else (CUDA_SPEC, FINGERPRINT)
    assert f"NOT VALIDATED: {why}.**" in report_markdown(Source(spec, measured, "a.toml", mark))


def test_every_figure_that_is_not_known_stands_in_the_table_with_its_reason():
    text = report_markdown(Source(CPU_SPEC, CPU, "mlp.toml", "sha256:c0c0c0c0"))
    assert (
        "| other processes, measured | the container hides other processes | nothing: not a figure of this device |"
        in text
    )
    assert (
        "| tokens per s | no entry of the batch counts tokens | set workload.batch.tokens in mlp.toml |"
        in text
    )


def test_two_reports_of_one_project_are_the_same_and_name_no_folder():
    assert report_markdown(GPU) == report_markdown(GPU)
    for source in (GPU, EMPTY):
        text = report_markdown(source)
        assert str(Path.cwd()) not in text
        assert "/home" not in text
        assert "nan" not in text.split()


def test_text_from_outside_cannot_break_the_page():
    spec = replace(
        CUDA_SPEC, title="a | b <script> `x`\n# c", notes=replace(CUDA_SPEC.notes, brief="```\n## d")
    )
    text = report_markdown(replace(GPU, spec=spec))
    assert text.splitlines()[0] == "# a \\| b &lt;script> 'x' # c"
    assert "* Brief: ''' ## d" in text
    assert sum(line.startswith("## ") for line in text.splitlines()) == 11


def test_a_project_that_was_loaded_has_a_report(tmp_path):
    path = tmp_path / "mlp.toml"
    project = parse(path, b'schema = 1\n[workload]\nsource = "mlp"\n')
    assert markdown(project).startswith("# mlp\n\n> **NOT VALIDATED: nothing was measured yet.**")
