"""A run folded from its events, its traces, and the bars that show them."""

from __future__ import annotations

import json
import math

from app.fakes import probe_events
from tui.app.live import Live, Trace
from tui.app.views.bars import bar_rows, columns, curve, trace_rows
from tui.probe import protocol as p


def test_a_trace_keeps_at_most_512_values_and_the_first_and_last():
    trace = Trace()
    for value in range(10_000):
        trace.add(float(value))
    assert len(trace.values) <= Trace.KEEP
    assert trace.values[0] == 0.0
    assert trace.values[-1] >= 10_000 - trace.every


def test_a_trace_of_groups_halves_by_whole_groups():
    trace = Trace(group=3)
    for value in range(2_000):
        trace.add(value, value + 0.1, value + 0.2)
    assert len(trace.values) % 3 == 0
    assert len(trace.values) <= Trace.KEEP
    assert [round(one - trace.values[0], 1) for one in trace.values[:3]] == [0.0, 0.1, 0.2]


def test_values_that_are_no_numbers_are_shown_and_harmless():
    trace = Trace()
    trace.add(math.nan)
    trace.add(None)
    trace.add(math.inf)
    trace.add(2.0)
    assert trace.top() == 2.0
    rows = trace_rows(trace, 12, 2)
    assert rows[-1] == "!! !! !! ██ "
    assert rows[0] == "         ██ "


def test_a_trace_is_its_own_progress_bar():
    trace = Trace(expected=4)
    trace.add(1.0)
    assert trace_rows(trace, 12, 1) == ["██ ·········"]
    trace.add(0.5)
    assert trace_rows(trace, 12, 1) == ["██ ▄▄ ······"]


def test_a_long_run_fits_its_columns_by_showing_the_largest_of_several():
    trace = Trace(expected=8)
    for value in (1, 1, 1, 1, 4, 1, 1, 1):
        trace.add(float(value))
    assert trace_rows(trace, 4, 1) == ["▂▂█▂"]


def test_bars_start_at_zero():
    assert bar_rows([0.0, 0.5, 1.0], 1, 1.0) == [" ▄█"]
    assert bar_rows([99.0, 100.0], 1, 100.0) == ["██"]


def test_anything_above_zero_shows():
    assert bar_rows([0.001], 1, 1000.0) == ["▁"]


def test_a_curve_goes_from_its_least_to_its_most_and_bears_nan():
    assert curve([3.0, 2.0, 1.0], 12) == "█▅▁"
    assert curve([math.nan, 1.0, 2.0], 12) == "!▁█"
    assert curve([math.nan], 12) == "!"
    assert curve([], 12) == ""
    assert curve([5.0, 5.0], 12) == "▁▁"


def test_columns_show_the_largest_and_never_hide_what_is_no_number():
    assert columns([1.0, 9.0, 2.0, 3.0], 2) == [9.0, 3.0]
    assert columns([1.0, None, 2.0, 3.0], 2) == [None, 3.0]


def test_a_run_is_folded_from_its_events():
    live = Live()
    for event in probe_events(10):
        live.apply(event)
    child = live.child
    assert (live.run, live.step, child.id) == ("run-1", "probe", "p-1")
    assert (child.done, child.total) == (10, 20)
    assert child.median_ms() == 119.0
    assert child.p90_ms() == 120.0
    assert round(child.rate() or 0, 1) == round(320_000 / 1189, 1)
    assert child.left_s() == 10 * 119.0 / 1000
    assert child.readings["others"].unknown == "hidden in this container"
    assert child.readings["process"].peak == 15_844_402_790


def test_the_largest_reading_keeps_the_phase_it_was_read_in():
    live = Live()
    for phase, size in (("forward", 5), ("backward", 9), ("step", 2)):
        live.apply(p.ReadingTaken("process", phase, size, "kernel", "rss"))
    read = live.child.readings["process"]
    assert (read.now, read.peak, read.phase) == (2, 9, "backward")


def test_traces_start_again_with_each_measurement():
    live = Live()
    for event in probe_events(10):
        live.apply(event)
    live.apply(p.MeasurementStarted("p-2", "probe", "timed", "16", "runs/p-2.jsonl"))
    assert live.child.steps.values == []
    assert live.generation == 2


def test_a_traced_iteration_has_no_time():
    live = Live()
    live.apply(p.IterationDone(0, "traced", None, 1.0, 8, True, [1, 2, 3], "profiler events"))
    assert live.child.milliseconds == live.child.milliseconds.__class__(maxlen=4096)
    assert live.child.allocated.values == [1, 2, 3]


def test_events_that_were_decoded_from_a_journal_are_taken_alike():
    live = Live()
    for event in probe_events(3):
        live.apply(p.decode(p.encode(event)))
    assert live.child.done == 3
    live.apply(p.decode(json.dumps({"v": 1, "event": "Finished"}).encode()))


def test_the_sentence_of_a_failure_stays_with_the_run():
    live = Live()
    live.apply(p.Failed("workload", "batch(n=8) gave 4 samples", where="workload.py:21"))
    live.apply(p.RunEnded(2))
    assert live.failure == "workload.py:21: batch(n=8) gave 4 samples"
    assert live.code == 2
