"""The counters of torch.cuda.memory_stats, their right values worked out by hand from the allocator's rules."""

import re

import pytest
import torch

from tui.probe.allocator import CachingAllocator
from tui.probe.allocator_settings import parse
from tui.probe.blocks import Placed, Segment

MIB = 1 << 20
POOLS = ("all", "large_pool", "small_pool")


def counted(capacity=None, settings=""):
    return CachingAllocator(capacity, settings=parse(settings), counted=True)


def stat(allocator, name, pool="all"):
    """(current, peak, allocated, freed)."""
    found = allocator.statistics()
    path = f"{name}.{pool}" if pool else name
    return tuple(found[f"{path}.{key}"] for key in ("current", "peak", "allocated", "freed"))


def test_one_block_taken_and_freed_in_a_large_segment():
    allocator = counted()
    allocator.malloc("a", 3 * MIB + 1)
    rest = 17 * MIB - 512
    for pool in ("all", "large_pool"):
        assert stat(allocator, "allocation", pool) == (1, 1, 1, 0)
        assert stat(allocator, "allocated_bytes", pool) == (3 * MIB + 512, 3 * MIB + 512, 3 * MIB + 512, 0)
        assert stat(allocator, "requested_bytes", pool) == (3 * MIB + 1, 3 * MIB + 1, 3 * MIB + 1, 0)
        assert stat(allocator, "inactive_split", pool) == (1, 1, 1, 0)
        assert stat(allocator, "inactive_split_bytes", pool) == (rest, rest, rest, 0)
        assert stat(allocator, "reserved_bytes", pool) == (20 * MIB, 20 * MIB, 20 * MIB, 0)
        assert stat(allocator, "segment", pool) == (1, 1, 1, 0)
    allocator.free("a")
    assert stat(allocator, "active") == (0, 1, 1, 1)
    assert stat(allocator, "active_bytes") == (0, 3 * MIB + 512, 3 * MIB + 512, 3 * MIB + 512)
    assert stat(allocator, "inactive_split") == (
        0,
        1,
        1,
        1,
    )  # the whole segment is free: it can be given back
    assert stat(allocator, "inactive_split_bytes") == (0, rest, rest, rest)
    assert stat(allocator, "allocation", "small_pool") == (0, 0, 0, 0)


def test_small_and_large_requests_are_counted_apart_and_together():
    allocator = counted()
    allocator.malloc("small", 600)
    allocator.malloc("large", 5 * MIB)
    assert stat(allocator, "allocated_bytes", "small_pool")[0] == 1024
    assert stat(allocator, "allocated_bytes", "large_pool")[0] == 5 * MIB
    assert stat(allocator, "allocated_bytes")[0] == 5 * MIB + 1024
    assert stat(allocator, "reserved_bytes")[0] == 22 * MIB


def test_a_free_block_between_two_others_merges_into_one_piece():
    allocator = counted()
    for id in "abcd":
        allocator.malloc(id, 4 * MIB)  # the rest of the segment: 4 MiB
    assert stat(allocator, "inactive_split")[0] == 1
    allocator.free("a")
    allocator.free("c")  # d lies between it and the rest
    assert stat(allocator, "inactive_split") == (3, 3, 3, 0)  # the rest only shrank
    assert stat(allocator, "inactive_split_bytes")[0] == 12 * MIB
    allocator.free("b")  # a, b and c become one
    assert stat(allocator, "inactive_split")[:2] == (2, 3)
    assert stat(allocator, "inactive_split_bytes")[0] == 16 * MIB


def test_a_piece_taken_whole_is_one_less():
    allocator = counted()
    for id in "abcde":
        allocator.malloc(id, 4 * MIB)
    assert stat(allocator, "inactive_split") == (0, 1, 1, 1)
    assert stat(allocator, "inactive_split_bytes") == (0, 16 * MIB, 16 * MIB, 16 * MIB)


def test_a_block_that_another_stream_uses_is_active_but_no_allocation():
    allocator = counted()
    allocator.malloc("a", 2 * MIB)
    allocator.request_free("a")
    assert stat(allocator, "allocation") == (0, 1, 1, 1)
    assert stat(allocator, "allocated_bytes")[0] == 0
    assert (stat(allocator, "active")[0], stat(allocator, "requested_bytes")[0]) == (1, 2 * MIB)
    allocator.free("a")
    assert (stat(allocator, "active")[0], stat(allocator, "requested_bytes")[0]) == (0, 0)
    assert stat(allocator, "allocation") == (0, 1, 1, 1)


