"""The six screens driven by keys, with a source that the test drives by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app import sample
from app.fakes import FakeRun, FakeSource, probe_events
from tui.app.app import PeakmarkApp
from tui.app.widgets.trace import StepTrace, TracePart
from tui.errors import RunError
from tui.probe import protocol as p
from tui.project.measured import Measured


def opened(source: FakeSource, **options: object) -> PeakmarkApp:
    return PeakmarkApp(Path("h100.toml"), source, **options)


async def settle(app: PeakmarkApp, pilot) -> str:
    """Everything that is at hand is taken in and drawn; the text of the screen."""
    for _ in range(4):
        await pilot.pause()
    app.screen.redraw()
    await pilot.pause()
    return app.screen.shown()


def say(source: FakeSource, *events: object) -> None:
    for event in events:
        source.queue.put_nowait(event)


@pytest.mark.parametrize(
    ("key", "badge"),
    [
        ("1", "● AGREES  124,439,808 parameters by formula and by inventory, difference 0"),
        ("2", "● VERIFIED  9 of 11 pass, 1 note, 1 n/a, 0 fail"),
        ("3", "● FITS  41.244 GiB to spare   process 14.756 of 56.000 (60 less reserve 4)"),
        ("4", "● DONE  270.3 samples/s (268.1 to 272.2)   process 14.756 GiB, worst backward"),
        ("5", "● GAIN  bf16-autocast: 4.35 x the samples/s of fp32, and less memory"),
        ("6", "● VALIDATED  every figure is from a measurement that passed"),
    ],
)
async def test_a_key_opens_a_step_and_row_three_answers_it(key, badge):
    app = opened(FakeSource(sample.cuda()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(key)
        rows = (await settle(app, pilot)).split("\n")
        assert badge in rows[2]
        assert len(rows) == 24


@pytest.mark.parametrize("key", "123456")
async def test_a_step_without_data_says_what_it_is_for_and_the_next_key(key):
    app = opened(FakeSource(sample.empty()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(key)
        rows = (await settle(app, pilot)).split("\n")
        assert "○ EMPTY" in rows[2]
        assert re.search(r"\br\b", rows[2] + rows[-1])


async def test_b_shows_every_byte_and_again_gib():
    app = opened(FakeSource(sample.cuda()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "b")
        assert "14,773,325,824" in await settle(app, pilot)
        await pilot.press("b")
        assert "13.759" in await settle(app, pilot)


async def test_left_and_right_choose_the_phase_and_the_verdict_stays():
    app = opened(FakeSource(sample.cuda()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "right")
        text = await settle(app, pilot)
        assert "[step 2.293" in text
        assert "FITS  41.244 GiB to spare" in text
        await pilot.press("left", "h")
        assert "[forward 12.796" in await settle(app, pilot)
        await pilot.press("escape")
        assert "[backward 13.759" in await settle(app, pilot)


async def test_enter_unfolds_the_sum_under_the_cursor():
    app = opened(FakeSource(sample.cuda()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await settle(app, pilot)
        assert "   cached  " not in app.screen.shown()
        await pilot.press("G", *["k"] * 3)
        assert "allocator-reserved 15,200,157,696 B" in (await settle(app, pilot)).split("\n")[-2]
        await pilot.press("enter")
        assert "   cached  " in await settle(app, pilot)


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
        await settle(app, pilot)
        await pilot.press("4")
        assert "» RUNNING  5 of 20" in await settle(app, pilot)


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


async def test_another_spec_makes_every_step_stale():
    app = opened(FakeSource(sample.cuda(), print="sha256:ffff00000000"))
    async with app.run_test(size=(80, 24)) as pilot:
        rows = (await settle(app, pilot)).split("\n")
        assert rows[0].count("~") == 6
        assert "~ STALE  the spec has changed since (then 4be1, now ffff)" in rows[2]


async def test_the_batches_pane_opens_the_probe_under_the_cursor():
    app = opened(FakeSource(sample.cuda()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "shift+tab", "G", "enter")
        text = await settle(app, pilot)
        assert "× OUT OF MEMORY  micro-batch 48" in text
        assert "retained activations" in text
        await pilot.press("escape")
        assert "[batches]" in await settle(app, pilot)


async def test_the_report_is_previewed_and_saved():
    source = FakeSource(sample.cuda(), text="# Report\n\nprocess [bold]14.756[/0] GiB\n")
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6", "tab", "tab")
        assert "process [bold]14.756[/0] GiB" in await settle(app, pilot)
        await pilot.press("s")
        assert "written: h100.md" in await settle(app, pilot)


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


async def test_help_says_what_the_figures_mean_before_the_keys():
    app = opened(FakeSource(sample.cuda()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "question_mark")
        await pilot.pause()
        shown = app.screen.query("LinesView").first().shown()
        assert shown.index("requested") < shown.index("fold, unfold")
        await pilot.press("escape")
        await pilot.pause()
        assert "FITS" in app.screen.shown()


async def test_the_palette_opens_by_colon_with_a_still_cursor():
    app = opened(FakeSource(sample.cuda()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("colon")
        await pilot.pause()
        await pilot.pause()
        assert app.screen.query("Input").first().cursor_blink is False


async def test_a_terminal_that_is_too_small_says_what_is_needed():
    app = opened(FakeSource(sample.cuda()))
    async with app.run_test(size=(48, 12)) as pilot:
        text = (await settle(app, pilot)).strip()
        assert text == "peakmark needs 60 x 16, this is 48 x 12: enlarge"
        await pilot.resize_terminal(80, 24)
        assert "AGREES" in await settle(app, pilot)


async def test_the_first_screen_names_commands_and_opens_a_recent_project():
    source = FakeSource(sample.cuda(), known=[("a decoder", "/tmp/h100.toml", "2026-12-01")])
    app = PeakmarkApp(None, source)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await settle(app, pilot)
        assert "peakmark demo" in text
        assert "a decoder" in text
        await pilot.press("d")
        assert "leave with q, then: peakmark demo" in await settle(app, pilot)
        await pilot.press("1")
        assert "AGREES" in await settle(app, pilot)


async def test_the_first_screen_says_why_a_path_cannot_be_opened():
    app = PeakmarkApp(None, FakeSource(None))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("o", *"x.toml", "enter")
        assert "x.toml: no such file; create it" in await settle(app, pilot)


async def test_ascii_only_writes_nothing_else():
    source = FakeSource(sample.cuda())
    app = opened(source, ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        for key in "123456":
            await pilot.press(key)
            assert (await settle(app, pilot)).isascii()
        await pilot.press("4", "r")
        say(source, *probe_events(7))
        await settle(app, pilot)
        rows = [row for part in app.screen.query(TracePart) for row in part._rows]
        assert "".join(rows).strip()
        assert all(row.isascii() for row in rows)
