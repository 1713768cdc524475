"""Recorded CUDA histories through the measuring path: peaks of phases, rows and the timeline, to the byte."""

import tomllib

import pytest
from memory_records import traces

from tui.budget.timeline import alive, by_row, levels, phase_peak, top
from tui.probe import peaks, record_cuda, recorded, timeline, unpickle
from tui.probe.labels import Labelled
from tui.project.timeline import Phase, _decoded

TRACES = traces()
EXPECTED = [] if TRACES is None else tomllib.loads((TRACES / "expected.toml").read_text())["trace"]

pytestmark = pytest.mark.skipif(
    not EXPECTED, reason="the recorded traces are not here; PEAKMARK_TRACES names them"
)


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda one: one["file"].removesuffix(".pickle"))
def test_the_measuring_path_has_the_exact_peaks_of_a_trace_and_its_timeline_too(expected):
    taken = unpickle.load(TRACES / expected["file"])
    record = record_cuda.from_snapshot(taken, 0)
    value, _ = record.peak(0, len(record.events))
    wanted = expected["peak"]
    if not record.unknown_frees:  # as in a measurement, which records from before the first block on
        assert value + expected["start"].get("requested", 0) == wanted["requested"]

    times = [event[0] for event in record.events]
    cut = times[len(times) // 2]
    marks = [
        (0, "forward", peaks.STEADY, 0),
        (cut, "backward", peaks.STEADY, 0),
        (1 << 62, "end", None, None),
    ]
    outer, why = record_cuda.outer_peaks(taken, 0, marks)
    assert why == ""
    assert recorded.read(taken, 0).count("segment_alloc") == expected["segments"]
    found = {
        "allocated": max(allocated for allocated, _ in outer),
        "reserved": max(reserved for _, reserved in outer),
    }
    assert found == {name: wanted[name] for name in found}

    labelled = Labelled(record, marks, [], [], None)
    shown = _decoded(timeline.table(labelled, peaks.STEADY))
    assert [one.name for one in shown.phases] == ["forward", "backward"]
    assert max(levels(shown)) == value
    for phase, interval in zip(shown.phases, labelled.intervals, strict=True):
        event, size = phase_peak(shown, phase)
        reported, rows, _ = labelled.peak(interval)
        assert size == reported
        assert by_row(alive(shown, event)) == {row: one for row, one in rows.items() if one}


def test_half_of_the_traces_began_with_the_process_or_freed_nothing_older():
    loaded = [record_cuda.from_snapshot(unpickle.load(TRACES / one["file"]), 0) for one in EXPECTED]
    assert sum(one.unknown_frees == 0 for one in loaded) >= len(loaded) / 2


def test_the_largest_of_a_recorded_attention_is_one_storage_of_its_size():
    taken = unpickle.load(TRACES / "attention_forward_backward.pickle")
    record = record_cuda.from_snapshot(taken, 0)
    marks = [(0, "forward", peaks.STEADY, 0), (1 << 62, "end", None, None)]
    shown = _decoded(timeline.table(Labelled(record, marks, [], [], None), peaks.STEADY))
    event, _ = phase_peak(shown, Phase("forward", 0, 0, shown.events))
    largest = top(alive(shown, event), 1)[0]
    assert largest.storage.bytes * largest.count == largest.bytes
    assert largest.bytes >= max(one.bytes for one in alive(shown, event))
