"""What people read and write as sizes, times, rates and counts."""

import doctest
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui import units

GIB = 2**30
sizes = st.integers(0, units.LARGEST)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("60 GiB", 60 * GIB),
        ("1.5 GB", 1_500_000_000),
        ("512 MiB", 512 * 2**20),
        ("592 B", 592),
        ("2kiB", 2048),
        (" 3 KiB ", 3072),
        ("14,773,325,824 B", 14_773_325_824),
        ("1_000 kB", 1_000_000),
        ("1.3 GiB", 1_395_864_371),
        ("0 B", 0),
        (7, 7),
    ],
)
def test_a_size_with_its_unit_is_that_many_bytes(text, size):
    assert units.parse_bytes(text) == size


def test_a_bare_g_is_refused_with_both_readings_spelled_out():
    with pytest.raises(ValueError) as caught:
        units.parse_bytes("60 G")
    assert str(caught.value) == (
        '"60 G" could mean two sizes; write "60 GiB" (64,424,509,440 B) or "60 GB" (60,000,000,000 B)'
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("60", "has no unit"),
        ("60 gb", "could mean bits or bytes"),
        ("60 parsecs", "unknown unit"),
        ("1,5 GB", "is not a size"),
        ("much", "is not a size"),
        ("", "is not a size"),
        ("nan GiB", "is not a size"),
        ("-1 GiB", "is negative"),
        ("-60 G", "is negative"),
        ("1.5 B", "fraction of a byte"),
        ("0.0001 kB", "less than one byte"),
        ("9e99 GiB", "larger than any device"),
        pytest.param("9" * 5000 + " B", "is not a size", id="5000 digits"),
        (-1, "is negative"),
        (2**63, "larger than any device"),
        (True, "true is not a size"),
        (1.5, "has no unit"),
        (float("nan"), "nan is not a size"),
        (float("inf"), "inf is not a size"),
        (None, "is not a size"),
    ],
)
def test_what_is_not_a_size_is_refused_in_one_sentence_that_mends_it(value, said):
    with pytest.raises(ValueError) as caught:
        units.parse_bytes(value)
    what, _, mend = str(caught.value).partition("; ")
    assert said in what
    assert mend


@given(sizes)
def test_exact_bytes_read_back_as_themselves(size):
    assert units.parse_bytes(units.exact(size) + " B") == size
    assert units.parse_bytes(size) == size


@given(st.integers(0, 2**60))
def test_a_printed_size_reads_back_within_half_of_its_last_digit(size):
    text = units.size(size).replace(",", "")
    digits, unit = text.split()
    last = 10 ** -len(digits.partition(".")[2])
    step = last * units.parse_bytes(f"1 {unit}")
    assert abs(units.parse_bytes(text) - size) <= step / 2 + 1 + size * 1e-12


@given(st.text(max_size=12))
def test_no_text_does_anything_but_parse_or_explain(text):
    try:
        size, sentence = units.parse_bytes(text), "parsed; nothing to mend"
    except ValueError as error:
        size, sentence = 0, str(error)
    assert 0 <= size <= units.LARGEST
    assert "; " in sentence


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, "n/a"), (0, "0"), (1, "<.001"), (10_008_352_555, "9.321"), (-GIB, "-1.000"), (-1, "-<.001")],
)
def test_a_ledger_cell_tells_none_some_and_unknown_apart(size, text):
    assert units.cell(size) == units.gib(size) == text


@given(sizes, st.integers(0, 3))
def test_some_bytes_never_print_as_none(size, digits):
    text = units.gib(size, digits)
    assert (text.strip("0.") == "") == (size == 0)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "n/a"),
        (0, "0 B"),
        (592, "592 B"),
        (1024, "1.0 KiB"),
        (131_072, "128.0 KiB"),
        (20 * 2**20, "20.0 MiB"),
        (GIB - 1, "1.000 GiB"),
        (2**20 - 1, "1.0 MiB"),
        (10_008_352_555, "9.321 GiB"),
        (2**41, "2.000 TiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_a_size_takes_the_unit_that_suits_it(size, text):
    assert units.size(size) == text


def test_every_byte_is_shown_with_separators():
    assert units.exact(14_773_325_824) == "14,773,325,824"
    assert units.count(124_439_808) == "124,439,808"


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, "n/a"), (0, "0"), (10_737_418, "+0.010"), (-7 * 2**28, "-1.750"), (1, "+<.001"), (-1, "-<.001")],
)
def test_a_difference_carries_its_sign_and_no_difference_is_0(size, text):
    assert units.signed(size) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (520 * 2**20, 615 * 2**20, "0.50-0.61"),
        (11_499_875_205, 11_768_310_661, "10.7-11.0"),
        (GIB, GIB, "1.00"),
        (0, 1, "0-0.01"),
        (1, GIB, "<.01-1.00"),
        (None, GIB, "n/a"),
    ],
)
def test_a_range_of_bytes_is_rounded_outwards(low, high, text):
    assert units.span(low, high) == text


