from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.probe.allocator import CachingAllocator, OutOfMemory
from tui.probe.blocks import Placed, Segment, round_size, segment_size

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(("asked", "occupied"), [(1, 512), (511, 512), (512, 512), (513, 1024), (1025, 1536)])
def test_a_request_occupies_whole_units_of_512_bytes(asked, occupied):
    allocator = CachingAllocator()
    allocator.malloc("a", asked)
    assert (allocator.requested, allocator.allocated) == (asked, occupied)


@pytest.mark.parametrize(
    ("asked", "reserved"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 1, 12 * MIB),
        (21 * MIB, 22 * MIB),
    ],
)
def test_the_request_decides_how_much_the_driver_is_asked_for(asked, reserved):
    allocator = CachingAllocator()
    allocator.malloc("a", asked)
    assert allocator.reserved == reserved == segment_size(round_size(asked))


def test_small_and_large_requests_never_share_a_segment():
    allocator = CachingAllocator()
    allocator.malloc("large", 2 * MIB)
    allocator.malloc("small", 512)
    assert (allocator.reserved, allocator.segment_count) == (22 * MIB, 2)


def test_a_large_remainder_of_1_mib_stays_with_its_block_and_one_unit_more_is_split_off():
    whole, split = CachingAllocator(), CachingAllocator()
    whole.malloc("a", 11 * MIB)  # in a segment of 12 MiB
    split.malloc("a", 11 * MIB - 512)
    assert (whole.allocated, whole.largest_free_block()) == (12 * MIB, 0)
    assert (split.allocated, split.largest_free_block()) == (11 * MIB - 512, MIB + 512)


def test_a_small_remainder_of_one_unit_is_split_off():
    allocator = CachingAllocator()
    allocator.malloc("a", MIB)
    allocator.malloc("b", MIB - 512)
    assert (allocator.allocated, allocator.largest_free_block()) == (2 * MIB - 512, 512)


def test_the_smallest_free_block_that_fits_is_used():
    allocator = CachingAllocator()
    first = [allocator.malloc(id, size * MIB) for id, size in (("a", 4), ("b", 2), ("c", 3), ("d", 2))]
    allocator.free("a")
    allocator.free("c")
    assert allocator.malloc("e", 3 * MIB) == first[2]


def test_of_equal_free_blocks_the_lowest_address_is_used():
    allocator = CachingAllocator()
    places = [allocator.malloc(id, 2 * MIB) for id in "abcd"]
    allocator.free("c")
    allocator.free("a")
    assert allocator.malloc("e", 2 * MIB) == places[0]


def test_a_freed_block_merges_with_both_neighbours():
    allocator = CachingAllocator()
    for id in "abc":
        allocator.malloc(id, 4 * MIB)
    for id in "acb":
        allocator.free(id)
    assert allocator.largest_free_block() == allocator.reserved == 20 * MIB
    assert (allocator.allocated, allocator.requested, allocator.inactive_split) == (0, 0, 0)


def test_free_blocks_between_live_ones_are_inactive_split():
    allocator = CachingAllocator()
    for id in "abc":
        allocator.malloc(id, 4 * MIB)
    assert allocator.inactive_split == 8 * MIB
    allocator.free("b")
    assert (allocator.inactive_split, allocator.peak_inactive_split) == (12 * MIB, 16 * MIB)


def test_peaks_stay_when_everything_is_freed():
    allocator = CachingAllocator()
    allocator.malloc("a", 3 * MIB + 1)
    allocator.free("a")
    assert (allocator.peak_requested, allocator.peak_allocated) == (3 * MIB + 1, 3 * MIB + 512)
    assert (allocator.peak_active, allocator.peak_reserved) == (3 * MIB + 512, 20 * MIB)
    allocator.reset_peaks()
    assert (allocator.peak_requested, allocator.peak_active, allocator.peak_reserved) == (0, 0, 20 * MIB)


