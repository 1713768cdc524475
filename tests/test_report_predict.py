"""Predictions as text, as a document and in a ledger."""

from __future__ import annotations

from dataclasses import replace

import pytest
from predictions import GIB, MIB, prediction
from test_budget_prediction import ID, PROBE, SPEC, SPEC_HASH, measured, probe

from tui.budget import gpus
from tui.project.measured import Measured
from tui.project.model import BudgetSpec
from tui.project.prediction import Within
from tui.project.timeline import Phase, Storage, Timeline
from tui.report.documents_measured import ledger_document
from tui.report.documents_predict import gpus_document, predict_document
from tui.report.envelope import Source
from tui.report.json_values import unexplained
from tui.report.text_gpus import gpus_lines
from tui.report.text_ledger import ledger_lines
from tui.report.text_predict import predict_lines

FULL = prediction(
    SPEC_HASH,
    assumptions=("attention kernel: flash (bf16, causal, no mask)",),
    not_covered=("cuDNN (not used)",),
    largest=107,
    largest_limit_bytes=56 * GIB - 615 * MIB,
    largest_next=108,
    line_fixed_bytes=2 * GIB,
    line_per_sample_bytes=512 * MIB,
    line_residual_bytes=0,
)


def source(found: Measured) -> Source:
    return Source(SPEC, found, "gpt.toml", SPEC_HASH)


def lines(told=FULL, **more) -> str:
    return "\n".join(predict_lines(SPEC, measured(told), (ID,), project="gpt.toml", **more))


def test_a_prediction_says_what_it_takes_and_what_that_stands_on():
    assert (
        lines()
        == """\
PREDICTED in 9.4 s, no GPU used · 8 x 1 x 1 rank = 8 samples · fp32
f-20261201T140000-a3 · for NVIDIA H100 80GB HBM3 (--gpu), 79.647 GiB
requested               6.000 GiB  exact for the same program and torch version
tensor-allocated        6.001 GiB  exact likewise
allocator-reserved      6.020 GiB  +-0.6 %: depends on the history of the cache
process             6.52-6.63 GiB  + context 520-615 MiB (published; not
                                   calibrated)
peak: backward, in operator mm of layers.0; alive then: most of it retained
    activations, 4.000 GiB, 66.7 %
assumed      attention kernel: flash (bf16, causal, no mask) · allocator
             defaults · torch 2.13.0+cpu · 132 SMs
not covered  cuDNN (not used) · other processes
.item()      none
batch line   requested = 2.000 GiB + 0.5000 GiB x micro (residual 0 B)
largest      micro 107 fits in 55.399 GiB reserved (60.000 GiB less reserve
             4.000 less context 615 MiB); 108 does not
budget 60.000 = process 6.620 + reserve 4.000 + spare 49.380 GiB
the GPU has 79.647 GiB: the entered budget is tighter
FITS, by prediction with 49.380 GiB beyond the reserve, in the worst phase
    (backward).
Next: on a machine with the NVIDIA H100 80GB HBM3: peakmark probe gpt.toml
    --batch 8"""
    )


def test_what_is_approximate_and_what_several_ranks_add_is_said():
    text = lines(replace(FULL, ranks=8, strategy="fsdp2", approximate=("FSDP2 on a GPU: streams",)))
    assert "requested               6.000 GiB  exact but for what is approximate, see below" in text
    assert "+ context and NCCL 520-615 MiB" in text
    assert "approximate  FSDP2 on a GPU: streams" in text


def test_a_calibrated_context_is_one_figure_with_its_probe():
    origin = "calibrated by p-1 (e-1, torch 2.13.0)"
    told = replace(FULL, context_low_bytes=600 * MIB, context_high_bytes=600 * MIB, context_from=origin)
    said = " ".join(lines(told).split())
    assert "process 6.605 GiB + context 600 MiB (calibrated by p-1 (e-1, torch 2.13.0))" in said


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(len(line) for line in lines(width=width).splitlines()) <= width


def test_the_rows_of_a_phase_are_listed_when_asked_for():
    assert "retained activations         4.000" in lines(phase="backward")


def test_what_is_largest_at_the_peak_is_named_where_a_timeline_was_kept():
    mm = [Storage(0, None, GIB, "step_temporaries", "head", "mm", "8x4096x8192", "float32") for _ in range(4)]
    rest = Storage(-1, None, 2 * GIB, "weights", "head", "", "2x4", "float32")
    held = Timeline((Phase("backward", 0, 0, 1),), 1, (rest, *mm))
    assert "4 tensors of 8x4096x8192 float32 = 4.000 GiB, 66.7 %" in " ".join(lines(held=held).split())
    elsewhere = Timeline((Phase("backward", 0, 0, 1),), 1, (rest,))
    assert "alive then: most of it retained activations" in " ".join(lines(held=elsewhere).split())


