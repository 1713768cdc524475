"""The timeline pane: what is drawn, where the peak and the cursor are, and what it costs when it is large."""

from __future__ import annotations

import re
import time

import pytest

from app import sample, timelines
from app.pages import laid
from tui.app import course as c
from tui.app.alive import table
from tui.app.glyphs import ascii_line
from tui.app.page import Cursor
from tui.app.probe_state import ProbeState
from tui.app.views.canvas import stacked
from tui.app.views.probe_timeline import _cells
from tui.budget import timeline as of
from tui.project.timeline import Phase, Storage, Timeline

PEAK = 14_773_325_824


def state(timeline: Timeline | None = None, **changes: object) -> ProbeState:
    made = c.course_of(timeline or timelines.decoder())
    at = changes.get("event")
    at = made.peak_event if at is None else at
    live = table(of.alive(made.timeline, at), at)
    return ProbeState(course=made, moment=c.moment(made, at), alive=live, **changes)


def shown(width=80, height=24, pane=1, made=None, row=-1, **scene) -> list[str]:
    placed = laid(
        sample.cuda(), "probe", width, height, Cursor(pane=pane, row=row), probe=made or state(), **scene
    )
    return [line.plain.rstrip() for line in placed.lines]


def test_the_sample_timeline_is_that_of_the_sample_probe():
    timeline = timelines.decoder()
    event, size = of.peak(timeline)
    rows = of.by_row(of.alive(timeline, event))
    assert size == PEAK
    assert rows == {key: value for key, value in sample.cuda_probe().phases["backward"].rows.items() if value}


def test_the_answer_says_the_peak_and_the_mark_stands_over_its_column():
    rows = shown()
    assert "● PEAK  13.759 GiB requested, backward of micro-batch 2" in rows[2]
    column = rows[4].index("▼")
    assert "peak 13.759 GiB, backward of micro-batch 2" in rows[4]
    assert rows[5][column] == "░"  # the only columns that reach the top are those of the peaks
    axis = next(row for row in rows if row.startswith("     0└"))
    assert axis[column] == "┼"


def test_what_the_peak_is_stands_whole_on_either_side_of_its_mark():
    for width in range(60, 140, 3):
        row = shown(width, 24)[4]
        assert re.search(r"peak 13\.759 GiB(, backward( of micro-batch 2)?)?( ▼|$)", row)
        assert "…" not in row


def test_every_category_has_a_shade_of_its_own_and_its_bytes_at_the_cursor():
    rows = shown(made=state())
    legend = " ".join(" ".join(rows[16:18]).split())
    assert (
        "GiB █ held 1.391 ▒ gradients 0.464 ▓ activations 8.774 ░ temporaries 3.067 · other 0.063" in legend
    )
    assert len({kind.mark for kind in c.KINDS}) == len(c.KINDS)
    plain = {ascii_line(row).plain for row in laid_lines()}
    assert all(re.search(re.escape(mark), "".join(plain)) for mark in "#:*%")


def laid_lines():
    return laid(sample.cuda(), "probe", cursor=Cursor(pane=1), probe=state()).lines


def test_the_cursor_shows_the_phase_the_bytes_and_what_is_alive_then():
    rows = shown(made=state(event=-1))
    assert "● INSTANT  1.453 GiB requested, before the first event" in rows[2]
    assert any(row.startswith(" alive then: 104 storages") for row in rows)
    text = "\n".join(rows)
    assert "transformer.wte" in text
    assert "blocks" not in text
    over = [row[7] for row in rows[5:14]]
    assert over[0] == "│"  # the cursor stands in the empty part of its column


def test_the_groups_can_be_picked_and_say_what_one_of_them_is():
    rows = shown(row=0)
    assert rows[22] == " 12 x 370,147,328 B, retained activations, made by addmm"
    assert rows[19].startswith(
        " transformer.h.*.mlp          8x1024x768 bfloat16                  12     4.137"
    )