def test_a_block_in_use_on_another_stream_stays_active_but_not_allocated():
    allocator = CachingAllocator()
    place = allocator.malloc("a", 2 * MIB)
    allocator.request_free("a")
    assert (allocator.allocated, allocator.active, allocator.requested) == (0, 2 * MIB, 2 * MIB)
    assert allocator.malloc("b", 2 * MIB) != place
    assert (allocator.peak_allocated, allocator.peak_active) == (2 * MIB, 4 * MIB)
    allocator.free("a")
    assert (allocator.active, allocator.requested) == (2 * MIB, 2 * MIB)
    assert allocator.malloc("c", 2 * MIB) == place


def test_a_free_block_serves_its_own_stream_only():
    allocator = CachingAllocator()
    place = allocator.malloc("a", 12 * MIB, stream=1)
    allocator.free("a")
    assert allocator.malloc("b", 12 * MIB, stream=2) != place
    assert allocator.reserved == 24 * MIB
    assert allocator.malloc("c", 12 * MIB, stream=1) == place


def test_a_full_device_gets_its_cached_segments_back_before_it_fails():
    allocator = CachingAllocator(capacity=24 * MIB)
    allocator.malloc("a", 12 * MIB)
    allocator.free("a")
    allocator.malloc("b", 14 * MIB)
    assert (allocator.num_alloc_retries, allocator.num_ooms) == (1, 0)
    assert (allocator.reserved, allocator.peak_reserved) == (14 * MIB, 14 * MIB)


def test_out_of_memory_says_what_was_asked_and_what_there_was():
    allocator = CachingAllocator(capacity=40 * MIB)
    for id in "abcd":
        allocator.malloc(id, 5 * MIB)
    allocator.free("b")
    allocator.free("d")
    allocator.malloc("x", 12 * MIB)
    with pytest.raises(OutOfMemory) as caught:
        allocator.malloc("e", 9 * MIB + 1)
    error = caught.value
    assert (error.asked, error.rounded, error.segment) == (9 * MIB + 1, 9 * MIB + 512, 20 * MIB)
    assert (error.allocated, error.reserved, error.capacity) == (22 * MIB, 32 * MIB, 40 * MIB)
    assert (error.largest_free_block, error.free_sum) == (5 * MIB, 10 * MIB)
    assert (allocator.num_alloc_retries, allocator.num_ooms) == (1, 1)
    assert "9437185 B asked" in str(error)


def test_a_request_beyond_any_address_fails_at_once():
    with pytest.raises(OutOfMemory):
        CachingAllocator().malloc("a", 1 << 60)


def test_nothing_asked_is_nothing_given():
    allocator = CachingAllocator()
    assert allocator.malloc("a", 0) == 0
    allocator.free("a")
    assert (allocator.reserved, allocator.peak_requested) == (0, 0)


def test_misuse_is_a_sentence():
    allocator = CachingAllocator()
    allocator.malloc("a", 1)
    with pytest.raises(ValueError, match="'a' has a block already"):
        allocator.malloc("a", 1)
    with pytest.raises(ValueError, match="'b' has no block"):
        allocator.free("b")
    with pytest.raises(ValueError, match="'b' has no block"):
        allocator.request_free("b")
    with pytest.raises(ValueError, match="cannot allocate -1 bytes"):
        allocator.malloc("c", -1)


def test_an_allocator_can_start_from_given_blocks():
    blocks = [Placed(100 * MIB, 4 * MIB, 4 * MIB - 7, "allocated", "old"), Placed(104 * MIB, 16 * MIB)]
    allocator = CachingAllocator()
    allocator.adopt(Segment(100 * MIB, 20 * MIB, 0, False, blocks))
    assert (allocator.requested, allocator.allocated) == (4 * MIB - 7, 4 * MIB)
    assert (allocator.reserved, allocator.inactive_split) == (20 * MIB, 16 * MIB)
    assert allocator.malloc("new", 2 * MIB) == 104 * MIB
    allocator.free("old")
    allocator.free("new")
    assert allocator.segments() == [Segment(100 * MIB, 20 * MIB, 0, False, [Placed(100 * MIB, 20 * MIB)])]


