"""What the allocator gives back, and in which order, before a request fails."""

import pytest

from tui.probe.allocator import CachingAllocator, OutOfMemory
from tui.probe.allocator_settings import parse

MIB = 1 << 20


def cached(allocator, *sizes):
    """Free blocks of so many MiB, a segment each."""
    for number, size in enumerate(sizes):
        allocator.malloc(("cached", number), size * MIB)
    for number in range(len(sizes)):
        allocator.free(("cached", number))
    return allocator


def limited(capacity, settings=""):
    return CachingAllocator(capacity * MIB, settings=parse(settings))


def test_a_block_that_may_not_be_split_serves_only_requests_nearly_as_large():
    allocator = cached(limited(1000, "max_split_size_mb:64"), 100)
    allocator.malloc("small", 20 * MIB)
    allocator.malloc("far", 80 * MIB)
    assert allocator.reserved == 200 * MIB  # neither of them used it
    allocator.malloc("near", 80 * MIB + 1)
    assert (allocator.reserved, allocator.allocated) == (200 * MIB, 200 * MIB)  # taken whole, tail and all


def test_the_rounding_allowed_for_unsplit_blocks_can_be_raised():
    allocator = cached(limited(1000, "max_split_size_mb:64,max_non_split_rounding_mb:40"), 100)
    allocator.malloc("far", 70 * MIB)
    assert (allocator.reserved, allocator.allocated) == (100 * MIB, 100 * MIB)


def test_an_unsplittable_request_leaves_the_tail_of_its_own_segment_unsplit():
    allocator = limited(1000, "max_split_size_mb:64")
    allocator.malloc("a", 65 * MIB)
    assert (allocator.allocated, allocator.reserved) == (66 * MIB, 66 * MIB)


def test_unsplittable_blocks_go_back_largest_first_and_no_retry_is_counted():
    allocator = cached(limited(250, "max_split_size_mb:64"), 70, 100, 64)  # 234 MiB
    allocator.malloc("a", 150 * MIB)  # 100 and 70 make room, 64 stays
    assert (allocator.num_alloc_retries, allocator.reserved) == (0, 214 * MIB)


def test_one_block_that_is_large_enough_goes_back_alone():
    allocator = cached(limited(250, "max_split_size_mb:64"), 70, 150)
    allocator.malloc("a", 100 * MIB)
    assert (allocator.num_alloc_retries, allocator.reserved) == (0, 170 * MIB)


def test_too_few_unsplittable_blocks_are_gone_all_the_same_and_everything_free_follows():
    allocator = cached(limited(120, "max_split_size_mb:64"), 30, 70)
    allocator.malloc("a", 110 * MIB)
    assert (allocator.num_alloc_retries, allocator.num_ooms, allocator.reserved) == (1, 0, 110 * MIB)


def test_without_that_setting_everything_free_goes_back_at_once():
    allocator = cached(limited(250), 70, 100, 64)
    allocator.malloc("a", 150 * MIB)
    assert (allocator.num_alloc_retries, allocator.reserved) == (1, 150 * MIB)


def test_a_retry_waits_for_other_streams_and_uses_what_they_let_go():
    allocator = limited(24)
    allocator.malloc("a", 12 * MIB)
    allocator.request_free("a")
    allocator.malloc("b", 14 * MIB)
    assert (allocator.num_alloc_retries, allocator.reserved, allocator.active) == (1, 14 * MIB, 14 * MIB)
    allocator.free("a")  # its event was waited for: nothing more to do
    assert allocator.active == 14 * MIB


def test_a_share_of_the_memory_limits_what_is_reserved():
    allocator = limited(100, "per_process_memory_fraction:0.5")
    allocator.malloc("a", 50 * MIB)
    with pytest.raises(OutOfMemory):
        allocator.malloc("b", 1)


def test_old_free_segments_are_collected_above_the_threshold_and_young_ones_stay():
    allocator = limited(200, "garbage_collection_threshold:0.8,per_process_memory_fraction:0.9")  # 144 of 180
    allocator.malloc("a", 40 * MIB)
    allocator.malloc("b", 60 * MIB)
    allocator.free("a")
    allocator.malloc("c", 50 * MIB)
    allocator.free("b")
    allocator.malloc("d", 70 * MIB)  # 150 reserved: a is two searches old, b one, on average 1.5
    assert (allocator.reserved, allocator.num_alloc_retries) == (180 * MIB, 0)
    assert [one.size // MIB for one in allocator.segments()] == [60, 50, 70]


def test_collecting_frees_all_that_are_old_enough_even_past_the_target():
    allocator = limited(200, "garbage_collection_threshold:0.5,per_process_memory_fraction:0.9")
    cached(allocator, 30, 30)
    allocator.malloc("c", 40 * MIB)  # 60 reserved, 90 would be too many
    allocator.malloc("d", 41 * MIB)  # 100 reserved: 10 too many, both of 30 are equally old
    assert [one.size // MIB for one in allocator.segments()] == [40, 42]


def test_nothing_is_collected_without_a_share_below_1():
    allocator = cached(limited(200, "garbage_collection_threshold:0.1"), 30)
    allocator.malloc("c", 40 * MIB)
    assert allocator.reserved == 70 * MIB


def test_larger_segments_for_medium_requests():
    allocator = limited(1000, "large_segment_size_mb:40")
    allocator.malloc("a", 2 * MIB)
    assert allocator.reserved == 40 * MIB
    allocator.malloc("b", 39 * MIB)  # from 10 MiB on a segment of its own
    assert allocator.reserved == 80 * MIB


def test_a_request_beyond_any_address_counts_as_no_failure_of_the_allocator():
    allocator = limited(10)
    with pytest.raises(OutOfMemory):
        allocator.malloc("a", 1 << 60)
    assert (allocator.num_ooms, allocator.num_alloc_retries) == (0, 0)
