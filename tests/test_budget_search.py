"""The search's policy against limits of every kind: pure, nothing is measured."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.budget.host import most_samples, prefetch_bytes
from tui.budget.search import GUIDED, Asked, Candidate, Decision, Trial, advance, expected, fastest, so_far
from tui.budget.verdict import verdict

GIB = 2**30
SIZES = st.integers(1, 5000)


def search(asked, fits, *, process=None, validates=lambda batch: True, soaks=lambda micro: True):
    """(decision, trials): a search in a world where ``fits(micro)`` says what a fresh process would show."""
    trials = []
    for _ in range(400):
        step = advance(asked, trials)
        if isinstance(step, Decision):
            return step, trials
        held = fits(step.micro) and (not step.soak or soaks(step.micro))
        size = None if process is None or not held else process(step.micro)
        validation = step.validation or step.micro
        failed = validation if held and not validates(validation) else None
        word = "fits" if held else "fails"
        trials.append(Trial(step.micro, word, size, step.soak and held and failed is None, failed))
    raise AssertionError("the search does not end")


def test_a_limit_of_100_is_found_exactly_and_a_multiple_of_8_gives_96():
    one, trials = search(Asked(start=128), lambda micro: micro <= 100)
    assert (one.largest, one.failed_at) == (100, 101)
    assert len(trials) <= 15
    eight, trials = search(Asked(start=128, multiple_of=8), lambda micro: micro <= 100)
    assert (eight.largest, eight.failed_at) == (96, 104)
    assert all(one.micro % 8 == 0 for one in trials)


@given(limit=SIZES, start=SIZES, multiple=st.integers(1, 16))
@settings(max_examples=200, deadline=None)
def test_any_monotone_limit_is_found_in_about_two_logarithms_of_trials(limit, start, multiple):
    found, trials = search(Asked(start=start, multiple_of=multiple), lambda micro: micro <= limit)
    whole = limit // multiple * multiple
    assert (found.largest or 0, found.failed_at) == (whole, whole + multiple)
    far = max(limit // multiple, start // multiple, 2)
    assert len(trials) <= 2 * ceil(log2(far)) + 3


@given(limit=SIZES, start=st.integers(1, 64), error=st.integers(-3, 3), step=st.integers(0, 5))
@settings(max_examples=200, deadline=None)
def test_memory_that_follows_a_line_is_searched_in_a_few_trials_from_any_limit(limit, start, error, step):
    """With steps in the process's size, as a heap has, the line points a little off."""
    asked = Asked(start=start, limit_bytes=10**6 + 1000 * limit)
    found, trials = search(
        asked,
        lambda micro: micro <= limit,
        process=lambda micro: 10**6 + 1000 * micro + 100 * error + (300 * step if micro % 3 else 0),
    )
    assert (
        (found.largest or 0, found.failed_at) == (limit, limit + 1) if limit >= 1 else found.largest is None
    )
    assert len(trials) <= 12 + max(0, log2(limit / start) / 3)


def test_a_good_line_needs_two_trials_and_the_soak():
    points = {8: 10 * GIB + 8 * GIB, 16: 10 * GIB + 16 * GIB}
    asked = Asked(start=8, limit_bytes=64 * GIB, points=points)
    _, trials = search(asked, lambda micro: micro <= 54, process=lambda micro: (10 + micro) * GIB)
    assert [(one.micro, one.word, one.soaked) for one in trials] == [
        (54, "fits", False),
        (55, "fails", False),
        (54, "fits", True),
    ]


def test_a_prediction_begins_where_nothing_was_measured_and_a_line_replaces_it():
    asked = Asked(start=1, limit_bytes=1000, predicted=40)
    assert advance(asked, []) == Candidate(40, False, "predicted")
    assert expected(asked, [Trial(2, "fits", 120), Trial(4, "fits", 140)]) == 90


@pytest.mark.parametrize("trials", [[], [Trial(2, "fits", 120), Trial(4, "fits", 140)]])
def test_no_more_is_expected_than_the_upper_bound_lets_be_tried(trials):
    asked = Asked(start=1, upper=32, limit_bytes=10**9, predicted=40)
    assert expected(asked, trials) == 32


@given(
    table=st.dictionaries(st.integers(1, 80), st.booleans(), max_size=80),
    sizes=st.dictionaries(st.integers(1, 80), st.integers(1, 10**6), max_size=80),
    start=st.integers(1, 90),
    upper=st.one_of(st.none(), st.integers(1, 90)),
)
@settings(max_examples=300, deadline=None)
def test_whatever_memory_does_nothing_is_claimed_that_was_not_tried(table, sizes, start, upper):
    """Neither fitting nor size need grow with the batch; above 80 nothing fits."""
    asked = Asked(start=start, upper=upper, limit_bytes=5 * 10**5)
    found, trials = search(asked, lambda micro: table.get(micro, False), process=lambda m: sizes.get(m, 1))
    seen = {one.micro: one.word for one in trials}
    assert upper is None or max(seen) <= upper
    if found.largest is None:
        assert seen[1] == "fails"
    else:
        assert any(one.micro == found.largest and one.soaked for one in trials)
        assert max(micro for micro, word in seen.items() if word == "fits") == found.largest
    if found.bound:
        assert (found.bound, found.largest, found.failed_at) == ("upper", upper, None)
    else:
        assert found.failed_at == (found.largest or 0) + 1
        assert seen[found.failed_at] == "fails"
    assert found.holes == tuple(
        sorted(m for m, word in seen.items() if word == "fails" and m < (found.largest or 0))
    )
    assert len(trials) <= GUIDED + 4 * 7 + 80


