import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_records import MIB, Recorder

from tui.commands.snapshot_document import document
from tui.probe import recorded
from tui.report.lines import to_ascii
from tui.report.snapshot_view import POINTS, Point, view
from tui.report.text_snapshot_chart import MARGIN, axis_line, chart_lines


def busy(steps):
    """So many blocks of 1, 2 and 3 MiB one after the other, the last three alive."""
    recorder = Recorder()
    recorder.begin()
    for step in range(steps):
        recorder.malloc(step, (step % 3 + 1) * MIB)
        if step >= 3:
            recorder.free(step - 3)
    return recorded.read(recorder.snapshot())


def test_a_view_has_what_its_document_says():
    history = busy(10)
    found = view(document(history, "a.pickle"))
    assert (found.file, found.events, found.peak.requested) == ("a.pickle", len(history.events), 9 * MIB)
    assert sum(one.bytes for one in found.live) == found.at_figures.requested == 9 * MIB
    assert sum(one.each * one.blocks for one in found.sizes) == 9 * MIB
    assert sum(one.bytes for one in found.segments) == found.fragmentation.reserved == 22 * MIB
    assert sum(one.free for one in found.segments) == found.fragmentation.free


@pytest.mark.parametrize("steps", [1, 3, 10, 1000])
def test_points_cover_every_event_with_its_least_and_most(steps):
    history = busy(steps)
    points = view(document(history)).points
    assert len(points) == min(POINTS, len(history.events))
    assert points[0].first == 0
    assert max(one.high for one in points) == history.peak_allocated.bytes
    assert min(one.low for one in points) == 0
    assert max(one.reserved for one in points) == history.peak_reserved.bytes
    levels = history.played.allocated
    for one, after in zip(points, [*points[1:], Point(len(levels), 0, 0, 0)], strict=True):
        assert one.low <= min(levels[one.first : after.first])
        assert one.high >= max(levels[one.first : after.first])


def test_another_document_or_a_torn_one_is_refused():
    with pytest.raises(ValueError, match="'ledger' and no snapshot"):
        view({"document": "ledger"})
    torn = document(busy(3))
    del torn["timeline"]
    with pytest.raises(ValueError, match="lacks something: KeyError"):
        view(torn)


def test_a_chart_shows_what_stayed_what_came_and_went_and_what_was_reserved():
    points = [Point(0, 2, 2, 4), Point(10, 2, 4, 4), Point(20, 4, 4, 8)]
    lines = chart_lines(points, MARGIN + 6, 4)
    assert [line[MARGIN:].ljust(6) for line in lines] == ["    ──", "────  ", "  ▒▒██", "██████"]
    assert [line[:MARGIN].strip() for line in lines] == ["8 B", "", "", "0"]
    assert to_ascii(lines[2]).strip() == "==##"


def test_nothing_recorded_is_no_chart():
    assert chart_lines([], 80) == []


POINT = st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 1 << 40))


@given(st.lists(POINT, min_size=1, max_size=600), st.integers(MARGIN + 1, 200), st.integers(1, 20))
def test_a_chart_fits_and_rises_to_the_most_that_was_reserved(values, width, height):
    points = [Point(n, min(a, b), max(a, b), max(a, b, c)) for n, (a, b, c) in enumerate(values)]
    lines = chart_lines(points, width, height)
    assert len(lines) == height
    assert max(map(len, lines)) <= width
    if any(one.reserved for one in points):
        assert len(lines[0]) > MARGIN  # something touches the top


@given(st.integers(1, 10**6), st.data(), st.integers(MARGIN + 12, 120))
def test_the_axis_names_first_last_and_marked_event_within_the_width(events, data, width):
    mark = data.draw(st.none() | st.integers(0, events - 1))
    line = axis_line([Point(0, 0, 1, 1)], events, mark, width)
    assert len(line) <= width
    assert ("^" in line) == (mark is not None and events > 1)
