"""Lists and ranges on the command line."""

import argparse

import pytest

from tui.cli import main
from tui.commands.ranges import numbers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("8", (8,)),
        ("1,2,4", (1, 2, 4)),
        ("1..8", (1, 2, 3, 4, 5, 6, 7, 8)),
        ("8..64/8", (8, 16, 24, 32, 40, 48, 56, 64)),
        ("1..10/4", (1, 5, 9)),
        ("4, 2..3 ,4", (4, 2, 3)),
        ("7..7", (7,)),
    ],
)
def test_a_list_of_numbers_and_ranges_is_each_number_once_in_its_order(text, found):
    assert numbers(text) == found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must be a whole number, 1 or more, got ''"),
        ("1,,2", "must be a whole number, 1 or more, got ''"),
        ("0", "must be a whole number, 1 or more, got '0'"),
        ("1-4", "must be a whole number, 1 or more, got '1-4'"),
        ("1..", "must be a whole number, 1 or more, got '1..'"),
        ("8..4", "'8..4' is no range of numbers from 1 upwards"),
        ("0..4", "'0..4' is no range of numbers from 1 upwards"),
        ("1..4/0", "'1..4/0' is no range of numbers from 1 upwards"),
        ("1..1001", "'1..1001' is more than 1000 numbers"),
    ],
)
def test_what_is_no_list_is_refused_in_a_sentence(text, sentence):
    with pytest.raises(argparse.ArgumentTypeError) as found:
        numbers(text)
    assert str(found.value) == sentence


@pytest.mark.parametrize("option", ["--upper", "--multiple-of"])
def test_the_bounds_of_a_search_are_refused_without_one(option, capsys):
    assert main(["probe", "x.toml", option, "8"]) == 2
    assert f"{option} means something with --search only; add --search" in capsys.readouterr().err
