"""The Probe screen by its keys: panes, files read only when looked at, the log, the search."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual import events

from app import sample, timelines
from app.fakes import FakeSource, opened, probe_events, say, settle
from tui.probe import protocol as p

FILES = ("timeline", "instant", "log")


class Counting(FakeSource):
    """Counts what is read."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.read: list[str] = []

    def timeline(self, name):
        self.read.append(name)
        return super().timeline(name)

    def output(self, journal, stamp):
        self.read.append(journal)
        return super().output(journal, stamp)


def source(name: str = "runs/p.timeline.json", **options: object) -> Counting:
    found = sample.cuda()
    probe = {**found.measured.probe, sample.PROBE: replace(sample.cuda_probe(), timeline=name)}
    options = {"line": timelines.decoder(), **options}
    return Counting(replace(found, measured=replace(found.measured, probe=probe)), **options)


async def read(app, pilot) -> list[str]:
    """Whatever is being read has been shown."""
    while workers := [one for one in app.workers if one.group in FILES and not one.is_finished]:
        await app.workers.wait_for_complete(workers)
        await pilot.pause()
    return (await settle(app, pilot)).split("\n")


async def test_the_timeline_is_read_once_and_only_when_its_pane_is_open():
    world = source()
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        await read(app, pilot)
        assert world.read == []
        await pilot.press("tab")
        rows = await read(app, pilot)
        assert "● PEAK  13.759 GiB requested, backward of micro-batch 2" in rows[2]
        assert any(row.startswith(" alive then: 208 storages") for row in rows)
        await pilot.press("tab", "tab", "tab", "tab")
        await read(app, pilot)
        assert world.read == ["runs/p.timeline.json"]


async def test_arrows_move_along_the_time_and_enter_goes_back_to_the_peak():
    app = opened(source())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "tab")
        await read(app, pilot)
        await pilot.press("left", "left", "left")
        rows = await read(app, pilot)
        assert "● INSTANT" in rows[2]
        assert "forward of micro-batch 2" in rows[2]
        assert not any("208 storages" in row for row in rows)
        await pilot.press("tab")
        assert "● ALIVE" in (await read(app, pilot))[2]
        await pilot.press("shift+tab", "enter")
        assert "● PEAK" in (await read(app, pilot))[2]
        app.screen.action_aside(90)  # to the right edge, no further
        assert "step" in (await read(app, pilot))[2]


async def test_the_live_set_folds_sorts_searches_and_changes_its_view():
    app = opened(source())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "tab", "tab")
        rows = await read(app, pilot)
        assert rows[7].split()[:2] == ["►", "*.mlp"]
        await pilot.press("j", "enter")
        assert (await read(app, pilot))[6].split()[:2] == ["►", "loss"]
        await pilot.press("enter", "greater_than_sign")
        await settle(app, pilot)
        assert app.screen.state.alive.order == "count"
        await pilot.press("slash", *"ln_2", "enter")
        assert " transformer.h.*.ln_2: " in (await settle(app, pilot)).split("\n")[22]
        await pilot.press("v")
        assert "  category" in (await settle(app, pilot)).split("\n")[4]
        await pilot.press("slash", *"4", "escape")  # a digit is typed, no step is gone to
        assert app.current_mode == "probe"
        await pilot.press("slash", "ctrl+u", *"lstm", "enter")
        assert "no line of this view has lstm" in " ".join((await settle(app, pilot)).split())


@pytest.mark.parametrize(
    ("world", "said"),
    [
        (source(""), "no timeline was kept of this measurement: r measures again"),
        (source(line=None), "the timeline of this measurement is not on this machine any more: r measures"),
    ],
    ids=["none kept", "gone"],
)
async def test_without_a_timeline_the_panes_show_what_the_project_has(world, said):
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "tab")
        rows = await read(app, pilot)
        assert said in "\n".join(rows)
        assert any(row.startswith("  backward") for row in rows)
        await pilot.press("tab", "slash", "v", "enter")
        assert "retained activations" in "\n".join(await read(app, pilot))


async def test_v_on_the_timeline_shows_the_peaks_of_the_phases():
    app = opened(source())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "tab")
        await read(app, pilot)
        await pilot.press("v")
        assert "each phase at its own peak" in "\n".join(await read(app, pilot))
        await pilot.press("v")
        assert "alive then" in "\n".join(await read(app, pilot))


async def test_o_follows_the_log_of_a_run_and_closes_it():
    world = source(log="\x1b[31mloading\x1b[0m\n")
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "r")
        say(world, *probe_events(2))
        await settle(app, pilot)
        await pilot.press("o")
        rows = await read(app, pilot)
        assert "» OUTPUT  1 line" in rows[2]
        assert rows[3] == " loading"
        assert set(world.read) == {"runs/p-1.jsonl"}
        world.log += "10%\r100%\n"
        rows = await read(app, pilot)
        assert rows[3:5] == [" loading", " 100%"]
        await pilot.press("escape")
        assert "» RUNNING" in (await settle(app, pilot))
        count = len(world.read)
        await read(app, pilot)
        assert len(world.read) == count


async def test_the_log_of_what_is_over_is_read_once():
    world = source(log="done\n")
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "o")
        assert "● OUTPUT  1 line" in (await read(app, pilot))[2]
        await read(app, pilot)
        assert world.read == [f"runs/{sample.PROBE}.jsonl"]


async def test_d_says_what_readings_mean_and_again_where_they_were_read():
    app = opened(source())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "d")
        assert "charged to the child" in "\n".join(await read(app, pilot))
        await pilot.press("d")
        assert "device less others" in "\n".join(await read(app, pilot))


async def test_s_asks_with_the_plan_and_then_starts_a_search_of_its_own():
    world = source()
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "s")
        await pilot.pause()
        assert world.started == []
        await pilot.press("escape", "s")
        await pilot.pause()
        await pilot.press("enter")
        say(world, p.StepStarted("probe"), p.Planned("35 first", 60.0))
        await settle(app, pilot)
        assert (world.started, world.options) == ([("probe",)], [("--search",)])
        await pilot.press("s")
        assert "a run is going on" in await settle(app, pilot)
        say(world, p.RunEnded(0))
        await settle(app, pilot)
        await pilot.press("s")
        await pilot.pause()
        await pilot.press("k")
        await settle(app, pilot)
        assert world.options[-1] == ("--search", "--quick")


async def test_each_finished_candidate_is_taken_in_while_the_search_goes_on():
    world = source()
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "shift+tab", "r")
        say(world, *probe_events(1))
        assert " 20 " not in "\n".join(row[:10] for row in (await read(app, pilot)))
        probes = {**world.project.measured.probe, "p-20261201T150000-d1": sample.cuda_probe(20)}
        world.project = replace(world.project, measured=replace(world.project.measured, probe=probes))
        say(world, p.Planned("20 fits; next 40", 30.0))
        rows = await read(app, pilot)
        assert any(row.startswith(" ●    20 ") for row in rows)
        assert "20 fits; next 40" in rows[2]


async def test_a_burst_of_keys_is_taken_in_the_order_it_comes():
    app = opened(source())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "tab", "tab")
        await read(app, pilot)
        for key, character in (("slash", "/"), ("3", "3"), ("q", "q")):
            app.post_message(events.Key(key, character))
        await settle(app, pilot)
        assert app.current_mode == "probe"
        assert app.screen.state.search.text == "3q"