def test_blocks_that_leave_a_gap_are_refused():
    with pytest.raises(ValueError, match="do not cover it exactly"):
        CachingAllocator().adopt(Segment(0, 2 * MIB, 0, True, [Placed(0, MIB)]))


def test_segments_are_placed_where_the_caller_says():
    allocator = CachingAllocator(place_segment=lambda size: 7 * size)
    assert allocator.malloc("a", 12 * MIB) == 84 * MIB


def check(allocator: CachingAllocator) -> None:
    """What must hold at any time, computed anew from the layout."""
    free = allocated = awaiting = requested = split = 0
    end = -1
    for segment in allocator.segments():
        assert segment.address >= end
        end = segment.address + segment.size
        at, last = segment.address, None
        for block in segment.blocks:
            assert (block.address, block.size % 512) == (at, 0)
            assert not (last == block.state == "free"), "free neighbours are merged"
            assert block.requested <= block.size
            at, last = at + block.size, block.state
            free += block.size if block.state == "free" else 0
            allocated += block.size if block.state == "allocated" else 0
            awaiting += block.size if block.state == "awaiting" else 0
            requested += block.requested
            if block.state == "free" and len(segment.blocks) > 1:
                split += block.size
            assert segment.small or block.state != "free" or block.size > MIB
        assert at == end
    assert (allocator.requested, allocator.allocated) == (requested, allocated)
    assert (allocator.active, allocator.inactive_split) == (allocated + awaiting, split)
    assert allocator.reserved == free + allocated + awaiting
    assert requested <= allocator.active <= allocator.reserved
    assert allocator.free_sum() == free
    assert allocator.peak_requested >= requested
    assert allocator.peak_active >= allocator.active


SIZES = st.one_of(
    st.integers(1, 4 * KIB),
    st.integers(MIB - 600, MIB + 600),
    st.integers(10 * MIB - 600, 10 * MIB + 600),
    st.integers(1, 40 * MIB),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("malloc"), SIZES, st.integers(0, 2)),
        st.tuples(st.just("free"), st.integers(0, 50), st.booleans()),
        st.just(("release", 0, 0)),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from([None, 64 * MIB]))
def test_the_figures_are_those_of_the_blocks_after_any_program(steps, capacity):
    allocator, alive = CachingAllocator(capacity), []
    for number, (step, value, more) in enumerate(steps):
        if step == "malloc":
            failed = allocator.num_ooms
            with suppress(OutOfMemory):
                allocator.malloc(number, value, more)
                alive.append(number)
            assert failed == allocator.num_ooms or allocator.free_sum() == allocator.inactive_split
        elif step == "free" and alive:
            id = alive.pop(value % len(alive))
            if more:
                allocator.request_free(id)
                check(allocator)
            allocator.free(id)
        elif step == "release":
            before = allocator.reserved
            assert allocator.release_cached() == before - allocator.reserved
            assert allocator.free_sum() == allocator.inactive_split
        check(allocator)
        assert capacity is None or allocator.reserved <= capacity


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_layout_taken_over_behaves_like_the_one_it_was_taken_from(steps):
    allocator, alive = CachingAllocator(), []
    for number, (step, value, more) in enumerate(steps):
        if step == "malloc":
            allocator.malloc(number, value, more)
            alive.append(number)
        elif step == "free" and alive:
            allocator.free(alive.pop(value % len(alive)))
    copy = CachingAllocator()
    for segment in allocator.segments():
        copy.adopt(segment)
    check(copy)
    assert copy.segments() == allocator.segments()
    for id in alive:
        copy.free(id)
    check(copy)
    assert copy.allocated == copy.inactive_split == 0
