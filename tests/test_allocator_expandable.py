import pytest

from tui.probe.allocator import CachingAllocator, OutOfMemory
from tui.probe.allocator_settings import parse
from tui.probe.blocks import Segment

MIB = 1 << 20


def expandable(capacity=None, more="", **others):
    return CachingAllocator(capacity, settings=parse(f"expandable_segments:True{more}"), **others)


def test_memory_comes_in_pages_of_20_mib_and_of_2_mib_for_small_requests():
    allocator = expandable()
    allocator.malloc("large", 3 * MIB)
    assert allocator.reserved == 20 * MIB
    allocator.malloc("small", 512)
    assert allocator.reserved == 22 * MIB
    assert (allocator.num_device_alloc, allocator.segments_made) == (2, 0)


def test_a_request_begins_in_the_free_end_and_goes_on_in_new_pages():
    allocator = expandable()
    base = allocator.malloc("a", 3 * MIB)
    assert allocator.malloc("b", 18 * MIB) == base + 3 * MIB  # 17 MiB of the first page, 1 MiB of the second
    assert (allocator.reserved, allocator.largest_free_block()) == (40 * MIB, 19 * MIB)


def test_many_pages_are_mapped_at_once():
    allocator = expandable()
    allocator.malloc("a", 50 * MIB)
    assert (allocator.reserved, allocator.num_device_alloc) == (60 * MIB, 1)


def test_whatever_remains_is_split_off():
    allocator = expandable()
    allocator.malloc("a", 20 * MIB - 512)
    assert (allocator.allocated, allocator.largest_free_block()) == (20 * MIB - 512, 512)


def test_a_hole_is_filled_before_the_free_end_although_the_end_fits_closer():
    allocator = expandable()
    base = allocator.malloc("a", 5 * MIB)
    allocator.malloc("b", 11 * MIB)  # 4 MiB of the page are left behind it
    allocator.free("a")
    assert allocator.malloc("c", 3 * MIB) == base


def test_free_blocks_of_expandable_segments_never_count_as_inactive_split():
    allocator = expandable(counted=True)
    for id in "abc":
        allocator.malloc(id, 4 * MIB)
    allocator.free("b")
    assert (allocator.inactive_split, allocator.peak_inactive_split) == (0, 0)
    assert allocator.statistics()["inactive_split.all.allocated"] == 0


def test_only_whole_pages_inside_a_free_block_are_given_back():
    allocator = expandable()
    base = allocator.malloc("a", 3 * MIB)
    allocator.malloc("b", 50 * MIB)
    allocator.malloc("c", 5 * MIB)
    allocator.free("b")  # from 3 to 53 MiB: the page from 20 to 40 is wholly inside
    assert allocator.release_cached() == 20 * MIB
    assert (allocator.reserved, allocator.num_device_free) == (40 * MIB, 1)
    assert [(one.address - base, one.size) for one in allocator.segments()] == [
        (0, 20 * MIB),
        (40 * MIB, 20 * MIB),
    ]
    assert [block.size for block in allocator.segments()[0].blocks] == [3 * MIB, 17 * MIB]


def test_pages_in_a_gap_are_mapped_again_before_any_behind():
    allocator = expandable()
    base = allocator.malloc("a", 3 * MIB)
    allocator.malloc("b", 50 * MIB)
    allocator.malloc("c", 5 * MIB)
    allocator.free("b")
    allocator.release_cached()
    assert allocator.malloc("d", 50 * MIB) == base + 3 * MIB  # 17 free, 20 unmapped, 13 free
    assert (allocator.reserved, allocator.peak_reserved) == (60 * MIB, 60 * MIB)


def test_a_range_without_any_block_goes_and_the_next_begins_elsewhere():
    allocator = expandable()
    base = allocator.malloc("a", 3 * MIB)
    allocator.free("a")
    assert allocator.release_cached() == 20 * MIB
    assert (allocator.reserved, allocator.segments()) == (0, [])
    assert allocator.malloc("b", 3 * MIB) != base


def test_streams_have_ranges_of_their_own():
    allocator = expandable()
    allocator.malloc("a", 3 * MIB, stream=1)
    allocator.malloc("b", 3 * MIB, stream=2)
    assert allocator.reserved == 40 * MIB
    assert [one.stream for one in allocator.segments()] == [1, 2]


def test_without_memory_for_the_pages_the_request_fails_after_one_retry():
    allocator = expandable(50 * MIB)
    allocator.malloc("a", 30 * MIB)
    with pytest.raises(OutOfMemory) as caught:
        allocator.malloc("b", 15 * MIB)  # 10 free, a page more would make 60
    assert (allocator.num_alloc_retries, allocator.num_ooms) == (1, 1)
    assert (allocator.reserved, caught.value.largest_free_block) == (40 * MIB, 10 * MIB)
    assert caught.value.basis == "from source, not yet verified"
    allocator.malloc("c", 10 * MIB)
    assert allocator.largest_free_block() == 0


def test_pages_that_a_retry_gives_back_serve_the_request():
    allocator = expandable(60 * MIB)
    allocator.malloc("a", 30 * MIB, stream=1)
    allocator.free("a")
    allocator.malloc("b", 60 * MIB, stream=2)
    assert (allocator.num_alloc_retries, allocator.num_ooms, allocator.reserved) == (1, 0, 60 * MIB)


def test_pages_follow_the_size_of_large_segments():
    allocator = expandable(more=",large_segment_size_mb:12")
    allocator.malloc("a", 13 * MIB)
    assert allocator.reserved == 24 * MIB


def test_other_segments_are_not_taken_over():
    with pytest.raises(ValueError, match="takes over no others"):
        expandable().adopt(Segment(0, 2 * MIB, 0, True, []))


def test_fewer_bytes_are_reserved_where_sizes_keep_growing():
    """The case that expandable segments were made for: each iteration asks a little more than the last."""
    peaks = []
    for settings in ("", "expandable_segments:True"):
        allocator = CachingAllocator(settings=parse(settings))
        for step in range(20, 30):
            allocator.malloc(step, 2 * step * MIB)
            allocator.free(step)
        peaks.append(allocator.peak_reserved)
    assert peaks == [sum(2 * step * MIB for step in range(20, 30)), 60 * MIB]