def test_a_soak_that_fails_sends_the_search_down_and_is_the_evidence_above():
    found, trials = search(Asked(start=8), lambda micro: micro <= 10, soaks=lambda micro: micro <= 8)
    assert (found.largest, found.failed_at) == (8, 9)
    assert [one.micro for one in trials if one.soaked] == [8]


@given(limit=st.integers(1, 3000), share=st.floats(0.7, 1.0), start=st.integers(1, 64), guided=st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_longer_run_that_takes_more_is_what_decides(limit, share, start, guided):
    """Short runs hold up to ``limit``, long ones up to a share of it: each size that is claimed held a long one."""
    true = int(limit * share)
    asked = Asked(start=start, limit_bytes=10**6 + 1000 * limit if guided else None)
    found, trials = search(
        asked,
        lambda micro: micro <= limit,
        process=lambda micro: 10**6 + 1000 * micro,
        soaks=lambda micro: micro <= true,
    )
    assert (found.largest or 0, found.failed_at) == (true, true + 1)
    assert len(trials) <= 6 * log2(max(limit, start, 2)) + 6


def test_after_a_long_run_failed_the_line_keeps_free_by_how_much_it_took_more():
    asked = Asked(limit_bytes=850, points={10: 350, 20: 400})
    tried = [Trial(110, "fits", 850), Trial(111, "fails", 855), Trial(110, "fails", 900)]
    assert advance(asked, tried) == Candidate(100, True, "line")


def test_a_batch_that_the_data_cannot_fill_is_not_tested_and_bounds_the_search():
    """Ten samples, as a loader yields them: 16 was never on the device."""
    tried = [Trial(8, "fits"), Trial(16, "untested", observed=10)]
    step = advance(Asked(start=8), tried)
    assert step == Candidate(10, False, "doubled")
    tried += [Trial(10, "fits"), Trial(10, "fits", soaked=True)]
    assert advance(Asked(start=8), tried) == Decision(10, None, "data")


def test_without_any_data_nothing_fits_and_nothing_failed():
    assert advance(Asked(start=8), [Trial(8, "untested", observed=0)]) == Decision(None, None, "data")


def test_the_accepted_size_keeps_the_reserve_and_is_confirmed_by_a_longer_run():
    """21.0 of 24 GiB with 2.4 kept free fits, 22.7 does not, though it ran."""
    peaks = {96: 21.0, 104: 22.7}

    def fits(micro):
        process = int(peaks.get(micro, 1.0 if micro < 96 else 99.0) * GIB)
        return verdict(process, 24 * GIB, int(2.4 * GIB)).word == "FITS"

    found, trials = search(Asked(start=96, multiple_of=8), fits)
    assert (found.largest, found.failed_at) == (96, 104)
    assert trials[-1] == Trial(96, "fits", None, True)


def test_a_validation_that_fails_lowers_the_validation_batch_alone():
    found, trials = search(
        Asked(start=64, upper=64, multiple_of=64), lambda micro: True, validates=lambda batch: batch <= 40
    )
    assert (found.largest, found.validation) == (64, 32)
    assert [one.validation_fails for one in trials] == [64, None]


def test_a_validation_that_holds_no_single_sample_is_said():
    found, _ = search(Asked(start=4, upper=4), lambda micro: True, validates=lambda batch: False)
    assert (found.largest, found.validation) == (4, 0)


@pytest.mark.parametrize(
    ("rates", "best"),
    [((814, 902, 905, 914), 240), ((914, 902, 905, 899), 128)],
)
def test_the_fastest_is_another_answer_than_the_largest(rates, best):
    assert fastest(dict(zip((128, 192, 224, 240), rates, strict=True))) == best


def test_prefetching_workers_hold_whole_batches_on_the_host():
    image = 3 * 224 * 224 * 4
    assert prefetch_bytes(4096 * image, workers=8, prefetch_factor=2) == 39_460_012_032
    assert prefetch_bytes(4096 * image) == 2_466_250_752
    assert most_samples(2_466_250_752, image, batches=2) == 2048
    assert most_samples(2_466_250_752, 0) is None


def test_an_upper_bound_ends_the_search_and_is_no_failure():
    found, trials = search(Asked(start=8, upper=50, multiple_of=8), lambda micro: True)
    assert (found.largest, found.failed_at, found.bound) == (48, None, "upper")
    assert max(one.micro for one in trials) == 48


def test_an_upper_bound_below_every_multiple_is_refused():
    with pytest.raises(ValueError, match="no multiple of 8 is within the upper bound 4"):
        advance(Asked(upper=4, multiple_of=8), [])


def test_what_a_search_knows_before_its_end_is_no_decision():
    assert so_far(Asked(), [Trial(8, "fits"), Trial(64, "fails")]) == Decision(8, 64, "stopped")
    assert so_far(Asked(), []) == Decision(None, None, "stopped")