@given(sizes, sizes)
def test_a_printed_range_contains_what_it_stands_for(one, other):
    low, high = sorted((one, other))
    first, _, last = units.span(low, high, 3).replace(",", "").replace("<.", "0.").partition("-")
    assert float(first) * GIB <= max(low, GIB / 1000)
    assert float(last or first) * GIB >= high * (1 - 1e-15)


def test_a_range_of_rates_is_rounded_outwards():
    assert units.interval(268.14, 272.11) == "268.1-272.2"
    assert units.interval(278_733.9, 284_534.1) == "278,733-284,535"
    assert units.interval(None, 1.0) == "n/a"
    assert units.interval(float("nan"), 1.0) == "n/a"
    assert units.interval(-0.5, 0.25, 2) == "-0.50 to 0.25"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "n/a"),
        (0.0, "0"),
        (118.4, "118.4"),
        (1812.3, "1,812"),
        (999.97, "1,000"),
        (9.996, "10.0"),
        (3.421, "3.42"),
        (0.51, "0.510"),
        (0.00001, "<.001"),
        (float("nan"), "NaN"),
        (float("inf"), "inf"),
    ],
)
def test_times_and_rates_have_about_four_digits(value, text):
    assert units.milliseconds(value) == units.rate(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "n/a"), (0, "0:00"), (0.2, "<0:01"), (59.7, "1:00"), (3723, "1:02:03"), (-5, "-0:05")],
)
def test_a_clock_counts_hours_only_when_there_are_some(seconds, text):
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "n/a"),
        (0, "0 s"),
        (0.01, "<.1 s"),
        (1.94, "1.9 s"),
        (9.97, "10 s"),
        (41, "41 s"),
        (144, "2 min 24 s"),
        (7202, "2 h 0 min 2 s"),
        (9242, "2 h 34 min 2 s"),
        (108_000, "1 d 6 h 0 min 0 s"),
        (-41, "-41 s"),
        (float("inf"), "n/a"),
    ],
)
def test_a_long_time_is_said_in_words(seconds, text):
    assert units.long_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "n/a"),
        (0.0, "0"),
        (3, "3"),
        (3.412, "3.412"),
        (10.9863, "10.986"),
        (-0.25, "-0.250"),
        (0.0123, "0.0123"),
        (4.1e-4, "4.1e-4"),
        (1e-12, "1.0e-12"),
        (1812.4, "1,812"),
        (2.5e18, "2.5e18"),
        (float("nan"), "NaN"),
        (float("-inf"), "-inf"),
    ],
)
def test_a_loss_keeps_the_digits_that_tell_it_apart(value, text):
    assert units.number(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False).filter(bool))
def test_no_figure_other_than_zero_prints_as_zero(value):
    for text in (units.number(value), units.rate(value), units.ratio(value), units.percent(value)):
        assert text.strip("-+0.% ") != ""


def test_shares_and_ratios_say_what_they_are():
    assert units.ratio(1.7) == "1.70"
    assert units.percent(0.49) == "49.0 %"
    assert units.percent(0.447, sign=True) == "+44.7 %"
    assert units.percent(-0.158, sign=True) == "-15.8 %"
    assert units.percent(0.0001) == "<0.1 %"
    assert units.percent(None) == units.ratio(None) == units.count(None) == "n/a"


def test_a_moment_is_short_and_in_its_own_zone():
    assert units.when(datetime(2026, 12, 1, 14, 1, 59, tzinfo=UTC)) == "1 Dec 14:01"
    assert units.when(None) == "n/a"


def test_the_examples_in_the_documentation_are_true():
    assert doctest.testmod(units).failed == 0
