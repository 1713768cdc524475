"""The six screens driven by keys, over a project that does not change."""

from __future__ import annotations

import re

import pytest

from app import sample
from app.fakes import FakeSource, opened, probe_events, say, settle
from tui.app import help
from tui.app.app import PeakmarkApp
from tui.app.widgets.trace import TracePart


@pytest.mark.parametrize(
    ("key", "badge"),
    [
        ("1", "● AGREES  124,439,808 parameters by formula and by inventory, difference 0"),
        ("2", "● VERIFIED  9 of 11 pass, 1 note, 1 n/a, 0 fail"),
        ("3", "● FITS  41.244 GiB to spare: process 14.756 of 56.000 GiB (60 less reserve 4)"),
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


@pytest.mark.parametrize("size", [(1, 1), (5, 3), (24, 20), (27, 24), (80, 3)])
async def test_no_terminal_is_too_small_for_any_pane(size):
    app = opened(FakeSource(sample.cuda()))
    async with app.run_test(size=size) as pilot:
        for key in "123456":
            await pilot.press(key, "tab", "b", "tab", "b", "tab", "down", "tab")
            await pilot.pause()
        assert app.return_code is None


@pytest.mark.parametrize("name", help.QUESTIONS)
def test_no_word_of_the_help_is_cut_at_80_columns(name):
    assert len(f"{name}: {help.QUESTIONS[name]}") <= 70
    for term, what in help.FIGURES[name]:
        assert f"{term:<17} {what}" in help.help_lines(name, 72)