def test_several_predictions_are_a_table():
    other = replace(FULL, micro_batch=200)
    found = Measured(prediction={ID: FULL, "f-2": other})
    text = predict_lines(SPEC, found, (ID, "f-2"), project="gpt.toml")
    assert text[2].split() == ["micro", "global", "requested", "allocated", "reserved", "process", "GiB"]
    assert text[3].split() == ["8", "8", "6.000", "6.001", "6.020", "6.52-6.63", "FITS"]
    assert text[-1] == "FITS, by prediction: 2 of 2 fit."


def test_the_settings_of_the_allocator_are_printed_with_how_far_they_are_proved():
    conf = "expandable_segments:True"
    told = replace(FULL, allocator=conf, allocator_rules="from source, not yet verified")
    said = " ".join(lines(told).split())
    assert f"allocator {conf} (from source, not yet verified) · torch" in said
    assert "defaults" not in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"emptying": 120, "emptying_retries": 4, "emptying_next": 121},
         "108 does not above it the cache has to be emptied: micro 120 runs with the cache emptied 4 times; "
         "121 runs out of memory"),
        ({"emptying": 107, "emptying_retries": 0, "emptying_next": 108},
         "emptying its cache makes room for no more; 108 runs out of memory"),
    ],
)  # fmt: skip
def test_the_largest_says_what_more_runs_when_the_cache_is_emptied(changes, said):
    assert said in " ".join(lines(replace(FULL, **changes)).split())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target_from": "this machine"}, "Next: peakmark probe gpt.toml --batch 8"),
        ({"target_from": "--gpu"}, "Next: on a machine with the NVIDIA H100 80GB HBM3: peakmark probe gpt.toml"),
        ({"target": "", "target_from": "none"}, "Next: on a machine with a GPU: peakmark probe gpt.toml"),
        ({"semantics": "cpu", "target": "", "context_low_bytes": None, "context_high_bytes": None},
         "Next: peakmark probe gpt.toml --batch 8 --device cpu"),
        ({"ranks": 8, "strategy": "fsdp2"}, "Next: on a machine with 8 such GPUs: peakmark probe gpt.toml"),
        ({"ranks": 8, "strategy": "zero2"},
         "Next: peakmark ledger gpt.toml; 8 ranks of zero2 are predicted and declared, and measured by nothing here"),
    ],
    ids=lambda one: str(one)[:40],
)  # fmt: skip
def test_what_to_do_next_is_what_can_be_done_there(changes, said):
    assert said in " ".join(lines(replace(FULL, **changes)).split())


def test_a_phase_in_which_the_cache_was_smaller_says_where_it_is_largest():
    early = replace(FULL.phases["backward"], reserved_bytes=6 * GIB + 2 * MIB)
    told = replace(FULL, phases={"first.step": early, **FULL.phases})
    line = next(line for line in lines(told, phase="first.step").splitlines() if "= allocator" in line)
    assert line.endswith("6.002  in this phase; at its most in backward")
    assert "in this phase" not in lines(told, phase="backward")


def test_a_table_says_of_each_batch_why_it_does_not_fit_and_how_often_its_cache_is_emptied():
    room = 6 * GIB + 600 * MIB
    tight = replace(SPEC, budget=BudgetSpec(room))
    runs = tuple(Within(room - one, 1, 0, room - one) for one in (520 * MIB, 615 * MIB))
    why = {
        "phase": "backward",
        "operator": "mm",
        "module": "head",
        "asked_bytes": GIB,
        "allocated_bytes": 5 * GIB,
    }
    failed = tuple(
        Within(one.capacity_bytes, 2, 1, one.capacity_bytes, cause="capacity", **why) for one in runs
    )
    found = {"f-1": replace(FULL, within=runs), "f-2": replace(FULL, micro_batch=9, within=failed)}
    text = predict_lines(tight, Measured(prediction=found), tuple(found), project="gpt.toml")
    assert text[3].endswith("FITS, 1 retry")
    assert text[4].endswith("DOES NOT FIT")
    said = " ".join(" ".join(text).split())
    assert (
        "micro 9: out of memory in backward in operator mm of head: it asks for 1.000 GiB and 5.000 GiB"
        in said
    )
    assert "budget 6.586 - reserve 0 = 6.586 GiB for the process (entered)" in said
    assert "largest micro 107 fits in" in said
    assert text[-1] == "DOES NOT FIT, by prediction: 1 of 2 fit."
    made = predict_document(Source(tight, Measured(prediction=found), "gpt.toml", SPEC_HASH), tuple(found))
    assert unexplained(made) == []
    assert (made["verdict"]["retries_count"], made["points"][0]["retries_count"]) == (1, 1)
    assert made["within"][0]["out_of_memory"] is None


