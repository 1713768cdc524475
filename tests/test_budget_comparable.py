"""Batches are compared only when they began alike, and a leak is told."""

from dataclasses import replace

from sample_project import CUDA, CUDA_PROBE, CUDA_SPEC, FINGERPRINT, PROBE

from tui.budget.comparable import void
from tui.report.documents_measured import probe_document
from tui.report.envelope import Source
from tui.report.text import probe_lines

MIB = 2**20


def began(micro, size, **changes):
    return replace(CUDA_PROBE, micro_batch=micro, start_bytes=size, **changes)


def test_candidates_that_began_with_other_bytes_alive_are_not_compared():
    # datawhalechina/diy-llm#57: 0 and 340 MiB were there before; 1,686 and 2,026 MiB are one peak.
    assert void([began(4, 0), began(8, 340 * MIB), began(16, 0)]) == (
        "they did not begin with the same bytes alive (micro 4 and 16 with 0 B, micro 8 with 356,515,840 B): "
        "what build() makes must not depend on the batch"
    )


def test_equal_starts_unknown_ones_and_other_specs_or_precisions_are_no_reason():
    assert void([began(4, 7), began(8, 7)]) == ""
    assert void([began(4, 7), began(8, None)]) == ""
    assert void([began(4, 7), began(8, 9, spec="another"), began(8, 5, precision="bf16")]) == ""
    assert void([]) == ""


def test_a_void_comparison_is_told_in_the_table_and_in_the_document():
    measured = replace(CUDA, probe={"p-1": began(4, 7), "p-2": began(8, 9)})
    text = " ".join(
        line.strip() for line in probe_lines(CUDA_SPEC, measured, ["p-1", "p-2"], project="gpt.toml")
    )
    assert (
        "COMPARISON VOID: they did not begin with the same bytes alive (micro 4 with 7 B, micro 8 with 9 B)"
        in text
    )
    document = probe_document(Source(CUDA_SPEC, measured, "gpt.toml", FINGERPRINT), ["p-1", "p-2"])
    assert document["comparison_void"].startswith("they did not begin")
    assert [one["start_bytes"] for one in document["candidates"]] == [7, 9]


def test_a_leak_is_told_with_what_grows():
    leaking = replace(CUDA_PROBE, growth_bytes=49664, growth_of={"tanh in 1": 32768, "randn": 16384})
    measured = replace(CUDA, probe={PROBE: leaking})
    text = " ".join(line.strip() for line in probe_lines(CUDA_SPEC, measured, [PROBE], project="gpt.toml"))
    assert "leak: memory grows by 49,664 B an iteration: tanh in 1 32.0 KiB, randn 16.0 KiB" in text
    steady = replace(CUDA, probe={PROBE: replace(CUDA_PROBE, growth_bytes=0)})
    assert "leak" not in "".join(probe_lines(CUDA_SPEC, steady, [PROBE], project="gpt.toml"))
