import copy
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_records import FRAME, MIB, Recorder, event, segment, snapshot, traces

from tui.probe import recorded
from tui.probe.recorded import IntervalPeak, Peak, SnapshotError, Totals

BASE = 1 << 40
TRACES = traces()
EXPECTED = [] if TRACES is None else tomllib.loads((TRACES / "expected.toml").read_text())["trace"]

needs_traces = pytest.mark.skipif(
    not EXPECTED, reason="the recorded traces are not here; PEAKMARK_TRACES names them"
)


@needs_traces
@pytest.mark.parametrize("expected", EXPECTED, ids=lambda one: one["file"].removesuffix(".pickle"))
def test_a_recorded_trace_is_replayed_to_the_byte(expected):
    history = recorded.load(TRACES / expected["file"])
    found = {
        "start": history.start._asdict(),
        "peak": {
            "requested": history.peak_requested.bytes,
            "allocated": history.peak_allocated.bytes,
            "reserved": history.peak_reserved.bytes,
        },
        "end": history.end._asdict(),
    }
    for instant, figures in found.items():
        assert {name: figures[name] for name in expected[instant]} == expected[instant]
    assert (len(history.events), history.count("alloc")) == (expected["events"], expected["allocations"])
    assert history.count("segment_alloc") == expected["segments"]
    assert history.played.start_tail_fixes == expected["start_tail_fixes"]
    assert history.played.wrong_addresses == 0
    assert (history.contradictions, history.played.ignored) == (0, set())
    assert sum(alive.nbytes for alive in history.alive_at_peak()) == expected["peak"]["requested"]


def one_of_each():
    """From an empty process: 3 MiB, 4 MiB + 1, the first freed, 512 B; alive at the end: the last two."""
    recorder = Recorder()
    recorder.begin()
    recorder.malloc(1, 3 * MIB)
    recorder.malloc(2, 4 * MIB + 1)
    recorder.free(1)
    recorder.malloc(3, 512)
    return recorder


def test_peaks_ends_and_their_events_come_from_a_record_made_from_the_start():
    history = recorded.read(one_of_each().snapshot())
    kinds = [found.kind for found in history.events]
    assert kinds == ["segment_alloc", "alloc", "alloc", "free_requested", "free", "segment_alloc", "alloc"]
    assert history.start == Totals(0, 0, 0)
    assert history.peak_requested == Peak(7 * MIB + 1, 2)
    assert history.peak_allocated == Peak(7 * MIB + 512, 2)
    assert history.peak_reserved == Peak(22 * MIB, 5)
    assert history.end == Totals(4 * MIB + 513, 4 * MIB + 1024, 22 * MIB)
    assert history.played.wrong_addresses == 0
    assert (history.rules.settings, history.notes) == ("", [])


def test_what_is_alive_at_the_peak_is_listed_with_its_event_and_frame():
    alive = recorded.read(one_of_each().snapshot()).alive_at_peak()
    assert [(one.nbytes, one.born, one.frame) for one in alive] == [
        (4 * MIB + 1, 2, "train.py:7 step"),
        (3 * MIB, 1, "train.py:7 step"),
    ]


def test_allocated_falls_when_the_owner_lets_go_and_requested_when_the_bytes_are_free():
    history = recorded.read(one_of_each().snapshot())
    assert history.totals(3) == Totals(7 * MIB + 1, 4 * MIB + 512, 20 * MIB)
    assert history.totals(4) == Totals(4 * MIB + 1, 4 * MIB + 512, 20 * MIB)


def test_memory_from_before_the_record_is_found_by_undoing_it():
    recorder = Recorder()
    recorder.malloc(1, 2 * MIB)
    recorder.malloc(2, 3 * MIB)
    recorder.begin()
    recorder.free(1)
    recorder.malloc(3, MIB + 1)
    history = recorded.read(recorder.snapshot())
    assert history.start == Totals(5 * MIB, 5 * MIB, 20 * MIB)
    assert history.peak_requested == Peak(5 * MIB, None)
    assert [(one.nbytes, one.born) for one in history.alive_at_peak()] == [(3 * MIB, None), (2 * MIB, None)]
    assert history.end == Totals(4 * MIB + 1, 5 * MIB, 20 * MIB)  # the 2 MiB block is used whole


def test_a_gap_too_small_to_be_free_is_the_unsplit_tail_of_a_block_freed_later():
    recorder = Recorder()
    recorder.malloc(1, 11 * MIB)  # takes all 12 MiB of its segment
    recorder.begin()
    recorder.free(1)
    history = recorded.read(recorder.snapshot())
    assert history.start == Totals(11 * MIB, 12 * MIB, 12 * MIB)
    assert history.played.open_tails == {}


