"""Pages as pure functions: every screen at every size, with data as odd as users have it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.text import Text

from app import sample
from app.fakes import probe_events
from app.pages import laid, text
from tui.app.glyphs import ascii_line
from tui.app.live import Live
from tui.app.page import STEPS, Cursor
from tui.project import measured as m

SIZES = [(60, 16), (64, 18), (79, 23), (80, 24), (81, 25), (100, 30), (120, 40), (200, 60)]


def odd() -> sample.SampleProject:
    """NaN losses, brackets and escapes in names, long titles, None wherever a measurement may be missing."""
    found = sample.cuda()
    probe = replace(
        sample.cuda_probe(),
        step_ms=(float("nan"), 118.0, float("inf")),
        step_ms_median=None,
        step_ms_p90=float("nan"),
        samples_per_s=None,
        samples_per_s_low=None,
        samples_per_s_high=None,
        readings={"requested": m.Reading(None, "", "", "", "[/0] not read")},
        failure="",
    )
    bare = m.Setting(effective="", outcome="failed", losses=(float("nan"),) * 3, final_loss=float("inf"))
    precision = replace(
        found.measured.precision["c-20261201T143000-11"],
        noise_floor=None,
        settings={"fp32": bare, "weird[/]": replace(bare, outcome="done", verdict="unusable")},
        loader_samples_per_s=None,
    )
    checks = {"x": m.Check("[b]group[/b]", "name[/0]\x1b[31m", "fail", "expected 界界 found\n\tnothing" * 9)}
    verify = replace(found.measured.verify["v-20261201T140110-02"], checks=checks, outcome="failed")
    title = "[red]a title[/] that goes on " * 20
    return replace(
        found,
        spec=replace(found.spec, title=title),
        measured=replace(
            found.measured,
            inventory=replace(
                sample.inventory(), shared=("a[/0] = b",) * 9, formula_parameters=None, formula_parts={}
            ),
            environment={},
            probe={sample.PROBE: probe},
            precision={"c-1": precision},
            verify={"v-1": verify},
        ),
    )


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("make", [sample.cuda, sample.cpu, sample.empty, odd])
@pytest.mark.parametrize("step", STEPS)
def test_every_screen_fills_the_terminal_exactly(step, make, size):
    project = make()
    for pane in range(4 if step == "probe" else 3 if step == "report" else 1):
        for exact in (False, True):
            made = laid(project, step, *size, Cursor(pane=pane, row=3), exact=exact)
            assert len(made.lines) == size[1]
            assert max(line.cell_len for line in made.lines) <= size[0]
            assert all(isinstance(line, Text) and line.plain.isprintable() for line in made.lines)


@pytest.mark.parametrize("step", STEPS)
def test_the_cursor_reaches_every_row_and_stays_visible(step):
    project = sample.cuda()
    count = laid(project, step, 80, 18).picks
    for row in range(count):
        made = laid(project, step, 80, 18, Cursor(row=row))
        assert made.cursor_y is not None
        assert 3 <= made.cursor_y < 16


def test_a_view_is_a_pure_function():
    assert text(sample.cuda(), "ledger") == text(sample.cuda(), "ledger")


def test_parameters_that_disagree_say_both_and_the_difference():
    found = sample.cuda()
    inventory = replace(sample.inventory(), unique_parameters=163_037_184)
    project = replace(found, measured=replace(found.measured, inventory=inventory))
    shown = text(project, "spec")
    assert "× DISAGREES  163,037,184 in the inventory, 124,439,808 by formula: +38,597,376" in shown
    assert shown.startswith(" 1 × Spec")


def test_a_failed_check_is_said_in_row_three_and_in_the_detail_row():
    shown = laid(odd(), "verify", 80, 24, Cursor(row=0))
    assert "× FAILED" in shown.lines[2].plain
    assert "expected 界界" in shown.lines[22].plain


def test_a_message_stands_in_the_detail_row_alone():
    made = laid(sample.cuda(), "spec", message="written: h100.md")
    assert made.lines[22].plain == " written: h100.md"


def test_a_long_message_takes_the_rows_above_and_nothing_of_it_is_lost():
    said = "half.py:23: batch(n=8, ...) gave 4 samples; return n of them, or every figure is of another batch"
    for project in (sample.cuda(), sample.empty()):
        made = laid(project, "probe", message=said)
        below = " ".join(one.plain.strip() for one in made.lines[-3:-1])
        assert below == said
        assert len(made.lines) == 24


def test_a_message_has_four_rows_at_most_and_a_long_word_is_broken():
    made = laid(sample.cuda(), "ledger", cursor=Cursor(row=99), message="x" * 200)
    assert "".join(one.plain.strip() for one in made.lines[20:23]) == "x" * 200
    assert made.cursor_y is None or made.cursor_y < 20
    made = laid(sample.cuda(), "ledger", message="word " * 200)
    assert [one.plain.startswith(" word") for one in made.lines[18:23]] == [False, True, True, True, True]
    assert made.lines[22].plain.endswith("…")


def test_a_trace_under_a_long_message_is_not_drawn():
    live = Live()
    for event in probe_events(3):
        live.apply(event)
    slots = {slot.name for _, slot in laid(sample.cuda(), "probe", 80, 16, live=live).slots}
    assert slots == {"steps", "allocated"}
    made = laid(sample.cuda(), "probe", 80, 16, live=live, message="word " * 60)
    assert all(y + slot.height <= 11 for y, slot in made.slots)


def test_ascii_lines_keep_their_width():
    for step in STEPS:
        for line in laid(sample.cuda(), step).lines:
            plain = ascii_line(line)
            assert plain.plain.isascii()
            assert len(plain.plain) == line.cell_len


def test_more_settings_than_columns_are_shown_by_tab():
    found = sample.cuda()
    precision = found.measured.precision["c-20261201T143000-11"]
    more = {f"fp8-{n}": precision.settings["tf32"] for n in range(3)}
    precision = replace(precision, settings={**precision.settings, **more})
    project = replace(found, measured=replace(found.measured, precision={"c-1": precision}))
    first = text(project, "precision", cursor=Cursor(pane=0))
    assert "3 more settings: Tab shows the next" in first
    assert "fp8-2" in text(project, "precision", cursor=Cursor(pane=4))
    assert all("fp32" in text(project, "precision", cursor=Cursor(pane=n)) for n in range(5))
