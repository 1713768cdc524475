"""The predicted timeline over the measured one, phase by phase, and the predicted column of what is alive."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import sample, timelines
from app.fakes import opened, settle
from app.pages import laid
from app.test_app_probe_screen import Counting
from tui.app import course as c
from tui.app.alive import table
from tui.app.forecast import forecast_of, joined
from tui.app.laid_over import event_over, line_over
from tui.app.page import Cursor
from tui.app.probe_state import ProbeState
from tui.app.views.probe_timeline import canvas_width
from tui.budget import timeline as of
from tui.project.timeline import Phase, Storage, Timeline

MIB = 2**20
FILES = ("timeline", "predicted", "instant")


def world(extra: int = 0, measured: bool = True) -> Counting:
    found = sample.predicted(sample.cuda())
    probes = {sample.PROBE: replace(sample.cuda_probe(), timeline="runs/p.timeline.json")} if measured else {}
    project = replace(found, measured=replace(found.measured, probe=probes))
    lines = {f"runs/{sample.PREDICTION}.timeline.json": timelines.predicted(extra)}
    return Counting(project, line=timelines.decoder() if measured else None, lines=lines)


async def read(app, pilot) -> list[str]:
    while workers := [one for one in app.workers if one.group in FILES and not one.is_finished]:
        await app.workers.wait_for_complete(workers)
        await pilot.pause()
    return (await settle(app, pilot)).split("\n")


def test_the_same_iteration_with_fewer_events_lies_on_itself():
    made, over = c.course_of(timelines.decoder()), c.course_of(timelines.predicted())
    assert over.timeline.events < made.timeline.events
    for width in (40, 72, 150):
        line = line_over(made, over, width)
        for x, point in enumerate(c.columns(made, width)):
            near = [one.total for one in c.columns(made, width)[max(0, x - 2) : x + 3]]
            assert min(near) - 2**30 <= line[x] <= max(near) + 2**30, (width, x, point.total)
        assert max(line) == over.peak_bytes == made.peak_bytes


def test_what_is_higher_in_one_phase_is_higher_there_and_nowhere_else():
    first, second = Phase("forward", 0, 0, 10), Phase("step", None, 10, 20)
    small = Timeline((first, second), 20, (Storage(-1, None, 8, "weights", "", "", "", ""),))
    more = (Storage(0, 3, 100, "step_temporaries", "", "", "", ""),)
    large = Timeline((Phase("forward", 0, 0, 4), Phase("step", None, 4, 8)), 8, (*small.storages, *more))
    line = line_over(c.course_of(small), c.course_of(large), 40)
    made = c.course_of(small)
    begins = c.column_of(made, second.first, 40)
    assert max(line[:begins]) == 108
    assert set(line[begins:]) == {8}


def test_a_phase_that_the_prediction_lacks_has_no_line():
    timeline = timelines.decoder()
    made = c.course_of(timeline)
    end = timeline.phases[-1].first
    kept = tuple(
        replace(one, died=one.died if one.died is not None and one.died < end else None)
        for one in timeline.storages
        if one.born < end
    )
    short = c.course_of(Timeline(timeline.phases[:-1], end, kept))
    line = line_over(made, short, 80)
    assert line[-1] is None
    assert line[10] is not None
    assert event_over(made, short, timeline.phases[-1].last - 1) is None


def test_peak_lies_on_peak_and_an_instant_on_that_of_its_phase():
    made, over = c.course_of(timelines.decoder()), c.course_of(timelines.predicted())
    assert event_over(made, over, made.peak_event) == over.peak_event
    for event in range(0, made.timeline.events, 37):
        there = event_over(made, over, event)
        mine, yours = of.phase_at(made.timeline, event), of.phase_at(over.timeline, there)
        assert (
            abs(c.course_of(over.timeline).timeline.phases.index(yours) - made.timeline.phases.index(mine))
            <= 1
        )


def test_the_predicted_figures_have_the_paths_of_the_table():
    timeline = timelines.decoder()
    event = of.peak(timeline)[0]
    made = table(of.alive(timeline, event), event)
    found = forecast_of(made)
    assert found.bytes == made.bytes
    for item in made.shown:
        assert found.size("module", item.path) == item.node.bytes


def test_what_only_the_prediction_has_is_a_line_at_zero():
    def storage(row: str, module: str) -> Storage:
        return Storage(0, None, 64, row, module, "mm", "4x4", "float32")

    made = table([storage("weights", "fc")], 0)
    predicted = table([storage("weights", "fc"), storage("operator_scratch", "loss")], 0)
    both = joined(made, predicted)
    lines = {one.label: one.bytes for one in both.forests["category"]}
    assert lines == {"weights": 64, "operator scratch": 0}
    assert both.bytes == 64
    assert forecast_of(predicted).size("category", ("operator scratch",)) == 64


async def test_p_lays_the_prediction_over_the_chart_and_takes_it_away():
    app = opened(source := world(300 * MIB))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "tab")
        before = await read(app, pilot)
        await pilot.press("p")
        rows = await read(app, pilot)
        assert source.started == []
        assert "● PEAK  predicted 14.052, measured 13.759 GiB, difference -0.293" in rows[2]
        assert "predicted 14.052, measured 13.759, -0.293" in rows[4]
        assert any("· predicted 14.052" in row for row in rows)
        chart = rows[5:14]
        assert chart[0].count("·") == 4
        assert any("·▓" in row for row in chart)
        await pilot.press("left", "left")
        rows = await read(app, pilot)
        assert "● INSTANT  predicted" in rows[2]
        await pilot.press("enter", "p")
        assert (await read(app, pilot))[:20] == before[:20]
        assert source.read.count(f"runs/{sample.PREDICTION}.timeline.json") == 1


async def test_predicted_and_measured_stand_beside_each_other_in_what_is_alive():
    app = opened(world(300 * MIB))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "tab", "tab")
        await read(app, pilot)
        await pilot.press("p")
        rows = await read(app, pilot)
        assert rows[4].split() == ["module,", "GiB", "tensors", "predicted", "measured", "difference"]
        loss = next(row for row in rows if row.startswith("► loss"))
        assert loss.split()[2:] == ["2", "3.360", "3.067", "-0.293"]
        await pilot.press("v")
        rows = await read(app, pilot)
        row = next(row for row in rows if "retained activations" in row)
        assert row.split()[-3:] == ["8.774", "8.774", "0"]


async def test_without_a_measurement_the_predicted_timeline_stands_alone_as_a_line():
    app = opened(source := world(measured=False))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        rows = await read(app, pilot)
        assert source.read == []
        assert "● FITS, by prediction" in rows[2]
        assert "Tab shows its timeline and what is alive at its peak." in "\n".join(rows)
        await pilot.press("tab")
        rows = await read(app, pilot)
        assert "○ PREDICTED PEAK  13.759 GiB requested, backward of micro-batch 2" in rows[2]
        chart = "".join(rows[5:14])
        assert "·" in chart
        assert not set("█▓▒░") & set(chart)
        await pilot.press("tab")
        rows = await read(app, pilot)
        assert any(row.startswith("  = requested") and row.rstrip().endswith("13.759") for row in rows)


async def test_a_predicted_timeline_that_is_gone_says_so_below_the_chart():
    source = world()
    source.lines = {}
    source.line = None
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        source.lines = {"runs/p.timeline.json": timelines.decoder()}
        await pilot.press("4", "tab")
        await read(app, pilot)
        await pilot.press("p")
        rows = await read(app, pilot)
        assert "of this prediction is not on this machine any more: p predicts again" in " ".join(
            " ".join(rows).split()
        )
        assert "● PEAK  13.759 GiB requested" in rows[2]
        await pilot.press("p")
        await settle(app, pilot)
        assert source.started == [("predict",)]


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 60)], ids=str)
@pytest.mark.parametrize("exact", [False, True])
def test_both_panes_fill_any_terminal_with_a_prediction_over_them(size, exact):
    made, over = c.course_of(timelines.decoder()), c.course_of(timelines.predicted(300 * MIB))
    at, there = made.peak_event, over.peak_event
    predicted = table(of.alive(over.timeline, there), there)
    alive = joined(table(of.alive(made.timeline, at), at), predicted)
    state = ProbeState(
        made,
        moment=c.moment(made, at),
        alive=alive,
        laid=True,
        predicted=over,
        forecast=forecast_of(predicted),
    )
    for pane in (1, 2):
        placed = laid(
            sample.predicted(sample.cuda()), "probe", *size, Cursor(pane=pane), exact=exact, probe=state
        )
        whole = [line.plain for line in placed.lines]
        assert len(whole) == size[1]
        assert max(line.cell_len for line in placed.lines) <= size[0]
        assert pane == 2 or not any("more lines below" in row for row in whole)
        heads = [row for row in whole if "predicted" in row]
        assert heads
    assert canvas_width(size[0]) == size[0] - 8