def tail_before_a_free_block():
    """A block of 3.5 MiB that keeps a tail of 0.5 MiB, with 16 MiB behind it free when recording begins."""
    recorder = Recorder()
    recorder.malloc(1, 4 * MIB)
    recorder.malloc(2, 16 * MIB)
    recorder.free(1)
    recorder.malloc(3, 7 * MIB // 2)
    recorder.free(2)
    recorder.begin()
    return recorder


def test_a_tail_hidden_by_a_free_block_is_found_when_something_lands_behind_it():
    recorder = tail_before_a_free_block()
    recorder.malloc(4, 5 * MIB)
    recorder.free(3)
    history = recorded.read(recorder.snapshot())
    assert history.start == Totals(7 * MIB // 2, 4 * MIB, 20 * MIB)
    assert (history.played.start_tail_fixes, history.played.open_tails) == (1, {})
    assert history.peak_allocated == Peak(9 * MIB, 0)
    assert history.played.wrong_addresses == 0


def test_a_tail_that_nothing_shows_is_said_to_be_unknown():
    recorder = tail_before_a_free_block()
    recorder.free(3)
    history = recorded.read(recorder.snapshot())
    assert list(history.played.open_tails.values()) == [MIB]
    assert history.start.allocated == 7 * MIB // 2
    assert "up to 1048576 B higher" in history.notes[0]


def test_segments_given_back_while_recording_were_reserved_at_the_start():
    recorder = Recorder()
    recorder.malloc(1, 30 * MIB)
    recorder.free(1)
    recorder.malloc(2, 1)
    recorder.begin()
    recorder.empty_cache()
    history = recorded.read(recorder.snapshot())
    assert (history.start.reserved, history.end.reserved) == (32 * MIB, 2 * MIB)
    assert history.contradictions == 0


def test_every_mark_begins_an_interval_with_peaks_of_its_own():
    history = recorded.read(one_of_each().snapshot())  # event n is at n microseconds
    first, second, last = history.peaks_between([("forward", 0), ("backward", 3500), ("step", 5999)])
    assert first == IntervalPeak("forward", Peak(7 * MIB + 1, 2), Peak(7 * MIB + 512, 2), Peak(20 * MIB, 0))
    assert second == IntervalPeak("backward", Peak(7 * MIB + 1, 2), Peak(7 * MIB + 512, 2), Peak(20 * MIB, 2))
    assert last.requested == Peak(4 * MIB + 513, 6)
    assert last.reserved == Peak(22 * MIB, 5)


def test_marks_out_of_order_and_records_without_times_are_refused():
    history = recorded.read(one_of_each().snapshot())
    with pytest.raises(ValueError, match="not in the order of time"):
        history.peaks_between([("b", 5000), ("a", 0)])
    history.events[0].time_ns = None
    with pytest.raises(SnapshotError, match="has no times"):
        history.peaks_between([("a", 0)])


def test_a_placement_against_the_rules_is_counted_and_followed():
    events = [
        event("segment_alloc", BASE, 20 * MIB),
        event("alloc", BASE + 4 * MIB, 2 * MIB),
    ]
    blocks = [(4 * MIB, 0, "inactive"), (2 * MIB, 2 * MIB, "active_allocated"), (14 * MIB, 0, "inactive")]
    history = recorded.read(snapshot(events, [segment(BASE, blocks)]))
    assert history.played.wrong_addresses == 1
    assert history.end == Totals(2 * MIB, 2 * MIB, 20 * MIB)
    assert history.notes[0].startswith("1 of 1 allocations are elsewhere")


def test_a_segment_that_was_not_needed_counts_as_a_wrong_placement():
    start = [(2 * MIB, 2 * MIB, "active_allocated"), (18 * MIB, 0, "inactive")]
    fresh = [(12 * MIB, 12 * MIB, "active_allocated")]
    events = [event("segment_alloc", 2 * BASE, 12 * MIB), event("alloc", 2 * BASE, 12 * MIB)]
    history = recorded.read(snapshot(events, [segment(BASE, start), segment(2 * BASE, fresh)]))
    assert history.played.wrong_addresses == 1


def test_blocks_that_wait_for_another_stream_are_requested_but_not_allocated():
    blocks = [(2 * MIB, 2 * MIB, "active_pending_free"), (18 * MIB, 0, "inactive")]
    events = [event("free_requested", BASE, 2 * MIB)]
    history = recorded.read(snapshot(events, [segment(BASE, blocks)]))
    assert (history.start, history.end) == (
        Totals(2 * MIB, 2 * MIB, 20 * MIB),
        Totals(2 * MIB, 0, 20 * MIB),
    )


def test_expandable_segments_are_counted_without_comparing_addresses():
    blocks = [(2 * MIB, 2 * MIB - 5, "active_allocated"), (18 * MIB, 0, "inactive")]
    events = [
        event("segment_map", BASE, 20 * MIB),
        event("alloc", BASE, 2 * MIB - 5),
        event("alloc", BASE + 2 * MIB, MIB),
        event("free_requested", BASE + 2 * MIB, MIB),
        event("free_completed", BASE + 2 * MIB, MIB),
    ]
    history = recorded.read(snapshot(events, [segment(BASE, blocks, is_expandable=True)]))
    assert history.peak_requested == Peak(3 * MIB - 5, 2)
    assert history.peak_allocated == Peak(3 * MIB, 2)
    assert (history.start, history.end) == (Totals(0, 0, 0), Totals(2 * MIB - 5, 2 * MIB, 20 * MIB))
    assert history.played.wrong_addresses is None
    assert history.notes == ["the allocator used expandable segments, so addresses were not compared"]


def test_changed_settings_leave_allocated_unknown_and_keep_the_rest():
    taken = one_of_each().snapshot()
    taken["allocator_settings"] = {"max_split_size": 64 * MIB, "expandable_segments": False}
    history = recorded.read(taken)
    assert history.rules.settings == "max_split_size_mb:64"
    assert history.peak_allocated is None
    assert (history.peak_requested, history.peak_reserved) == (Peak(7 * MIB + 1, 2), Peak(22 * MIB, 5))
    assert history.end == Totals(4 * MIB + 513, None, 22 * MIB)
    assert history.peaks_between([("all", 0)])[0].allocated is None


def test_the_device_with_most_events_is_read_unless_one_is_named():
    taken = one_of_each().snapshot()
    taken["device_traces"].append([event("snapshot", 0, 0)])
    history = recorded.read(taken)
    assert history.device == 0
    assert history.notes == ["events of 2 devices; this is device 0, which has the most"]
    other = recorded.read(taken, device=1)
    assert (other.device, other.end, other.notes) == (1, Totals(0, 0, 0), [])
    with pytest.raises(SnapshotError, match="no events of device 2, only of 0, 1"):
        recorded.read(taken, device=2)


def test_unknown_actions_are_counted_and_change_nothing():
    taken = one_of_each().snapshot()
    taken["device_traces"][0].append(event("user_defined", 0, 0))
    history = recorded.read(taken)
    assert history.end == Totals(4 * MIB + 513, 4 * MIB + 1024, 22 * MIB)
    assert history.notes == ["events of unknown kinds were passed over: user_defined 1"]


def test_an_out_of_memory_event_carries_what_was_asked():
    taken = one_of_each().snapshot()
    failed = {"action": "oom", "device_free": 5 * MIB, "size": 64 * MIB, "stream": 0, "time_us": 99}
    taken["device_traces"][0].append(failed)
    last = recorded.events(taken)[-1]
    assert (last.kind, last.nbytes, last.address, last.time_ns) == ("oom", 64 * MIB, 5 * MIB, 99_000)


def test_a_live_block_with_a_stack_but_no_event_shows_that_events_were_lost():
    taken = one_of_each().snapshot()
    del taken["device_traces"][0][:5]
    for one in taken["segments"]:
        for block in one["blocks"]:
            block["frames"] = [FRAME] if block["state"] != "inactive" else []
    history = recorded.read(taken)
    assert history.lost == 1
    assert history.notes[0].startswith("live blocks with a stack but without an event: 1")
    kept = [one for one in history.alive_at(None) if one.frame]
    assert [(one.nbytes, one.born, one.frame) for one in kept] == [(4 * MIB + 1, None, "train.py:7 step")]


def test_a_record_that_was_paused_is_read_as_far_as_it_goes_and_says_so():
    taken = one_of_each().snapshot()
    del taken["device_traces"][0][2]  # the allocation of 4 MiB + 1 happened while recording was off
    lost = event("free_completed", BASE + 15 * MIB, 2 * MIB)
    taken["device_traces"][0] += [lost, event("alloc", BASE + 15 * MIB, 2 * MIB)]
    history = recorded.read(taken)
    assert "contradict the final segments" in history.notes[0]


def damaged(**changes):
    taken = one_of_each().snapshot()
    first = taken["device_traces"][0][1]
    for key, value in changes.items():
        first[key] = value
    return taken


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        ([], "is not a memory snapshot"),
        ({"segments": []}, "is not a memory snapshot"),
        ({"segments": [], "device_traces": 3}, "device_traces is not a list of lists"),
        ({"segments": [], "device_traces": [[], []]}, "holds no recorded events"),
        ({"segments": [], "device_traces": []}, "holds no recorded events"),
        (snapshot([{"addr": 1}], []), "event 0 is not of a memory snapshot"),
        (snapshot(["alloc"], []), "event 0 is not of a memory snapshot"),
        (damaged(addr="0x10"), "event 1 has no whole numbers"),
        (damaged(size=0), r"event 1 \(alloc\) has a size of 0"),
        (damaged(frames=[7]), "event 1 is not of a memory snapshot"),
        (damaged(addr=1 << 64), "event 1 has no whole numbers"),
        (damaged(size=10**5000), "event 1 has no whole numbers"),
        (damaged(action=(1, 2)), "event 1 has no whole numbers"),
        (damaged(frames=[{**FRAME, "line": 10**5000}]), "event 1 is not of a memory snapshot"),
        (damaged(frames=[{**FRAME, "name": [[]]}]), "event 1 is not of a memory snapshot"),
        (
            snapshot([event("snapshot", 0, 0)], [segment(BASE, [(10**5000, 0, "inactive")])]),
            "segment 0 is not of a memory snapshot",
        ),
        (snapshot([event("snapshot", 0, 0)], [{}]), "segment 0 is not of a memory snapshot"),
        (snapshot([event("snapshot", 0, 0)], 5), "segments is not a list"),
        (
            snapshot([event("snapshot", 0, 0)], [segment(BASE, [(MIB, 0, "inactive")], total_size=2 * MIB)]),
            "do not cover it exactly",
        ),
        (
            snapshot(
                [event("snapshot", 0, 0)],
                [segment(at, [(2 * MIB, 0, "inactive")]) for at in (BASE, BASE + MIB)],
            ),
            "overlap",
        ),
        (snapshot([event("snapshot", 0, 0)], [], allocator_settings=3), "allocator_settings is not a table"),
    ],
)
def test_a_snapshot_of_another_shape_is_one_sentence(taken, said):
    with pytest.raises(SnapshotError, match=said):
        recorded.read(taken)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("malloc"), st.integers(1, 24 * MIB), st.integers(0, 1)),
        st.tuples(st.just("malloc"), st.integers(1, 4096), st.integers(0, 1)),
        st.tuples(st.just("free"), st.integers(0, 30), st.just(0)),
        st.just(("empty", 0, 0)),
    ),
    max_size=50,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, STEPS)
