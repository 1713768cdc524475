"""What is said of smaller batches after an out-of-memory: what was measured, a line, or no more than a bound."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sample_project import CUDA_SPEC

from tui.budget.exhausted import Numbers, classify
from tui.budget.reserve import learned
from tui.budget.would_fit import Known, known, most_by_line, would_fit
from tui.project.measured import Measured, PhasePeak, Probe, Reading
from tui.report import advice

MIB, GIB = 2**20, 2**30
AT = datetime(2026, 12, 1, tzinfo=UTC)
FAILED = Probe(AT, "s", "e-1", "fp32", 8, 1, "out-of-memory", device="cuda",
               alive={"weights": GIB, "gradients": GIB, "retained_activations": 4 * GIB, "input_batch": 0})  # fmt: skip


def said(process=(), fits=(), limit=10 * GIB, word="capacity", numbers=None, failed=FAILED):
    return would_fit(failed, numbers or Numbers(2 * GIB), word, Known(dict(process), frozenset(fits)), limit)


def test_two_measured_batches_give_a_line_and_it_is_called_a_planning_aid():
    # 2 GiB and 1 a sample: 7 samples need 9, exactly what there is.
    text = said({2: 4 * GIB, 4: 6 * GIB}, {2, 4}, 9 * GIB)
    assert text == (
        "micro 4 fits (measured); micro 7 by the line through 2 and 4 (1.000 GiB a sample): a planning aid, not proven"
    )
    assert "micro 6 by the line" in said({2: 4 * GIB, 4: 6 * GIB}, {2, 4}, 9 * GIB - 1)


def test_a_line_that_lets_the_failed_batch_through_is_not_believed():
    assert said({2: 4 * GIB, 4: 6 * GIB}, {4}, 10 * GIB).endswith(
        "by the line through 2 and 4 (1.000 GiB a sample) 8 would fit too, and it ran out: "
        "only a measurement decides above 4"
    )


def test_a_line_says_nothing_below_what_was_measured_to_fit():
    assert said({2: 4 * GIB, 4: 6 * GIB}, {4}, 5 * GIB) == "micro 4 fits (measured)"


def test_a_line_that_starts_above_the_limit_names_no_batch():
    text = said({2: 4 * GIB, 4: 6 * GIB}, (), 2 * GIB)
    assert text == "no batch by the line through 2 and 4 (1.000 GiB a sample)"


def test_a_line_that_does_not_grow_is_no_limit():
    assert "does not grow" in said({2: 4 * GIB, 4: 4 * GIB}, {2, 4})


@pytest.mark.parametrize("limit", [None, 9 * GIB])
def test_one_measured_batch_gives_no_line(limit):
    assert said({4: 6 * GIB}, {4}, limit) == "micro 4 fits (measured)"


def test_without_a_measured_batch_the_moment_alone_speaks():
    assert said() == (
        "no smaller batch of this spec was measured; at that moment 8 samples held and asked for 6.000 GiB, "
        "beside 2.000 GiB that no batch makes smaller"
    )


def test_where_the_room_is_known_the_moment_is_a_bound():
    # 6 GiB for 8 samples; there was room for 4 alive + 0.5 free: 4.5 of 6 are 6 of 8 samples.
    numbers = Numbers(2 * GIB, GIB // 4, 7 * GIB, 7 * GIB - GIB // 4, GIB // 4, GIB // 4)
    assert said(numbers=numbers).endswith(
        "that moment leaves room for micro 6 at most, a later one may need more"
    )


def test_what_others_hold_is_said_to_be_what_is_missing():
    assert said(word="others").startswith(
        "this batch, when other processes leave it the room that they hold now; "
    )


def test_a_single_sample_has_nothing_smaller():
    assert said(failed=replace(FAILED, micro_batch=1)) == ""


def test_only_the_very_same_configuration_counts_as_measured():
    peak = PhasePeak(GIB, process_bytes=2 * GIB)
    fits = replace(
        FAILED, micro_batch=4, outcome="fits", phases={"step": peak}, worst_phase="step",
        readings={"process": Reading(2 * GIB, "", ""), "others": Reading(0, "", "")},
    )  # fmt: skip
    others = [
        replace(fits, spec="another"), replace(fits, environment="e-2"), replace(fits, precision="bf16"),
        replace(fits, accumulate=2), replace(fits, length=9), replace(fits, contended=True),
        replace(fits, micro_batch=8), replace(fits, outcome="failed"),
    ]  # fmt: skip
    assert known(CUDA_SPEC, FAILED, others) == Known({}, frozenset())
    assert known(CUDA_SPEC, FAILED, [*others, fits]) == Known({4: 2 * GIB}, frozenset({4}))


def test_the_line_bounds_what_is_tried_next():
    def ran(micro, size):
        peak = PhasePeak(GIB, process_bytes=size)
        return replace(FAILED, micro_batch=micro, outcome="fits", phases={"step": peak}, worst_phase="step",
                       readings={"process": Reading(size, "", ""), "others": Reading(0, "", "")})  # fmt: skip

    failed = replace(FAILED, micro_batch=64)
    # 56 GiB are the budget less the reserve: 20 and 2 a sample leave 18 samples.
    assert most_by_line(CUDA_SPEC, failed, [ran(2, 24 * GIB), ran(4, 28 * GIB)]) == 18
    assert most_by_line(CUDA_SPEC, failed, [ran(2, 24 * GIB), ran(4, 24 * GIB)]) is None
    assert most_by_line(CUDA_SPEC, failed, [ran(2, 24 * GIB)]) is None
    unbounded = replace(CUDA_SPEC, budget=replace(CUDA_SPEC.budget, job=None))
    assert most_by_line(unbounded, failed, [ran(2, 24 * GIB), ran(4, 28 * GIB)]) is None
    measured = Measured(probe={"p-1": ran(2, 24 * GIB), "p-2": ran(4, 28 * GIB), "p-3": failed})
    assert advice.smaller(measured, [failed], 18) == 16
    assert advice.smaller(measured, [failed]) == 32


def test_a12_a_driver_that_refuses_what_it_reports_as_free_teaches_the_reserve():
    # microsoft/WSL#41176: 0.88 of the device fails, 0.80 works.
    total = 100 * GIB
    numbers = Numbers(8 * GIB, 20 * GIB, 80 * GIB, 79 * GIB, 0, 0, device_total=total)
    found = classify(numbers)
    assert found.word == "unknown"
    text = said({4: 80 * GIB}, {4}, word=found.word, numbers=numbers)
    assert text.startswith(
        "keep more than 12.000 GiB of the device free (12.0 %); 20.000 GiB free is proven to be enough"
    )
    assert learned(100, [(88, False), (80, True)]) == (12, 20)
    assert learned(100, [(88, False), (80, True), (84, True)]) == (12, 16)  # a narrower one that passes
    assert learned(100, [(88, False), (90, True)]) == (12, None)
    assert learned(100, []) == (None, None)


def test_what_ran_out_before_there_was_a_batch_is_helped_by_none():
    failed = replace(FAILED, exhausted_phase="build")
    assert said({2: GIB, 4: 2 * GIB}, {4}, failed=failed) == (
        "no smaller batch helps: memory ran out before a batch was there"
    )


def test_a_peak_that_the_traced_run_lived_through_has_what_was_asked_in_it():
    failed = replace(FAILED, alive_source="the traced run at its peak of backward, which it survived")
    assert said(failed=failed) == (
        "no smaller batch of this spec was measured; at the peak of that phase 8 samples need 4.000 GiB, "
        "beside 2.000 GiB that no batch makes smaller"
    )
