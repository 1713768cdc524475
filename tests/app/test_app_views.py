"""Pages as pure functions: every screen at every size, with data as odd as users have it."""

from __future__ import annotations

import importlib
from dataclasses import fields, replace

import pytest
from rich.text import Text

from app import sample
from tui.app.frame import Placed, place
from tui.app.glyphs import ascii_line
from tui.app.page import STEPS, Cursor, Scene
from tui.app.steps import marks_of
from tui.app.views import budget_bar, figures
from tui.app.views.ledger import ledger_of
from tui.budget.rows import Row as LedgerRow
from tui.project import measured as m

SIZES = [(60, 16), (64, 18), (79, 23), (80, 24), (81, 25), (100, 30), (120, 40), (200, 60)]


def laid(project, step, width=80, height=24, cursor=None, **scene) -> Placed:
    cursor = cursor or Cursor()
    view = importlib.import_module(f"tui.app.views.{step}")
    made = Scene(project=project, marks=marks_of(project, {}, None), **scene)
    return place(view.page(made, width, height, cursor), made, step, width, height, cursor)


def text(*args, **kwargs) -> str:
    return "\n".join(line.plain.rstrip() for line in laid(*args, **kwargs).lines)


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


def test_wider_adds_columns_and_never_moves_those_before():
    small = text(sample.cuda(), "ledger", 80, 40).split("\n")
    large = text(sample.cuda(), "ledger", 120, 40).split("\n")
    for one, other in zip(small[8:30], large[8:30], strict=True):
        assert other.startswith(one[:64].rstrip())


def test_taller_unfolds_rows_in_place():
    small, large = text(sample.cuda(), "ledger", 80, 24), text(sample.cuda(), "ledger", 80, 40)
    assert "6 more at 0" in small
    assert "   unsharded weights " in large
    assert "   context, kernels, NCCL" in large


def test_the_cpu_ledger_has_the_rows_of_the_heap():
    shown = text(sample.cpu(), "ledger")
    assert "▼ = heap reserved" in shown
    assert "▼ = host total" in shown
    assert "allocator-reserved" not in shown


def test_the_bar_is_the_whole_device():
    made = ledger_of(sample.cuda(), None)
    parts = budget_bar.parts_of(made)
    assert parts is not None
    assert sum(parts.values()) == 85_520_809_984
    assert len(budget_bar.budget_bar(made, 80, figures.GIB)[0].plain) == 79


def test_one_byte_of_a_part_has_a_cell_in_the_bar():
    assert budget_bar._cells([1, 10**12, 0], 10) == [1, 9, 0]


def test_a_ledger_that_does_not_add_up_says_by_how_much():
    found = sample.cuda()
    probe = sample.cuda_probe()
    broken = replace(probe.phases["backward"], rows={"weights": 1})
    probe = replace(probe, phases={**probe.phases, "backward": broken})
    project = replace(found, measured=replace(found.measured, probe={sample.PROBE: probe}))
    shown = text(project, "ledger", 120, 40)
    assert "× DOES NOT ADD UP" in shown
    assert "B are in no row" in shown


def test_a_batch_over_the_reserve_says_how_much_of_it_is_used():
    found = sample.cuda()
    project = replace(found, measured=replace(found.measured, probe={"p-1": sample.cuda_probe(36)}))
    assert "! RESERVE  fits only by using 0.203 GiB of the reserve of 4.000" in text(project, "ledger")


def test_a_batch_over_the_budget_says_what_is_missing():
    found = sample.cuda()
    project = replace(found, measured=replace(found.measured, probe={"p-1": sample.cuda_probe(41)}))
    assert "× NO FIT  3.604 GiB short" in text(project, "ledger")


def test_a_starred_difference_is_more_than_a_mebibyte_and_a_percent():
    from tui.app.views.ledger import _starred

    def row(predicted: int, measured: int) -> LedgerRow:
        return LedgerRow("cached", "cached", "row", None, "", predicted, measured, "", "")

    assert _starred(row(100 * 2**20, 102 * 2**20))
    assert not _starred(row(2**20, 2 * 2**20))
    assert not _starred(row(1000 * 2**20, 1005 * 2**20))


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


def test_an_unknown_figure_gives_its_reason():
    shown = laid(sample.cuda(), "ledger", 120, 40, Cursor(row=22))
    assert "driver-reserved n/a: no NVML v2 here" in shown.lines[38].plain


def test_a_message_stands_in_the_detail_row_alone():
    made = laid(sample.cuda(), "spec", message="written: h100.md")
    assert made.lines[22].plain == " written: h100.md"


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


def test_every_field_of_a_probe_that_may_be_missing_may_be_missing():
    bare = m.Probe(sample.AT, sample.SPEC, "e", "bf16-autocast", 8, 4, "unknown")
    assert {one.name for one in fields(m.Probe)} >= {"phases", "readings"}
    found = sample.cuda()
    project = replace(found, measured=m.Measured(probe={"p-1": bare}))
    for step in STEPS:
        for pane in range(4):
            assert "n/a" in text(project, step, cursor=Cursor(pane=pane)) or step != "probe"