def test_a_retry_a_failure_and_what_went_back_are_counted():
    allocator = counted(24 * MIB)
    allocator.malloc("a", 12 * MIB)
    allocator.free("a")
    allocator.malloc("b", 14 * MIB)
    with pytest.raises(Exception, match="out of memory"):
        allocator.malloc("c", 14 * MIB)
    found = allocator.statistics()
    assert (found["num_alloc_retries"], found["num_ooms"], found["num_sync_all_streams"]) == (2, 1, 2)
    assert (found["num_device_alloc"], found["num_device_free"]) == (2, 1)
    assert stat(allocator, "segment") == (1, 1, 2, 1)
    assert stat(allocator, "reserved_bytes") == (14 * MIB, 14 * MIB, 26 * MIB, 12 * MIB)


def test_oversize_blocks_and_segments_are_counted_from_the_largest_size_that_may_be_split():
    allocator = counted(settings="max_split_size_mb:64")
    allocator.malloc("a", 125 * MIB // 2)
    allocator.malloc("b", 64 * MIB)
    assert stat(allocator, "oversize_allocations", "") == (1, 1, 1, 0)
    assert stat(allocator, "oversize_segments", "") == (2, 2, 2, 0)  # 62.5 MiB come out of one of 64
    allocator.free("b")
    allocator.release_cached()
    assert stat(allocator, "oversize_allocations", "") == (0, 1, 1, 1)
    assert stat(allocator, "oversize_segments", "") == (1, 2, 2, 1)
    assert allocator.statistics()["max_split_size"] == 64 * MIB
    assert counted().statistics()["max_split_size"] == -1


def test_pages_of_expandable_segments_are_reserved_without_being_segments():
    allocator = counted(settings="expandable_segments:True")
    allocator.malloc("a", 50 * MIB)
    assert stat(allocator, "reserved_bytes")[0] == 60 * MIB
    assert stat(allocator, "segment") == (0, 0, 0, 0)
    assert allocator.statistics()["num_device_alloc"] == 1


def test_resetting_the_peaks_keeps_the_sums():
    allocator = counted()
    allocator.malloc("a", 2 * MIB)
    allocator.free("a")
    allocator.reset_peaks()
    assert stat(allocator, "allocated_bytes") == (0, 0, 2 * MIB, 2 * MIB)
    assert stat(allocator, "reserved_bytes") == (20 * MIB, 20 * MIB, 20 * MIB, 0)


def test_a_layout_taken_over_is_counted_as_it_is():
    allocator = counted()
    blocks = [Placed(0, 4 * MIB), Placed(4 * MIB, 4 * MIB, 5, "allocated", "x"), Placed(8 * MIB, 12 * MIB)]
    allocator.adopt(Segment(0, 20 * MIB, 0, False, blocks))
    assert stat(allocator, "inactive_split")[:2] == (2, 2)
    assert stat(allocator, "inactive_split_bytes")[0] == allocator.inactive_split == 16 * MIB
    assert stat(allocator, "active_bytes")[0] == 4 * MIB


def test_nothing_is_counted_unless_asked_for():
    with pytest.raises(ValueError, match="counted=True"):
        CachingAllocator().statistics()


def test_every_counter_that_torch_documents_is_there_under_its_name():
    text = torch.cuda.memory_stats.__doc__
    names = set()
    for name, pools, keys in re.findall(r'"(\w+)\.(?:\{([\w,]+)\}\.)?\{([\w,]+)\}"', text):
        name = "allocation" if name == "allocated" else name  # the text's slip: the key is "allocation"
        for pool in pools.split(",") if pools else [""]:
            names |= {".".join(filter(None, (name, pool, key))) for key in keys.split(",")}
    names |= set(re.findall(r'``"(num_\w+|max_\w+)"``', text)) - {"num_oom_rejections"}
    found = counted().statistics()
    assert len(names) > 100
    assert names <= set(found)
