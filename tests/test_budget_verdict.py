import pytest

from tui.budget.verdict import after, verdict, word_of, worst_phase
from tui.project.measured import PhasePeak


@pytest.mark.parametrize(
    ("process", "word", "spare"),
    [
        (56, "FITS", 0),
        (57, "FITS ONLY WITHOUT THE RESERVE", -1),
        (60, "FITS ONLY WITHOUT THE RESERVE", -4),
        (61, "DOES NOT FIT", -5),
    ],
)
def test_process_and_reserve_are_compared_with_the_budget(process, word, spare):
    found = verdict(process, 60, 4, "backward")
    assert (found.word, found.spare_bytes, found.worst_phase, found.why) == (word, spare, "backward", "")


def test_without_a_budget_the_device_less_others_and_driver_is_the_limit():
    found = verdict(10, None, 4, device_total=80, others=5, driver_reserved=1)
    assert (found.budget_bytes, found.spare_bytes) == (74, 60)
    assert found.budget_from == "device total less other processes and driver-reserved"


def test_a_device_that_leaves_less_than_the_budget_is_the_tighter_limit():
    found = verdict(50, 60, 0, device_total=80, others=40)
    assert (found.word, found.budget_bytes) == ("DOES NOT FIT", 40)
    assert verdict(50, 60, 0, device_total=80, others=5).budget_from == "entered"


def test_unknown_is_said_and_never_taken_for_zero():
    assert verdict(None, 60, unknown="hidden").why == "hidden"
    assert verdict(10, None).why == "no budget is entered and the device's total is not known"
    assert verdict(10, None, device_total=80).budget_from == "device total, other processes n/a"


def test_how_a_measurement_ended_wins_over_its_figures():
    fits = verdict(10, 60)
    assert after("out-of-memory", "", fits).word == "DOES NOT FIT"
    assert after("failed", "it broke", fits).why == "it broke"
    assert after("cancelled", "", fits).why == "the measurement was cancelled"
    assert after("fits", "", fits) == fits


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        ("fits", "FITS"),
        ("fits-without-reserve", "FITS ONLY WITHOUT THE RESERVE"),
        ("does-not-fit", "DOES NOT FIT"),
        ("out-of-memory", "DOES NOT FIT"),
        ("failed", "UNKNOWN"),
        ("unknown", "UNKNOWN"),
    ],
)
def test_outcomes_of_the_project_file_have_a_word_each(outcome, word):
    assert word_of(outcome) == word


def test_words_and_outcomes_go_both_ways():
    for process in (1, 57, 99, None):
        found = verdict(process, 60, 4)
        assert word_of(found.outcome) == found.word


def test_the_worst_phase_requests_most_and_the_earlier_of_equals_wins():
    phases = {"step": PhasePeak(7), "backward": PhasePeak(7), "build": PhasePeak(3)}
    assert worst_phase(phases) == "backward"
    assert worst_phase({}) is None
