"""A memory snapshot in the app: chart, live set, segments and other settings, by the keyboard alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app import histories, sample
from app.fakes import FakeSource, opened, settle
from tui.app.app import PeakmarkApp
from tui.app.frame import place
from tui.app.glyphs import ascii_line
from tui.app.page import Cursor, Scene
from tui.app.screens import snapshot as screen
from tui.app.screens.ask import completed
from tui.app.snapshot_state import SnapshotState, column_of, columns, moved
from tui.app.views import snapshot
from tui.app.widgets.lines_view import LinesView
from tui.cli import main
from tui.errors import ProjectError, UsageError

PATH = Path("runs/oom.pickle")


def laid(width=80, height=24, exact=False, row=-1, **state):
    state = {"view": histories.history(), "reading": False, **state}
    made = SnapshotState("oom.pickle", row=row, **state)
    page = snapshot.page(made, exact, width, height)
    return place(page, Scene(), "", width, height, Cursor(row=row), head=snapshot.head(made, width))


def rows(**state) -> list[str]:
    return [line.plain.rstrip() for line in laid(**state).lines]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """The cursor need not rest."""
    monkeypatch.setattr(screen, "REST_S", 0.001)


async def read(app, pilot, source, count: int) -> list[str]:
    """The screen once the file was read ``count`` times."""
    while len(source.looked) < count:
        await pilot.pause()
    return (await settle(app, pilot)).split("\n")


def test_the_answer_is_the_instant_and_the_chart_is_as_high_as_what_was_reserved():
    shown = rows()
    assert shown[0].startswith(" snapshot  oom.pickle")
    assert shown[0].endswith("device 0, default allocator")
    assert "● PEAK  3.000 GiB requested, allocated 3.001, reserved 4.000" in shown[2]
    assert shown[4].startswith("  3.3 ┤")
    assert any("█" in row for row in shown[5:14])
    assert any("─" in row[7:] for row in shown[4:8])
    assert any(row.startswith(" ! event 990 asked for 1.500 GiB in vain, fragmentation: ") for row in shown)
    assert any(row.split()[-2:] == ["12", "2.500"] for row in shown)


def test_the_column_of_an_event_is_where_its_point_begins():
    for width in (20, 52, 100, 250):
        shown = columns(histories.points(), width)
        assert len(shown) == width
        assert [one.first for one in shown] == sorted(one.first for one in shown)
        assert max(one.high for one in shown) == 3 * 2**30
        at = column_of(shown, 600)
        assert shown[at].first <= 600
        assert at == 0 or shown[at - 1].first < shown[at].first


def test_every_key_moves_the_cursor_to_another_instant_until_the_edge():
    for width in (52, 250):
        state = SnapshotState("oom.pickle", view=histories.history(), reading=False, event=0)
        seen = [0]
        for _ in range(400):
            event = moved(state, 1, width)
            if event == seen[-1]:
                break
            seen.append(event)
            state = SnapshotState("oom.pickle", view=state.view, reading=False, event=event)
        assert seen == sorted(set(seen))
        assert seen[-1] >= 970


def test_the_live_set_is_by_frame_or_by_size_and_adds_up():
    shown = rows(pane=1)
    assert any(row.split()[:3] == ["model.py:57", "in", "forward"] for row in shown)
    assert any(row.split() == ["=", "requested", "160", "3.000"] for row in shown)
    assert any("223,696,213" in row for row in rows(pane=1, by_size=True))


def test_the_segments_say_what_is_free_and_what_cannot_be_given_back():
    shown = " ".join(" ".join(rows(pane=2)).split())
    assert (
        "1.684 GiB of 4.000 GiB reserved is free; 700.0 MiB of it shares segments with blocks in use" in shown
    )
    assert "large 0 40 3.000 0.684 0.586 ███████▊" in shown
    detail = rows(pane=2, row=0)[22]
    assert detail.startswith(" segment 0x7f0000000000: 2,487,222,272 of 3,221,225,472 B in use")
    assert "n/a: expandable segments, so" in " ".join(rows(pane=2, view=histories.without_places()))


def test_other_settings_say_what_they_would_have_reserved_and_on_what_grounds():
    view = histories.history(settings=("expandable_segments:True",))
    shown = rows(pane=3, view=view, settings=("expandable_segments:True",), row=0)
    line = next(row for row in shown if row.startswith("  expandable_segments:True"))
    assert line.split()[1:] == ["3.001", "3.062", "+0.938"]
    assert "from source, not yet ver" in shown[22]


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 60)], ids=str)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("pane", [0, 1, 2, 3])
def test_panes_fill_any_terminal_also_in_ascii(size, exact, pane):
    view = histories.history(settings=("", "expandable_segments:True"))
    for row in (-1, 1):
        made = laid(*size, exact, row, pane=pane, view=view)
        assert len(made.lines) == size[1]
        assert max(line.cell_len for line in made.lines) <= size[0]
        assert all(ascii_line(line).plain.isascii() for line in made.lines)
        assert all(len(ascii_line(line).plain) == line.cell_len for line in made.lines)


async def test_where_a_snapshot_is_all_that_was_opened_esc_ends_the_app_and_the_palette_has_no_steps():
    source = FakeSource(None, history=histories.history)
    app = PeakmarkApp(None, source, snapshot=PATH)
    async with app.run_test(size=(80, 24)) as pilot:
        shown = await read(app, pilot, source, 1)
        assert shown[0].startswith(" snapshot  oom.pickle")
        offered = {one.title for one in app.get_system_commands(app.screen)}
        assert not any(title[0].isdigit() for title in offered)
        assert "Open a memory snapshot" in offered
        await pilot.press("escape")
        await pilot.pause()
        assert not app.is_running


async def test_a_refusal_of_settings_is_read_to_its_end_and_esc_takes_it_away():
    known = ", ".join(f"setting_{n}_mb" for n in range(12))
    refused = UsageError(f"--alloc-conf: foo is not a setting; known are {known}")

    def history(at, settings):
        return refused if "foo:1" in settings else histories.history(at, settings)

    source = FakeSource(None, history=history)
    app = PeakmarkApp(None, source, snapshot=PATH)
    async with app.run_test(size=(80, 24)) as pilot:
        await read(app, pilot, source, 1)
        await pilot.press("w", *"foo", "colon", "1", "enter")
        shown = " ".join(" ".join(await read(app, pilot, source, 2)).split())
        assert f"! foo is not a setting; known are {known}" in shown
        assert "--alloc-conf" not in shown
        await pilot.press("escape")
        assert "foo" not in await settle(app, pilot)
        assert app.is_running


async def test_a_capacity_is_asked_for_in_the_line_of_the_settings():
    source = FakeSource(None, history=histories.history)
    app = PeakmarkApp(None, source, snapshot=PATH)
    async with app.run_test(size=(80, 24)) as pilot:
        await read(app, pilot, source, 1)
        await pilot.press("w", *"capacity", "space", *"24GiB", "enter")
        await read(app, pilot, source, 2)
        assert source.capacity == 24 * 2**30
        await pilot.press("w", *"capacity", "space", *"lots", "enter")
        assert "lots" in await settle(app, pilot)
        assert len(source.looked) == 2


def test_a_capacity_says_which_settings_get_by_with_it():
    view = replace(histories.history(settings=("", "expandable_segments:True")), capacity=2**34)
    shown = " ".join(" ".join(rows(pane=3, view=view)).split())
    assert "in 16.000 GiB: default fits, expandable_segments:True fits" in shown
    assert "As recorded is what the run itself reserved" in shown


def test_segments_that_are_alike_are_one_row():
    view = histories.history()
    first = view.segments[0]
    some = tuple(replace(first, address=0x1000 * n) for n in range(1, 301))
    shown = rows(pane=2, view=replace(view, segments=some), row=0)
    assert sum(row.startswith("  large") for row in shown) == 1
    assert any("  x 300" in row for row in shown)
    assert shown[22].startswith(" 300 segments alike, the first 0x1000, each: ")


async def test_arrows_move_along_the_time_and_what_is_alive_there_is_looked_up_when_they_rest():
    source = FakeSource(sample.cuda(), history=histories.history)
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        app.open_snapshot(PATH)
        await read(app, pilot, source, 1)
        await pilot.press("left", "left", "left")
        shown = await read(app, pilot, source, 2)
        at = source.looked[-1][0]
        assert 0 < int(at) < 600
        assert "● INSTANT  1.000 GiB requested, allocated 1.001, reserved 4.000" in shown[2]
        assert shown[2].endswith(f"event {at}")
        await pilot.press("enter")
        shown = await read(app, pilot, source, 3)
        assert "● PEAK  3.000 GiB" in shown[2]
        await pilot.press("tab", "v", "j")
        shown = (await settle(app, pilot)).split("\n")
        assert "size, bytes" in shown[4]
        await pilot.press("escape")
        assert app.step_screen is not None


async def test_settings_are_typed_and_replayed_and_a_refusal_leaves_those_before():
    refused = UsageError("there is no setting expandable", hint="see torch")

    def history(at, settings):
        return refused if "expandable" in settings else histories.history(at, settings)

    source = FakeSource(sample.cuda(), history=history)
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        app.open_snapshot(PATH)
        await read(app, pilot, source, 1)
        await pilot.press("w", *"max_split_size_mb", "colon", *"20", "enter")
        shown = await read(app, pilot, source, 2)
        assert source.looked[-1] == ("peak", ("max_split_size_mb:20",))
        assert any(row.startswith("  max_split_size_mb:20") for row in shown)
        await pilot.press("w", *"expandable", "enter")
        shown = await read(app, pilot, source, 3)
        assert "there is no setting expandable" in shown[22]
        await pilot.press("shift+tab", "shift+tab", "shift+tab", "right")
        await read(app, pilot, source, 4)
        assert source.looked[-1][1] == ("max_split_size_mb:20",)


async def test_a_file_that_is_none_says_why():
    wrong = ProjectError("is no memory snapshot", where="oom.pickle", hint="write one with _dump_snapshot")
    source = FakeSource(sample.cuda(), history=lambda at, settings: wrong)
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        app.open_snapshot(PATH)
        shown = " ".join(await read(app, pilot, source, 1))
        assert "× FAILED" in shown
        assert "is no memory snapshot" in shown
        await pilot.press("tab", "left", "enter", "w", "v", "c")
        await settle(app, pilot)
        await pilot.press("escape")
        assert app.step_screen is not None


async def test_the_palette_asks_for_a_path():
    source = FakeSource(sample.cuda(), history=histories.history)
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        assert "Open a memory snapshot" in [one.title for one in app.get_system_commands(app.screen)]
        app.ask_snapshot()
        await pilot.pause()
        await pilot.press(*"q", "colon", "backspace", "backspace", *"oom.pickle")
        assert "> oom.pickle" in app.screen.shown()
        await pilot.press("enter")
        shown = await read(app, pilot, source, 1)
        assert shown[0].startswith(" snapshot  oom.pickle")


def test_the_command_opens_the_app_over_the_file(monkeypatch):
    calls = []
    monkeypatch.setattr("tui.app.run.run_app", lambda project, **how: calls.append((project, how)) or 0)
    assert main(["snapshot", "oom.pickle", "--app", "--ascii"]) == 0
    assert calls == [(None, {"snapshot": Path("oom.pickle"), "ascii": True})]


def test_tab_completes_a_path_as_far_as_it_is_the_same(tmp_path):
    (tmp_path / "first.pickle").touch()
    (tmp_path / "first_half.pickle").touch()
    (tmp_path / "other").mkdir()
    assert completed(f"{tmp_path}/f") == f"{tmp_path}/first"
    assert completed(f"{tmp_path}/o") == f"{tmp_path}/other/"
    assert completed(f"{tmp_path}/none") == f"{tmp_path}/none"
    assert completed(f"{tmp_path}/absent/x") == f"{tmp_path}/absent/x"


async def test_help_over_a_snapshot_is_about_snapshots():
    source = FakeSource(sample.cuda(), history=histories.history)
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        app.open_snapshot(PATH)
        await read(app, pilot, source, 1)
        await pilot.press("question_mark")
        await pilot.pause()
        assert "segments that the allocator holds from the driver" in app.screen.query_one(LinesView).shown()
