import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_records import MIB, Recorder, event, segment, snapshot, traces

from tui.probe import recorded
from tui.probe.what_if import START, replay_under

BASE = 1 << 40
TRACES = traces()
ALL = [] if TRACES is None else tomllib.loads((TRACES / "expected.toml").read_text())["trace"]
NAMES = (
    "attention_forward_backward",
    "convnet_train",
    "small_lm_forward_fp32_ctx128",
    "lm_423m_train_ctx128",
)
EXPECTED = [one for one in ALL if one["file"].removesuffix(".pickle") in NAMES]
CONFIGURATIONS = ("", "expandable_segments:True", "max_split_size_mb:64")


@pytest.mark.skipif(not EXPECTED, reason="the recorded traces are not here; PEAKMARK_TRACES names them")
@pytest.mark.parametrize("expected", EXPECTED, ids=lambda one: one["file"].removesuffix(".pickle"))
def test_a_trace_replayed_by_the_default_rules_alone_comes_near_what_was_recorded(expected):
    """To the byte from an empty process; elsewhere the cache from before the record is missing."""
    history = recorded.load(TRACES / expected["file"])
    found = {text: replay_under(history, text) for text in CONFIGURATIONS}
    plain, peak = found[""], expected["peak"]
    assert plain.failure is None
    assert plain.basis == "default: proved by recorded traces"
    assert {one.peak_requested for one in found.values()} == {peak["requested"]}
    if expected["start"].get("allocated", 0) == 0:
        assert (plain.peak_allocated, plain.peak_reserved) == (peak["allocated"], peak["reserved"])
    assert plain.peak_allocated == pytest.approx(peak["allocated"], rel=0.002)
    assert plain.peak_reserved <= peak["reserved"]
    for one in found.values():
        assert one.peak_requested <= one.peak_allocated <= one.peak_reserved


def test_blocks_from_before_the_record_are_there_and_their_cache_is_not():
    recorder = Recorder()
    recorder.malloc(1, 30 * MIB)
    recorder.malloc(2, 50 * MIB)
    recorder.free(2)
    recorder.begin()
    recorder.malloc(3, 12 * MIB)
    history = recorded.read(recorder.snapshot())
    assert (
        history.peak_reserved.bytes == 80 * MIB
    )  # a third of it is the cached segment, which 12 MiB came from
    found = replay_under(history)
    assert (found.peak_requested, found.peak_reserved) == (42 * MIB, 42 * MIB)
    assert replay_under(history, capacity=20 * MIB).failure.event == START


def test_a_failure_says_which_event_asked_for_how_much_where():
    recorder = Recorder()
    recorder.begin()
    recorder.malloc(1, 12 * MIB)
    recorder.malloc(2, 14 * MIB)
    failed = replay_under(recorded.read(recorder.snapshot()), capacity=20 * MIB).failure
    assert (failed.event, failed.asked, failed.frame) == (3, 14 * MIB, "train.py:7 step")
    assert (failed.reserved, failed.allocated, failed.largest_free) == (12 * MIB, 12 * MIB, 0)


def test_an_emptied_cache_is_emptied_in_the_replay_too_and_a_retry_is_not():
    recorder = Recorder()
    recorder.begin()
    recorder.malloc(1, 30 * MIB)
    recorder.free(1)
    recorder.empty_cache()
    recorder.malloc(2, 512)
    recorder.free(2)
    taken = recorder.snapshot()
    marked = {**taken, "device_traces": [list(taken["device_traces"][0])]}
    marked["device_traces"][0].insert(5, event("snapshot", 0, 0))  # something lies between the two
    assert replay_under(recorded.read(marked)).peak_reserved == 30 * MIB
    assert (
        replay_under(recorded.read(taken)).peak_reserved == 32 * MIB
    )  # as a retry: given back for the next one


def test_streams_and_waiting_blocks_are_those_of_the_record():
    events = [
        event("segment_alloc", BASE, 12 * MIB, stream=7),
        event("alloc", BASE, 12 * MIB, stream=7),
        event("free_requested", BASE, 12 * MIB, stream=7),
        event("segment_alloc", 2 * BASE, 12 * MIB, stream=7),
        event("alloc", 2 * BASE, 12 * MIB, stream=7),
        event("free_completed", BASE, 12 * MIB, stream=7),
    ]
    segments = [
        segment(BASE, [(12 * MIB, 0, "inactive")], stream=7),
        segment(2 * BASE, [(12 * MIB, 12 * MIB, "active_allocated")], stream=7),
    ]
    found = replay_under(recorded.read(snapshot(events, segments)))
    assert (found.peak_requested, found.peak_allocated, found.peak_reserved) == (24 * MIB, 12 * MIB, 24 * MIB)


def test_a_share_without_a_capacity_and_private_pools_are_told():
    taken = snapshot(
        [event("snapshot", 0, 0)], [segment(BASE, [(2 * MIB, 0, "inactive")], segment_pool_id=(0, 1))]
    )
    notes = replay_under(recorded.read(taken), "per_process_memory_fraction:0.5").notes
    assert [note.split()[0] for note in notes] == ["private", "per_process_memory_fraction"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("malloc"), st.integers(1, 24 * MIB)),
        st.tuples(st.just("malloc"), st.integers(1, 4096)),
        st.tuples(st.just("free"), st.integers(0, 30)),
    ),
    max_size=50,
)


@settings(max_examples=80, deadline=None)
@given(STEPS)
def test_any_program_from_an_empty_process_is_replayed_as_it_was(steps):
    recorder, alive = Recorder(), []
    recorder.begin()
    for number, (step, value) in enumerate(steps):
        if step == "malloc":
            recorder.malloc(number, value)
            alive.append(number)
        elif alive:
            recorder.free(alive.pop(value % len(alive)))
    if not recorder.events:
        return
    history = recorded.read(recorder.snapshot())
    found = replay_under(history)
    assert found.peak_reserved == history.peak_reserved.bytes
    assert found.peak_allocated == history.peak_allocated.bytes
    assert found.peak_requested == history.peak_requested.bytes
    lower = replay_under(history, capacity=found.peak_reserved)
    assert (lower.failure, lower.retries) == (None, 0)
