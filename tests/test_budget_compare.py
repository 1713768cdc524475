from dataclasses import replace

import pytest

from tui.budget.compare import Figures, judge, noise_floor

REFERENCE = Figures(
    validation_loss=2.0,
    requested_bytes=1000,
    samples_per_s=100.0,
    samples_per_s_low=99.0,
    samples_per_s_high=101.0,
    quality_met=True,
)
SAME = replace(REFERENCE, gradient_error=0.01)


def verdict(noise=0.05, **changes):
    return judge(replace(SAME, **changes), REFERENCE, noise)


def test_three_seeds_give_a_noise_floor_and_two_do_not():
    assert noise_floor([2.0, 2.5, 2.25]) == (0.5, "")
    assert noise_floor([2.0, 2.5]) == (None, "2 reference runs; a noise floor needs 3")
    assert noise_floor([2.0, 2.5, float("nan")])[0] is None


def test_inside_the_noise_nothing_is_a_gain():
    found = verdict()
    assert (found.verdict, found.gain, found.cost, found.why) == ("usable", (), (), "")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"nonfinite": 3}, "3 losses or gradients were not finite"),
        ({"validation_loss": float("nan")}, "the validation loss is not finite"),
        ({"gradient_error": 0.2}, "first gradients are off by 2.0e-01, the limit is 5.0e-02"),
        ({"gradient_error": float("nan")}, "first gradients are off by nan, the limit is 5.0e-02"),
        ({"quality_met": False}, "misses the quality target that the reference meets"),
        ({"validation_loss": 2.5}, "0.5 from the reference, more than 1 % and the noise floor 0.05"),
    ],
)
def test_a_setting_is_unusable_for_a_reason_and_then_gains_nothing(changes, why):
    found = verdict(**changes, samples_per_s_low=200.0, samples_per_s_high=201.0)
    assert (found.verdict, found.gain, found.why) == ("unusable", (), why)


def test_a_distance_has_to_be_beyond_both_the_noise_and_one_percent():
    assert verdict(noise=0.6, validation_loss=2.5).verdict == "usable"
    assert verdict(noise=0.001, validation_loss=2.015).verdict == "usable"


def test_a_distance_without_a_noise_floor_is_not_decided():
    found = verdict(noise=None, validation_loss=2.5)
    assert found.verdict == "not decided"
    assert "noise floor is n/a" in found.why
    assert verdict(noise=None).verdict == "usable"
    assert verdict(validation_loss=None).verdict == "not decided"


def test_a_better_loss_is_no_reason_against_a_setting():
    found = verdict(validation_loss=1.5)
    assert (found.verdict, found.why) == (
        "usable",
        "better than the reference by 0.5, beyond the noise floor 0.05",
    )
    higher = judge(replace(SAME, validation_loss=2.5), REFERENCE, 0.05, direction="max")
    assert higher.verdict == "usable"


def test_a_target_that_the_reference_misses_too_speaks_against_nobody():
    assert (
        judge(replace(SAME, quality_met=False), replace(REFERENCE, quality_met=False), 0.05).verdict
        == "usable"
    )


def test_speed_is_a_gain_only_when_the_whole_interval_is():
    # 105 over 101 is 1.04, 103 over 101 is 1.0198
    assert verdict(samples_per_s_low=105.0, samples_per_s_high=110.0).gain == ("speed",)
    assert verdict(samples_per_s_low=103.0, samples_per_s_high=110.0).gain == ()


def test_a_loss_of_speed_or_memory_is_said():
    slower = verdict(samples_per_s_low=49.0, samples_per_s_high=50.0)
    assert (slower.cost, slower.why) == (("speed",), "slower: 0.49 to 0.51 x the reference")
    assert verdict(requested_bytes=1100).cost == ("memory",)


def test_two_percent_less_requested_is_a_gain_in_memory():
    assert verdict(requested_bytes=980).gain == ("memory",)
    assert verdict(requested_bytes=981).gain == ()


def test_speed_that_was_not_measured_is_said():
    assert verdict(samples_per_s_low=None).why == "speed is n/a"
