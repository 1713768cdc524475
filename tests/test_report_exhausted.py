"""An out-of-memory and a loss that is not finite, as text and as JSON."""

from dataclasses import replace

import pytest
from sample_project import CUDA, CUDA_PROBE, CUDA_SPEC, FINGERPRINT, PROBE

from tui.report.documents_exhausted import exhausted_document
from tui.report.documents_measured import probe_document
from tui.report.envelope import Source
from tui.report.figures import GIBIBYTES
from tui.report.json_values import Missing, explained, unexplained
from tui.report.markdown import report_markdown
from tui.report.text import probe_lines
from tui.report.text_exhausted import exhausted_lines, remedy

MIB, GIB = 2**20, 2**30
OUT = replace(
    CUDA_PROBE,
    micro_batch=64,
    outcome="out-of-memory",
    failure="out of memory: iteration 1, backward of micro-batch 2, in _log_softmax_backward_data",
    phases={},
    readings={},
    worst_phase=None,
    samples_per_s=None,
    step_ms_median=None,
    asked_bytes=12 * GIB,
    limit_bytes=59 * GIB,
    exhausted_class="fragmentation",
    exhausted_why="11.000 GiB of the cache is free and 1.000 GiB beside it, enough for 12.000 GiB, "
    "but the largest free block is 6.500 GiB",
    exhausted_phase="backward",
    exhausted_iteration=0,
    exhausted_micro=1,
    exhausted_operator="_log_softmax_backward_data",
    exhausted_allocated_bytes=47 * GIB,
    exhausted_reserved_bytes=58 * GIB,
    largest_free_block_bytes=6 * GIB + 512 * MIB,
    free_blocks_bytes=11 * GIB,
    device_free_bytes=GIB,
    alive={"weights": GIB, "step_temporaries": 46 * GIB},
    alive_modules={"head": 40 * GIB, "h.0": 3 * GIB, "h.1": 2 * GIB, "h.2": GIB, "h.3": GIB // 2, "others": GIB // 2},
    alive_top={"65536x50257 float32, _log_softmax in head": 12 * GIB},
    alive_source="the labelled iteration",
    would_fit="micro 32 fits (measured)",
    unknown={"exhausted_module": "the operator lies in no module, or was not seen"},
)  # fmt: skip


def test_everything_of_the_moment_is_told():
    assert "\n".join(exhausted_lines(OUT, GIBIBYTES, 10, 80)) == (
        """\
asked     12.000 GiB (12,884,901,888 B)
held      58.000 reserved = 47.000 allocated + 11.000 cached (largest block
          6.500, GiB) · free on the device 1.000 GiB
cap       59.000 GiB, what the process was held to
cause     FRAGMENTATION: 11.000 GiB of the cache is free and 1.000 GiB beside
          it, enough for 12.000 GiB, but the largest free block is 6.500 GiB
alive     step temporaries 46.000 GiB · weights 1.000 GiB (47.000 GiB requested;
          labels: the labelled iteration)
modules   head 40.000 GiB · h.0 3.000 GiB · h.1 2.000 GiB · h.2 1.000 GiB ·
          others 1.000 GiB
tensors   65536x50257 float32, _log_softmax in head 12.000 GiB
fits      micro 32 fits (measured)"""
    )


@pytest.mark.parametrize("word", ["capacity", "others", "limit", "host", "unknown", None])
def test_expandable_segments_are_advised_against_fragmentation_alone(word):
    environment = CUDA.environment[CUDA_PROBE.environment]
    assert "expandable_segments:True" in remedy(OUT, environment)
    assert remedy(replace(OUT, exhausted_class=word), environment) == ""
    assert remedy(OUT, replace(environment, allocator="expandable_segments:True")) == ""
    measured = replace(CUDA, probe={PROBE: replace(OUT, exhausted_class=word)})
    text = "\n".join(probe_lines(CUDA_SPEC, measured, [PROBE], project="gpt.toml"))
    assert "expandable" not in text


def test_the_advice_stands_before_what_to_run_next():
    measured = replace(CUDA, probe={PROBE: OUT})
    last = " ".join(
        line.strip() for line in probe_lines(CUDA_SPEC, measured, [PROBE], project="gpt.toml")[-4:]
    )
    assert "Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and measure again. Try micro 32 x" in last


def test_the_document_has_the_figures_the_rule_and_a_reason_for_every_null():
    found = exhausted_document(OUT)
    assert not isinstance(found, Missing)
    assert (found["cause"], found["largest_free_block_bytes"], found["phase"]) == (
        "fragmentation",
        6 * GIB + 512 * MIB,
        "backward",
    )
    assert (found["iteration_index"], found["micro_batch_index"]) == (0, 1)
    assert found["modules"][0] == {"module": "head", "bytes": 40 * GIB}
    assert found["tensors"][0]["what"].startswith("65536x50257")
    told = explained({"out_of_memory": found})
    assert told["unknown"] == {"out_of_memory.module": "the operator lies in no module, or was not seen"}


def test_a_probe_from_before_causes_were_told_is_read_and_every_null_explained():
    old = replace(CUDA_PROBE, outcome="out-of-memory", asked_bytes=GIB, alive={"weights": 4})
    source = Source(CUDA_SPEC, replace(CUDA, probe={PROBE: old}), "gpt.toml", FINGERPRINT)
    document = probe_document(source, [PROBE])
    assert document["out_of_memory"]["cause"] is None
    assert unexplained(document) == []
    assert "cause" not in "\n".join(exhausted_lines(old, GIBIBYTES, 10, 80))


def test_a_loss_that_is_not_finite_keeps_its_memory_figures_and_says_why_there_are_no_times():
    why = "loss is NaN at iteration 3; first non-finite: output of 0 (fp32); memory figures are kept"
    reasons = dict.fromkeys(("step_ms_median", "samples_per_s", "tokens_per_s"), "the loss is not finite")
    poisoned = replace(CUDA_PROBE, outcome="failed", failure=why, step_ms_median=None, samples_per_s=None,
                       step_ms=(), unknown=reasons)  # fmt: skip
    measured = replace(CUDA, probe={PROBE: poisoned})
    lines = probe_lines(CUDA_SPEC, measured, [PROBE], project="gpt.toml")
    whole = probe_lines(CUDA_SPEC, CUDA, [PROBE], project="gpt.toml")
    memory = next(line for line in whole if line.startswith("memory"))
    assert memory in lines
    assert "time      n/a: the loss is not finite" in lines
    assert " ".join(line.strip() for line in lines).endswith(f"UNKNOWN: {why}.")


def test_the_report_has_a_row_for_each_batch_that_ran_out_and_says_why():
    again = replace(OUT, micro_batch=128)
    source = Source(
        CUDA_SPEC, replace(CUDA, probe={PROBE: CUDA_PROBE, "p-1": OUT, "p-2": again}), "g", FINGERPRINT
    )
    text = report_markdown(source)
    rows = text.split("## Out of memory\n")[1].split("\n## ")[0].splitlines()
    assert [row.split(" | ")[0] for row in rows[3:] if row] == [
        "| 64 x 4, length 1024",
        "| 128 x 4, length 1024",
    ]
    assert "FRAGMENTATION: 11.000 GiB of the cache is free" in rows[3]
    assert "step temporaries 46.000 GiB, weights 1.000 GiB; most of it by head, h.0, h.1, h.2" in rows[3]
    assert "## Out of memory" not in report_markdown(Source(CUDA_SPEC, CUDA, "g", FINGERPRINT))


def test_no_smaller_batch_is_proposed_where_memory_ran_out_before_there_was_one():
    early = replace(OUT, exhausted_phase="build", exhausted_class="limit")
    text = "\n".join(probe_lines(CUDA_SPEC, replace(CUDA, probe={PROBE: early}), [PROBE], project="gpt.toml"))
    assert "Try micro" not in text