@pytest.mark.parametrize("size", [(60, 16), (64, 18), (80, 24), (100, 30), (120, 40), (200, 60)], ids=str)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("pane", [1, 2, 3])
def test_panes_fill_any_terminal_and_keep_their_columns_in_ascii(size, exact, pane):
    for made in (state(), state(event=40), state(phases=True, table=True)):
        placed = laid(sample.cuda(), "probe", *size, Cursor(pane=pane), exact=exact, probe=made)
        whole = "".join(line.plain for line in placed.lines)
        assert pane == 3 or made.phases or "more lines below" not in whole
        placed = laid(sample.cuda(), "probe", *size, Cursor(pane=pane, row=2), exact=exact, probe=made)
        assert len(placed.lines) == size[1]
        assert max(line.cell_len for line in placed.lines) <= size[0]
        assert all(len(ascii_line(line).plain) == line.cell_len for line in placed.lines)
        assert all(ascii_line(line).plain.isascii() for line in placed.lines)
        assert placed.cursor_y is not None
        assert (
            "more lines below" not in "".join(line.plain for line in placed.lines) or pane == 3 or made.phases
        )


def test_the_chart_keeps_the_height_of_the_peak_however_narrow():
    made = c.course_of(timelines.decoder())
    for width in (20, 72, 190, 900):
        points = c.columns(made, width)
        assert max(one.total for one in points) == PEAK
        assert points[c.column_of(made, made.peak_event, width)].total == PEAK


def test_a_column_and_its_event_belong_together():
    made = c.course_of(timelines.decoder())
    for width in (50, 72, 800):
        columns = [c.column_of(made, event, width) for event in range(-1, made.timeline.events)]
        assert columns == sorted(columns)
        assert columns[0] == 0
        assert columns[-1] >= width - 2  # wider than there are events: the last one has no column to itself
        assert all(
            c.column_of(made, c.event_of(made, x, width), width) in (x, x + 1) for x in range(0, width, 7)
        )


def test_the_many_small_events_of_a_step_have_a_fifth_of_the_width_at_most():
    step = tuple(Storage(20 + n, 21 + n, 4, "step_temporaries", "", "sqrt", "", "") for n in range(1980))
    held = (Storage(0, 19, 900, "retained_activations", "fc", "mm", "", ""),)
    phases = (Phase("forward", 0, 0, 10), Phase("backward", 0, 10, 20), Phase("step", None, 20, 2000))
    made = c.course_of(Timeline(phases, 2001, held + step))
    assert c.column_of(made, 1999, 100) - c.column_of(made, 20, 100) in (19, 20)
    small = c.course_of(timelines.decoder())
    assert c.column_of(small, small.timeline.phases[-1].first, 100) in (79, 80)


def test_a_column_ends_at_its_total_and_anything_alive_shows():
    assert _cells((50, 25, 25, 0, 0), 100, 100, 8) == (4, 2, 2, 0, 0)
    assert _cells((0, 0, 1, 0, 0), 1, 1000, 8) == (0, 0, 1, 0, 0)
    assert _cells((0, 0, 0, 0, 0), 0, 1000, 8) == (0, 0, 0, 0, 0)
    assert sum(_cells((1, 1, 1, 1, 1), 5, 5, 8)) == 8


def test_a_canvas_has_a_cell_for_every_cell_that_is_asked_for():
    assert stacked(((2, 1, 0), (0, 0, 1), (0, 0, 0)), "█▓·", 4) == ("   ", "▓  ", "█  ", "█· ")


def test_an_iteration_without_storages_is_drawn_empty():
    rows = shown(made=state(Timeline((), 0, ())))
    assert "PEAK  0 B requested, before the first event" in rows[2]


def test_without_a_timeline_the_phases_stand_and_a_sentence_says_why():
    rows = shown(made=ProbeState(course="the timeline is gone: r measures again"))
    assert " the timeline is gone: r measures again" in rows
    assert any(row.startswith("  backward") for row in rows)
    assert any("reading the timeline" in row for row in shown(made=ProbeState()))


def test_a_pane_over_two_hundred_thousand_storages_costs_what_a_small_one_does():
    made = state(timelines.large(200_000))
    for pane in (1, 2):
        laid(sample.cuda(), "probe", cursor=Cursor(pane=pane), probe=made)
        begin = time.process_time()
        for row in range(10):
            laid(sample.cuda(), "probe", cursor=Cursor(pane=pane, row=row), probe=made)
        assert (time.process_time() - begin) / 10 < 0.02
