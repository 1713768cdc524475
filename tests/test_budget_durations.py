"""How long a measurement will take, by those that were made."""

from dataclasses import replace

import pytest
from sample_project import CPU_PROBE

from tui.budget.durations import expected_s

DONE = replace(
    CPU_PROBE, micro_batch=8, step_ms_median=100.0, iterations=5, warmup=2, tasks=("timed",), seconds=4.8
)
"""Four seconds beside eight iterations of 0.1 s."""


def test_a_batch_of_the_same_size_takes_as_long_again():
    assert expected_s([DONE], 8, iterations=5, warmup=2, tasks=1) == pytest.approx(4.8)


def test_iterations_count_in_proportion_to_the_samples_and_a_start_as_it_is():
    assert expected_s([DONE], 32, iterations=5, warmup=2, tasks=1) == pytest.approx(4.0 + 8 * 0.4)
    assert expected_s([DONE], 8, iterations=50, warmup=2, tasks=1) == pytest.approx(4.0 + 53 * 0.1)
    assert expected_s([DONE], 8, iterations=50, warmup=2, tasks=2) == pytest.approx(8.0 + 57 * 0.1)


def test_the_nearest_size_is_asked():
    far = replace(DONE, micro_batch=1024, step_ms_median=1.0)
    assert expected_s([far, DONE], 16, iterations=5, warmup=2, tasks=1) == pytest.approx(4.0 + 8 * 0.2)


def test_one_that_ran_out_of_memory_says_how_long_a_start_takes():
    out = replace(DONE, step_ms_median=None, iterations=0, warmup=0, seconds=3.0)
    assert expected_s([out], 8, iterations=5, warmup=2, tasks=1) == pytest.approx(3.0)
    assert expected_s([out, DONE], 8, iterations=5, warmup=2, tasks=1) == pytest.approx(4.8)


def test_without_anything_alike_nothing_is_expected():
    assert expected_s([], 8, 5, 2, 1) is None
    assert expected_s([replace(DONE, seconds=None)], 8, 5, 2, 1) is None