def test_any_program_is_read_back_exactly_from_the_record_of_its_second_half(before, after):
    recorder, alive = Recorder(), []

    def run(steps, first):
        for number, (step, value, stream) in enumerate(steps, first):
            if step == "malloc":
                recorder.malloc(number, value, stream)
                alive.append(number)
            elif step == "free" and alive:
                recorder.free(alive.pop(value % len(alive)))
            elif step == "empty":
                recorder.empty_cache()

    run(before, 0)
    start = Totals(recorder.allocator.requested, recorder.allocator.allocated, recorder.allocator.reserved)
    recorder.begin()
    run(after, len(before))
    if not recorder.events:
        return
    real = recorder.allocator
    history = recorded.read(recorder.snapshot())
    assert history.contradictions == 0
    assert history.played.ignored == set()
    assert (history.start.requested, history.start.reserved) == (start.requested, start.reserved)
    assert history.end == Totals(real.requested, real.allocated, real.reserved)
    assert history.peak_requested.bytes == real.peak_requested
    assert history.peak_reserved.bytes == real.peak_reserved
    hidden = sum(history.played.open_tails.values())
    assert 0 <= start.allocated - history.start.allocated <= hidden
    assert 0 <= real.peak_allocated - history.peak_allocated.bytes <= hidden
    if not hidden:
        assert history.played.wrong_addresses == 0
    at_peak = history.alive_at_peak()
    assert sum(alive.nbytes for alive in at_peak) == history.peak_requested.bytes


ADDRESSES = st.integers(0, 12).map(lambda step: BASE + step * MIB)
ANYTHING = st.lists(
    st.builds(
        event,
        st.sampled_from(
            ["alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "?"]
        ),
        ADDRESSES,
        st.sampled_from([1, MIB, 2 * MIB, 3 * MIB, 20 * MIB]),
        stream=st.integers(0, 1),
    ),
    min_size=1,
    max_size=25,
)
FINAL = [segment(BASE, [(2 * MIB, 3, "active_allocated"), (18 * MIB, 0, "inactive")])]


@settings(max_examples=200, deadline=None)
@given(ANYTHING)
def test_events_in_any_order_are_read_without_failing_and_never_below_zero(events):
    history = recorded.read(snapshot(events, copy.deepcopy(FINAL)))
    assert min(history.played.requested) >= 0
    assert history.played.allocated is None or min(history.played.allocated) >= 0
    assert sum(one.nbytes for one in history.alive_at(len(events) - 1)) == history.end.requested
