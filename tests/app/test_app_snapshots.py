"""How the screens look, at both sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import histories, sample, test_app_laid_over, test_app_what_if
from app.fakes import FakeSource, probe_events
from app.test_app_modules import counted, gpt2
from app.test_app_predict import unmeasured
from app.test_app_probe_screen import read
from app.test_app_probe_screen import source as with_timeline
from tui.app.app import PeakmarkApp

SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["small", "large"])


@SIZES
@pytest.mark.parametrize("key", "123456")
def test_step(snap_compare, key, size):
    app = PeakmarkApp(Path("h100.toml"), FakeSource(sample.cuda()), theme_name="dark")
    assert snap_compare(app, terminal_size=size, press=[key, "j"])


def test_a_probe_that_runs(snap_compare):
    source = FakeSource(sample.cuda())

    async def measure(pilot):
        await pilot.press("4", "r")
        for event in probe_events(14):
            source.queue.put_nowait(event)
        for _ in range(4):
            await pilot.pause()
        pilot.app._timer.pause()
        pilot.app.live.elapsed_s = 19.0
        pilot.app.screen.redraw()
        await pilot.pause()

    app = PeakmarkApp(Path("h100.toml"), source, theme_name="dark")
    assert snap_compare(app, terminal_size=(80, 24), run_before=measure)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_field_that_is_edited(snap_compare, theme):
    app = PeakmarkApp(Path("h100.toml"), FakeSource(sample.cuda()), theme_name=theme)
    keys = ["j", "j", "j", "enter", "backspace", "x" if theme == "light" else "6", "left"]
    assert snap_compare(app, terminal_size=(80, 24), press=keys)


def test_the_module_tree(snap_compare):
    app = PeakmarkApp(Path("h100.toml"), counted(gpt2()), theme_name="dark")

    async def browse(pilot):
        await pilot.press("t")
        await pilot.app.workers.wait_for_complete()
        await pilot.press("j", "j", "j")
        await pilot.pause()

    assert snap_compare(app, terminal_size=(80, 24), run_before=browse)


@pytest.mark.parametrize(
    ("pane", "theme", "size"),
    [
        ("timeline", "dark", (80, 24)),
        ("timeline", "light", (120, 40)),
        ("timeline", "contrast", (60, 16)),
        ("alive", "dark", (80, 24)),
        ("batches", "ansi", (120, 40)),
    ],
    ids=["timeline-small", "timeline-light", "timeline-least", "alive", "batches-ansi"],
)
def test_a_pane_of_the_probe(snap_compare, pane, theme, size):
    app = PeakmarkApp(Path("h100.toml"), with_timeline(), theme_name=theme)

    async def browse(pilot):
        await pilot.press("4", *["tab"] * (1 + ("timeline", "alive", "batches").index(pane)))
        await read(app, pilot)
        await pilot.press("j", *["right"] * 4 * (pane == "timeline"))
        await read(app, pilot)

    assert snap_compare(app, terminal_size=size, run_before=browse)


@pytest.mark.parametrize("theme", ["light", "ansi"])
def test_theme(snap_compare, theme):
    app = PeakmarkApp(Path("h100.toml"), FakeSource(sample.cuda()), theme_name=theme)
    assert snap_compare(app, terminal_size=(80, 24), press=["3", "j"])


@pytest.mark.parametrize(
    ("keys", "theme", "size"),
    [
        (["3"], "dark", (80, 24)),
        (["3"], "light", (120, 40)),
        (["3", "d"], "dark", (80, 24)),
        (["3", "d", "enter"], "contrast", (80, 24)),
    ],
    ids=["ledger-small", "ledger-light", "assumptions", "gpus"],
)
def test_a_prediction_without_a_measurement(snap_compare, keys, theme, size):
    app = PeakmarkApp(Path("h100.toml"), FakeSource(unmeasured()), theme_name=theme)
    assert snap_compare(app, terminal_size=size, press=keys)


@pytest.mark.parametrize(
    ("pane", "measured", "theme", "size"),
    [
        ("timeline", True, "dark", (80, 24)),
        ("timeline", True, "light", (120, 40)),
        ("timeline", False, "ansi", (80, 24)),
        ("alive", True, "dark", (80, 24)),
    ],
    ids=["over-small", "over-light", "alone-ansi", "alive"],
)
def test_a_predicted_timeline(snap_compare, pane, measured, theme, size):
    world = test_app_laid_over.world(300 * 2**20, measured)
    app = PeakmarkApp(Path("h100.toml"), world, theme_name=theme)

    async def browse(pilot):
        await pilot.press("4", *["tab"] * (1 + ("timeline", "alive").index(pane)))
        await test_app_laid_over.read(app, pilot)
        await pilot.press(*["p"] * measured)
        await test_app_laid_over.read(app, pilot)

    assert snap_compare(app, terminal_size=size, run_before=browse)


@pytest.mark.parametrize(
    ("panes", "theme", "size"),
    [(0, "dark", (80, 24)), (0, "light", (120, 40)), (2, "dark", (80, 24))],
    ids=["timeline", "timeline-light", "segments"],
)
def test_a_memory_snapshot(snap_compare, panes, theme, size):
    source = FakeSource(None, history=histories.history)
    app = PeakmarkApp(None, source, theme_name=theme, snapshot=Path("oom.pickle"))

    async def browse(pilot):
        while not source.looked:
            await pilot.pause()
        await pilot.press(*["tab"] * panes, "j")
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=browse)


@pytest.mark.parametrize(
    ("keys", "theme", "size"),
    [
        (["w"], "dark", (80, 24)),
        (["w", "enter", "backspace", "9", "enter"], "dark", (80, 24)),
        (["w", "enter", "backspace", "9", "enter"], "light", (120, 40)),
    ],
    ids=["form", "compared", "compared-light"],
)
def test_what_if(snap_compare, keys, theme, size):
    world = FakeSource(unmeasured(), future=test_app_what_if.larger())
    app = PeakmarkApp(Path("h100.toml"), world, theme_name=theme)

    async def change(pilot):
        await test_app_what_if.compared(app, pilot, *keys[1:])

    assert snap_compare(app, terminal_size=size, run_before=change)
