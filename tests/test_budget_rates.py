import pytest

from tui.budget.batch import fit, largest
from tui.budget.throughput import drift_ratio, summary
from tui.budget.time import Overhead, left_s, stages, steps_for, training_time


def test_all_samples_over_all_the_time_is_the_rate():
    found = summary([100.0, 100.0, 100.0, 100.0, 600.0], 10)
    assert (found.step_ms_median, found.step_ms_mean, found.samples_per_s) == (100.0, 200.0, 50.0)
    assert found.step_ms_p90 == pytest.approx(400.0)
    assert found.samples_per_s_low < 50.0 < found.samples_per_s_high


def test_the_interval_is_the_same_every_time_and_closes_when_all_times_are_equal():
    times = [100.0 + i % 7 for i in range(40)]
    assert summary(times, 8) == summary(times, 8)
    even = summary([500.0] * 9, 1)
    assert (even.samples_per_s, even.samples_per_s_low, even.samples_per_s_high) == (2.0, 2.0, 2.0)


def test_a_warm_up_that_is_left_in_shows_as_the_rate_it_would_have_spoiled():
    assert round(1000 * 10 / (12_000 + 9 * 500), 3) == 0.606
    assert summary([500.0] * 9, 1).samples_per_s == 2.0


def test_fewer_than_five_iterations_have_no_interval_but_a_reason():
    found = summary([100.0] * 4, 8)
    assert (found.samples_per_s_low, found.samples_per_s_high) == (None, None)
    assert found.unknown["samples_per_s_low"] == "4 timed iterations; an interval needs 5"
    assert summary([100.0], 8).step_ms_p90 == 100.0


def test_tokens_are_those_of_a_whole_iteration_over_all_micro_batches_and_ranks():
    found = summary([2000.0] * 5, 32 * 8 * 4, 32 * 2048 * 8 * 4)
    assert found.tokens_per_s == 1_048_576
    assert found.tokens_per_s / 8 == 131_072


def test_a_step_that_was_skipped_completes_no_samples():
    assert summary([1000.0] * 5, [10, 10, 0, 10, 10]).samples_per_s == 8.0


def test_a_machine_that_slows_down_by_more_than_a_tenth_is_flagged():
    assert summary([100.0] * 6 + [115.0] * 3, 1).drifts
    assert not summary([100.0] * 6 + [105.0] * 3, 1).drifts
    assert drift_ratio([100.0] * 5) is None
    assert summary([100.0] * 5, 1).unknown["drift_ratio"] == "5 timed iterations; drift needs 6"


@pytest.mark.parametrize(
    ("times", "samples", "sentence"),
    [
        ([], 1, "no iteration was timed"),
        ([1.0, float("nan")], 1, "a time of an iteration is not a positive number of ms"),
        ([1.0, 0.0], 1, "a time of an iteration is not a positive number of ms"),
        ([1.0, 2.0], [1], "1 counts of samples for 2 iterations"),
    ],
)
def test_times_that_cannot_be_are_refused(times, samples, sentence):
    with pytest.raises(ValueError) as raised:
        summary(times, samples)
    assert str(raised.value) == sentence


def test_a_long_run_is_summed_up_at_once():
    assert summary([100.0, 101.0] * 5000, 1).timed == 10_000


def test_training_time_is_a_range_with_overheads_apart():
    found = training_time(
        100,
        32,
        64.0,
        80.0,
        [
            Overhead("validation", 2, 5.0, "measured"),
            Overhead("queueing", 1, None),
            Overhead("restarts", 0, None),
        ],
    )
    assert (found.low_s, found.high_s) == (40.0 + 10.0, 50.0 + 10.0)
    assert found.left_out == ("queueing",)


def test_the_last_partial_step_is_a_step():
    assert (steps_for(64, 32), steps_for(65, 32)) == (2, 3)
    with pytest.raises(ValueError):
        steps_for(0, 32)


def test_the_time_left_counts_from_where_the_clock_started():
    assert left_s(50.0, 100, 2400) == 1200.0
    assert round(left_s(31.604, 100, 32_100) / 3600, 2) == 2.82
    assert left_s(1.0, 0, 10) is None


def test_a_rate_that_is_no_range_is_refused():
    for low, high in ((0.0, 1.0), (2.0, 1.0), (1.0, float("inf"))):
        with pytest.raises(ValueError):
            training_time(1, 1, low, high)


def test_stages_that_wait_for_each_other_add_up():
    found = stages(
        32, {"read": 0.021, "decode": 0.034, "augment": 0.012, "transfer": 0.006, "compute": 0.118}
    )
    assert round(found.total_s, 3) == 0.191
    assert (round(found.samples_per_s, 1), found.bottleneck, round(found.share("compute"), 3)) == (
        167.5,
        "compute",
        0.618,
    )
    halved = found.scaled("compute", 0.5)
    assert round(halved.samples_per_s / found.samples_per_s - 1, 3) == 0.447
    for wrong in ({}, {"read": -1.0}, {"read": 0.0}):
        with pytest.raises(ValueError):
            stages(32, wrong)
    with pytest.raises(ValueError):
        stages(0, {"read": 1.0})


def test_measured_batches_on_a_line_leave_no_residual():
    line = fit({1: 130, 2: 160, 8: 340})
    assert (line.fixed_bytes, line.per_sample_bytes, line.residual_max_bytes) == (100, 30, 0)
    assert line.at(4) == 220


def test_bytes_beyond_what_a_float_can_hold_stay_exact():
    big = 2**60
    line = fit({1: big + 3, 2: 2 * big + 3, 3: 3 * big + 3})
    assert (line.fixed_bytes, line.per_sample_bytes, line.residual_max_bytes) == (3, big, 0)


def test_a_bend_shows_as_residual():
    assert fit({1: 0, 2: 30, 3: 0}).residual_max_bytes == 20


def test_the_largest_batch_is_within_the_limit_and_the_next_is_not():
    line = fit({1: 130, 2: 160})
    found = largest(line, 205)
    assert line.at(found) <= 205 < line.at(found + 1)
    assert largest(line, 50) == 0


def test_a_line_needs_two_batches_and_has_to_grow():
    with pytest.raises(ValueError):
        fit({8: 100})
    with pytest.raises(ValueError):
        largest(fit({1: 100, 2: 100}), 500)
