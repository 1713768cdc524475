"""Runs as the app starts, watches, finds and stops them, with a source that the test drives by hand."""

from __future__ import annotations

from app import sample
from app.fakes import FakeRun, FakeSource, opened, probe_events, say, settle
from tui.app.widgets.trace import StepTrace, TracePart
from tui.errors import RunError
from tui.probe import protocol as p
from tui.project.measured import Measured


async def test_r_runs_the_step_of_the_screen_and_the_run_pane_follows():
    source = FakeSource(sample.cuda())
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "r")
        say(source, *probe_events(14))
        text = await settle(app, pilot)
        assert source.started == [("probe",)]
        rows = text.split("\n")
        assert "4 » Probe" in rows[0]
        assert "» RUNNING  14 of 20, backward   269.1 samples/s so far" in rows[2]
        assert "» steady 14/20" in text
        assert "n/a: hidden in th" in text
        steps = app.screen.query_one("#steps", StepTrace)
        assert steps.display
        drawn = "".join(part._rows[-1] for part in steps.query(TracePart))
        assert drawn.startswith("██ ██ ██ ")
        assert "·····" in drawn


async def test_what_stands_after_a_run_is_what_another_app_shows():
    done = sample.cuda()
    source = FakeSource(sample.SampleProject(done.spec, Measured(inventory=sample.inventory())))
    app = opened(source)
    after = {}
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "r", "r")
        say(source, *probe_events(20))
        await settle(app, pilot)
        source.project = done
        say(source, p.MeasurementEnded("p-1", "done"), p.StepEnded("probe", "done", 0), p.RunEnded(0))
        await settle(app, pilot)
        for key in "123456":
            await pilot.press(key)
            after[key] = await settle(app, pilot)
    again = opened(FakeSource(done))
    async with again.run_test(size=(80, 24)) as pilot:
        for key in "123456":
            await pilot.press(key)
            assert await settle(again, pilot) == after[key]
    assert "● DONE" in after["4"]


async def test_verify_lines_appear_as_they_come():
    source = FakeSource(sample.empty())
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2", "r")
        say(
            source,
            p.StepStarted("verify"),
            p.MeasurementStarted("v-1", "verify", "verify", "one small step", "runs/v-1.jsonl"),
            p.CheckDone("finite", "one small step", "finite", "pass", "loss, 3 gradients"),
            p.CheckDone("place", "one small step", "placement", "fail", "expected cuda:0, found cpu"),
        )
        text = await settle(app, pilot)
        assert "» RUNNING  2 checks done" in text
        assert " ● finite                      loss, 3 gradients" in text
        assert " × placement                   expected cuda:0, found cpu" in text


async def test_a_failed_run_leaves_its_sentence_until_the_next_key():
    source = FakeSource(sample.cuda())
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2", "r")
        say(source, p.StepStarted("verify"), p.RunEnded(4, "the device is busy: run-9 measures on it"))
        assert "the device is busy: run-9 measures on it" in await settle(app, pilot)
        await pilot.press("j")
        assert "device is busy" not in await settle(app, pilot)


async def test_a_run_that_cannot_start_says_why():
    source = FakeSource(sample.cuda(), refused=RunError("the device is busy", hint="wait for it"))
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2", "r")
        await app.workers.wait_for_complete()
        assert "the device is busy; wait for it" in await settle(app, pilot)


async def test_x_stops_the_run_that_is_watched():
    source = FakeSource(sample.cuda())
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "r")
        say(source, *probe_events(2))
        await settle(app, pilot)
        await pilot.press("x")
        say(source, p.RunEnded(143, "stopped by SIGTERM in step probe"))
        await app.workers.wait_for_complete()
        assert len(source.stopped) == 1
        assert "● DONE" in await settle(app, pilot)


async def test_quitting_asks_only_while_something_runs():
    idle = opened(FakeSource(sample.cuda()))
    async with idle.run_test(size=(80, 24)) as pilot:
        await pilot.press("q")
        await pilot.pause()
        assert not idle.is_running

    source = FakeSource(sample.cuda())
    busy = opened(source)
    async with busy.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "r")
        say(source, *probe_events(2))
        await settle(busy, pilot)
        await pilot.press("q")
        await pilot.pause()
        await pilot.press("escape")
        await pilot.pause()
        assert busy.is_running
        await pilot.press("q")
        await pilot.pause()
        await pilot.press("l")
        await pilot.pause()
        assert not busy.is_running
    assert source.stopped == []


async def test_quitting_can_stop_the_run_first():
    source = FakeSource(sample.cuda())
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "r")
        say(source, *probe_events(2))
        await settle(app, pilot)
        await pilot.press("q")
        await pilot.pause()
        await pilot.press("x")
        for _ in range(20):
            await pilot.pause()
            if not app.is_running:
                break
    assert len(source.stopped) == 1


async def test_ctrl_c_quits_the_second_time():
    app = opened(FakeSource(sample.cuda()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+c")
        assert "ctrl+c again quits" in await settle(app, pilot)
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert app.return_code == 130


async def test_a_run_that_was_left_behind_is_offered_and_watched():
    source = FakeSource(sample.cuda(), left_behind=FakeRun())
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        assert "» FOUND  a run left behind: probe, 0:21" in await settle(app, pilot)
        await pilot.press("enter")
        say(source, *probe_events(5))
        assert "» RUNNING  5 of 20" in await settle(app, pilot)
        await pilot.press("1")
        say(source, p.StepStarted("precision"))
        assert "● AGREES" in await settle(app, pilot)


async def test_a_run_that_was_left_behind_can_be_left():
    app = opened(FakeSource(sample.cuda(), left_behind=FakeRun()))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(app, pilot)
        await pilot.press("escape")
        assert "● AGREES" in await settle(app, pilot)


async def test_what_others_did_is_taken_in_at_the_next_step():
    source = FakeSource(sample.empty())
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(app, pilot)
        source.project, source.left_behind = sample.cuda(), FakeRun()
        await pilot.press("3")
        assert "» FOUND" in await settle(app, pilot)
        source.left_behind = None
        await pilot.press("3")
        assert "● FITS" in await settle(app, pilot)


async def test_python_that_is_not_allowed_is_shown_before_it_runs():
    source = FakeSource(sample.cuda(), asked=("workload.source = workload.py   sha256 4be1c0ffee",))
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2", "r")
        await pilot.pause()
        await pilot.press("escape")
        assert "not allowed, so nothing was run" in await settle(app, pilot)
        assert source.started == []
        await pilot.press("r")
        await pilot.pause()
        shown = app.screen.query("LinesView").first().shown()
        assert "sha256 4be1c0ffee" in shown
        await pilot.press("enter")
        await settle(app, pilot)
        assert source.allowed == 1
        assert source.started == [("verify",)]


async def test_without_verify_a_probe_runs_only_when_told_twice():
    source = FakeSource(sample.empty())
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "r")
        assert "Verify has not passed" in await settle(app, pilot)
        assert source.started == []
        await pilot.press("r")
        await settle(app, pilot)
        assert source.started == [("probe",)]


async def test_r_writes_the_report_and_in_its_restore_pane_rehearses_one():
    source = FakeSource(sample.cuda())
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6", "r")
        say(source, p.StepStarted("report"), p.StepEnded("report", "done", 0), p.RunEnded(0))
        await settle(app, pilot)
        await pilot.press("tab", "r")
        say(source, p.StepStarted("restore"))
        assert "» RUNNING" in await settle(app, pilot)
        assert source.started == [("report",), ("restore",)]