def test_a_reason_that_every_point_of_a_table_shares_is_said_once():
    told = prediction(SPEC_HASH, semantics="cpu", target="", context_low_bytes=None, context_high_bytes=None)
    found = {"f-1": told, "f-2": replace(told, micro_batch=9)}
    text = predict_lines(SPEC, Measured(prediction=found), tuple(found), project="gpt.toml")
    assert " ".join(" ".join(text).split()).count("not predicted on the CPU") == 1


def test_nothing_predicted_names_the_command():
    text = predict_lines(SPEC, Measured(), (), project="gpt.toml")
    assert " ".join(text) == "UNKNOWN: nothing was predicted yet. Next: peakmark predict gpt.toml"


def test_every_null_of_the_document_is_explained():
    for told in (FULL, prediction(SPEC_HASH), prediction(SPEC_HASH, semantics="cpu", target="",
                 context_low_bytes=None, context_high_bytes=None)):  # fmt: skip
        assert unexplained(predict_document(source(measured(told)))) == []
    assert unexplained(predict_document(source(Measured()))) == []
    assert unexplained(gpus_document(gpus.table())) == []


def test_the_document_has_the_figures_and_the_range_of_the_process():
    made = predict_document(source(measured(FULL)))
    assert made["document"] == "predict"
    assert (made["requested_bytes"], made["reserved_bytes"]) == (6 * GIB, 6 * GIB + 20 * MIB)
    assert (made["context_low_bytes"], made["process_high_bytes"]) == (520 * MIB, 6 * GIB + 635 * MIB)
    assert made["target"]["sm_count"] == 132
    assert made["largest"]["micro"] == 107
    assert made["line"] == {
        "fixed_bytes": 2 * GIB, "per_sample_bytes": 512 * MIB, "residual_max_bytes": 0,
    }  # fmt: skip
    assert (made["verdict"]["word"], made["verdict"]["by"]) == ("fits", "prediction")


def test_the_table_of_gpus_fits_the_terminal_and_names_its_sources():
    text = gpus_lines(gpus.table(), 80)
    assert max(len(line) for line in text) <= 80
    assert any(line.split()[:5] == ["NVIDIA", "H100", "80GB", "HBM3", "79.647"] for line in text)
    (card,) = [line for line in text if line.startswith("NVIDIA H100 80GB HBM3")]
    keys = card.split()[-1]
    named = [line[7] for line in text if line.startswith("source ")]
    assert keys[0] == "a"
    assert len(set(keys)) == len(keys) == 4
    assert set(keys) <= set(named)
    assert any(line.startswith("source a: nvidia-smi") for line in text)


# --- in the ledger -----------------------------------------------------------------------------------


def test_a_ledger_shows_the_prediction_beside_the_measurement_and_names_causes():
    text = ledger_lines(SPEC, measured(found=probe(reserved=6 * GIB + 120 * MIB)), project="gpt.toml")
    rows = {line[:22].strip(): line for line in text}
    assert rows["weights"][22:59].split() == ["n/a", "1.000", "1.000", "0"]
    assert rows["cached"][22:59].split() == ["-", "0.019", "0.116", "+0.098*"]
    assert rows["context, kernels, NCCL"][22:59].split() == ["-", "0.50-0.61", "0.586", "within"]
    said = " ".join(" ".join(text).split())
    assert "* cached, allocator-reserved, process: history of the cache: +100.0 MiB of" in said
    assert "|m - p| adds up to 0.098 GiB in 1 of 16 rows, none of it unexplained" in said
    assert f"predicted {ID}, NVIDIA H100 80GB HBM3" in said


def test_a_ledger_without_a_measurement_is_marked_as_predicted():
    text = ledger_lines(SPEC, measured(), project="gpt.toml")
    assert text[1].startswith(f"PREDICTED {ID}, NVIDIA H100 80GB HBM3")
    rows = {line[:22].strip(): line for line in text}
    assert rows["retained activations"][22:50].split() == ["-", "4.000", "-"]
    assert "FITS, by prediction with 49.380 GiB" in " ".join(" ".join(text).split())


def test_a_document_of_a_ledger_explains_every_null_with_and_without_a_measurement():
    for found in (measured(), measured(found=probe())):
        made = ledger_document(source(found))
        assert unexplained(made) == []
        assert made["prediction"] == ID
    assert ledger_document(source(measured(found=probe())))["probe"] == PROBE
    context = next(row for row in made["rows"] if row["row"] == "context")
    assert (context["predicted_bytes"], context["predicted_low_bytes"]) == (None, 520 * MIB)
