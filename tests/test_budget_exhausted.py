"""Why an allocation failed: the rule's truth table, and its boundaries."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.budget.exhausted import Numbers, classify

MIB, GIB = 2**20, 2**30
TIGHT = Numbers(8, device_free=7, reserved=100, allocated=95, largest_free=0, free_sum=0)
"""Nothing is free in the cache and one byte too little on the device; boundaries are moved from here."""


def g(value):
    return round(value * GIB)


TABLE = {
    # A04: six blocks of 1.5 GiB, 4 GiB asked, 0.2 GiB left on the device.
    "A04 six free blocks, none large enough": (
        Numbers(g(4), g(0.2), g(11), g(2), g(1.5), g(9)),
        "fragmentation",
    ),
    # A03: 2.35 GiB of 4 GiB were free when 20 MiB failed; hardly anything was fragmented.
    "A03 room for it, refused all the same": (
        Numbers(20 * MIB, g(2.35), round(850 * MIB), round(825.15 * MIB), None, round(24.85 * MIB),
                device_total=g(4)),
        "unknown",
    ),
    # A06: 24 GiB, 20.5 used, of which 1.5 are this process's.
    "A06 the others fill the card": (Numbers(g(5), g(3.5), g(1.5), g(0.6), g(0.9), g(0.9), None, g(19)), "others"),
    "A06 more than the others could give": (Numbers(g(23), g(3.5), g(1.5), g(0.6), g(0.9), g(0.9), None, g(19)),
                                            "capacity"),
    # The cap of 59.4 leaves 1.212 beside 11.839 in the cache; 12.27 are asked for.
    "a cap, and enough if packed": (
        Numbers(g(12.27), g(20), g(58.188), g(46.349), g(6.488), g(11.839), g(59.4)), "fragmentation"
    ),
    "a cap, and too little however packed": (
        Numbers(g(13.1), g(20), g(58.188), g(46.349), g(6.488), g(11.839), g(59.4)), "limit"
    ),
    "a cap that does not bind on a full device": (Numbers(g(5), g(1), g(50), g(50), 0, 0, g(60)), "capacity"),
    "cap and device both too small": (Numbers(g(5), g(1), g(50), g(50), 0, 0, g(52)), "capacity"),
    "a full device, alone": (Numbers(g(5), g(1), g(70), g(69), g(1), g(1), None, 0), "capacity"),
    "a full device, others unknown": (Numbers(g(5), g(1), g(70), g(69), g(1), g(1)), "capacity"),
    "a block that was large enough": (Numbers(g(4), g(1), g(70), g(60), g(5), g(10)), "unknown"),
    "a largest block that is not known": (Numbers(g(4), g(1), g(70), g(60), None, g(10)), "unknown"),
    "free bytes by difference": (Numbers(g(4), g(1), g(70), g(60), g(3)), "fragmentation"),
    "nothing known of the device": (Numbers(g(4)), "unknown"),
    "a cap that binds, nothing else known": (Numbers(g(4), None, g(9), g(9), 0, 0, g(10)), "limit"),
    "no size asked": (Numbers(None, g(1), g(70), g(60), g(3), g(10)), "unknown"),
    "host memory beside a GPU": (Numbers(g(4), g(1), place="host"), "host"),
    "CPU under a budget": (Numbers(g(4), g(5), cap=g(2), place="cpu"), "limit"),
    "CPU under a budget, machine unknown": (Numbers(g(4), cap=g(2), place="cpu"), "limit"),
    "CPU under a budget that the machine cannot give": (Numbers(g(4), g(3), cap=g(9), place="cpu"), "host"),
    "CPU without a budget": (Numbers(g(4), g(3), place="cpu"), "host"),
    "CPU, size not said": (Numbers(None, g(3), cap=g(2), place="cpu"), "limit"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_the_truth_table(name):
    numbers, word = TABLE[name]
    assert classify(numbers).word == word, classify(numbers).why


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "capacity"),
        ({"device_free": 8}, "unknown"),  # room for exactly what was asked
        ({"segment": 20, "device_free": 19}, "capacity"),  # the driver gives whole segments only
        ({"segment": 20, "device_free": 20}, "unknown"),
        ({"free_sum": 1, "largest_free": 1}, "fragmentation"),  # 1 + 7 is exactly what was asked
        ({"free_sum": 7, "largest_free": 7, "device_free": 0}, "capacity"),
        ({"free_sum": 8, "largest_free": 7, "device_free": 0}, "fragmentation"),
        ({"free_sum": 8, "largest_free": 8, "device_free": 0}, "unknown"),
        ({"others": 1}, "others"),
        ({"others": 1, "device_free": 6}, "capacity"),
        ({"others": 1, "cap": 108}, "others"),
        ({"others": 1, "cap": 107}, "capacity"),  # the others are not to blame when the cap forbids it too
        ({"device_free": 8, "cap": 107}, "limit"),
        ({"device_free": 8, "cap": 108}, "unknown"),
        ({"device_free": 7, "cap": 107}, "capacity"),
    ],
)
def test_one_byte_decides_at_every_boundary(changes, word):
    assert classify(replace(TIGHT, **changes)).word == word


SIZE = st.integers(0, 40)
MAYBE = st.none() | SIZE


@given(st.integers(1, 40), MAYBE, SIZE, st.lists(st.integers(1, 12), max_size=5), MAYBE, MAYBE)
def test_fragmentation_is_said_only_where_packing_without_gaps_would_have_done(
    asked, device_free, allocated, blocks, cap, others
):
    free, largest = sum(blocks), max(blocks, default=0)
    numbers = Numbers(asked, device_free, allocated + free, allocated, largest, free, cap, others)
    if classify(numbers).word == "fragmentation":
        assert free > 0
        assert largest < asked <= free + numbers.room
        assert cap is None or allocated + asked <= max(cap, allocated + free)


@given(st.integers(1, 40), SIZE, SIZE, MAYBE, MAYBE)
def test_more_of_what_others_hold_never_turns_their_fault_into_a_full_device(asked, free, held, others, cap):
    numbers = Numbers(asked, free, held, held, 0, 0, cap, others)
    if classify(numbers).word == "others":
        assert classify(replace(numbers, others=(others or 0) + 1)).word == "others"


def test_the_figures_of_a_needless_advice_are_told_and_fragmentation_is_denied():
    numbers, _ = TABLE["A03 room for it, refused all the same"]
    assert round(numbers.unexplained / GIB, 2) == 0.82
    assert classify(numbers).why == (
        "the driver refused 20.0 MiB with 2.350 GiB free; 839.6 MiB of the device is other processes or contexts; "
        "of the cache only 24.9 MiB was free, so fragmentation is not the cause"
    )


def test_the_largest_free_block_stands_beside_the_sum_of_them():
    assert classify(TABLE["A04 six free blocks, none large enough"][0]).why == (
        "9.000 GiB of the cache is free and 204.8 MiB beside it, enough for 4.000 GiB, "
        "but the largest free block is 1.500 GiB"
    )


def test_a_budget_below_python_and_torch_themselves_says_so():
    numbers = Numbers(64, g(5), cap=200 * MIB, place="cpu", baseline=230 * MIB)
    assert classify(numbers).why == (
        "it was held to 200.0 MiB, and Python and torch themselves take 230.0 MiB before the workload is built"
    )
