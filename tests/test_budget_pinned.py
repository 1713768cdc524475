"""Pinned host memory: what is asked for and what is locked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.budget.pinned import Pinned, pinned


def test_a10_pinned_buffers_lock_up_to_twice_what_is_asked_for():
    host = pinned([4_347_592_704 * 2])  # half precision
    assert (host.requested, host.locked) == (8_695_185_408, 17_179_869_184)
    assert round(host.locked / host.requested, 2) == 1.98


def test_a10_a_threshold_of_newer_torch_locks_what_is_asked_for():
    assert pinned([8_695_185_408], round_threshold=64 << 20) == Pinned(8_695_185_408, 8_695_185_408)
    assert pinned([64 << 20, 3], round_threshold=64 << 20) == Pinned((64 << 20) + 3, (64 << 20) + 4)


def test_each_buffer_is_rounded_by_itself():
    assert pinned([1, 2, 3, 5, 0]) == Pinned(11, 1 + 2 + 4 + 8)
    assert pinned([]) == Pinned(0, 0)
    with pytest.raises(ValueError, match="-1 bytes"):
        pinned([-1])


@given(st.integers(1, 1 << 50))
def test_what_is_locked_is_the_least_power_of_two_that_holds_it(size):
    locked = pinned([size]).locked
    assert locked & (locked - 1) == 0
    assert locked // 2 < size <= locked
