"""What holds of the simulated allocator at any time, whatever it was told and asked."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.probe.allocator import CachingAllocator, OutOfMemory
from tui.probe.allocator_settings import parse

MIB = 1 << 20
SETTINGS = [
    "",
    "expandable_segments:True",
    "expandable_segments:True,large_segment_size_mb:12,max_split_size_mb:24",
    "max_split_size_mb:24,max_non_split_rounding_mb:22",
    "roundup_power2_divisions:[1:4,32:2,>:1]",
    "garbage_collection_threshold:0.4,per_process_memory_fraction:0.8",
    "large_segment_size_mb:40",
]
SIZES = st.one_of(st.integers(1, 4096), st.integers(MIB - 600, MIB + 600), st.integers(1, 40 * MIB))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("malloc"), SIZES, st.integers(0, 1)),
        st.tuples(
            st.just("free"), st.integers(0, 50), st.sampled_from(["at once", "requested", "only requested"])
        ),
        st.just(("release", 0, 0)),
    ),
    max_size=50,
)


def check(allocator: CachingAllocator) -> None:
    """Sums, order, merging and counters, computed anew from the layout."""
    free = active = requested = 0
    counts = {True: 0, False: 0}
    end = -1
    for segment in allocator.segments():
        assert segment.address >= end, "segments do not overlap"
        at, last = segment.address, None
        for block in segment.blocks:
            assert (block.address, block.size > 0) == (at, True), "blocks cover their segment"
            assert not (last == block.state == "free"), "free neighbours are merged"
            assert block.requested <= block.size
            at, last = at + block.size, block.state
            free += block.size if block.state == "free" else 0
            active += block.size if block.state != "free" else 0
            counts[segment.small] += block.state != "free"
            requested += block.requested
        end = segment.address + segment.size
        assert at == end
    assert allocator.reserved == free + active
    assert (allocator.active, allocator.requested) == (active, requested)
    assert allocator.requested <= allocator.active <= allocator.reserved
    assert allocator.allocated <= allocator.active
    _check_statistics(allocator, counts)


def _check_statistics(allocator: CachingAllocator, counts: dict[bool, int]) -> None:
    found = allocator.statistics()
    assert found["active_bytes.all.current"] == allocator.active
    assert found["allocated_bytes.all.current"] == allocator.allocated
    assert found["reserved_bytes.all.peak"] == allocator.peak_reserved
    assert found["active_bytes.all.peak"] == allocator.peak_active
    assert found["allocated_bytes.all.peak"] == allocator.peak_allocated
    assert found["requested_bytes.all.peak"] == allocator.peak_requested
    assert found["inactive_split_bytes.all.current"] == allocator.inactive_split
    assert found["inactive_split_bytes.all.peak"] == allocator.peak_inactive_split
    assert (found["active.small_pool.current"], found["active.large_pool.current"]) == (
        counts[True],
        counts[False],
    )
    for path, value in found.items():
        if path.endswith(".current"):
            name = path.removesuffix(".current")
            assert found[f"{name}.allocated"] - found[f"{name}.freed"] == value
            assert found[f"{name}.peak"] >= value >= 0
        if ".all.current" in path:
            parts = (path.replace(".all.", f".{pool}.") for pool in ("large_pool", "small_pool"))
            assert sum(found[part] for part in parts) == value


def run(steps, text, capacity, each=lambda allocator: None):
    """The allocator after a program, and where every block was put."""
    allocator = CachingAllocator(capacity, settings=parse(text), counted=True)
    alive, addresses = [], []
    for number, (step, value, more) in enumerate(steps):
        if step == "malloc":
            with suppress(OutOfMemory):
                addresses.append(allocator.malloc(number, value, more))
                alive.append(number)
        elif step == "free" and alive:
            id = alive[value % len(alive)]
            if more != "at once":
                allocator.request_free(id)
            if more != "only requested":
                allocator.free(id)
                alive.remove(id)
        elif step == "release":
            allocator.release_cached()
        each(allocator)
    return allocator, addresses


@pytest.mark.parametrize("text", SETTINGS)
@settings(max_examples=40, deadline=None)
@given(STEPS, st.sampled_from([None, 100 * MIB]))
def test_sums_and_counters_are_those_of_the_blocks_after_any_program(text, steps, capacity):
    def each(allocator):
        check(allocator)
        assert capacity is None or allocator.reserved <= capacity

    run(steps, text, capacity, each)


@pytest.mark.parametrize("text", SETTINGS)
@settings(max_examples=15, deadline=None)
@given(STEPS)
def test_the_same_program_gives_the_same_addresses_and_counters(text, steps):
    first, places = run(steps, text, 100 * MIB)
    second, again = run(steps, text, 100 * MIB)
    assert places == again
    assert first.statistics() == second.statistics()
    assert first.segments() == second.segments()


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_settings_that_say_the_defaults_change_nothing(steps):
    told = "max_non_split_rounding_mb:20,roundup_power2_divisions:1,max_split_size_mb:900000"
    plain, places = run(steps, "", 100 * MIB)
    other, again = run(steps, told, 100 * MIB)
    assert places == again
    assert plain.segments() == other.segments()
    assert (plain.num_alloc_retries, plain.num_ooms) == (other.num_alloc_retries, other.num_ooms)
