"""Whose ledger is shown: the measurement or the prediction that was picked."""

from __future__ import annotations

from dataclasses import replace

from app import sample, timelines
from app.fakes import FakeSource, opened, settle
from app.pages import text
from tui.app.ledgers import ledger_of, scenarios
from tui.app.page import Cursor
from tui.app.source import World


def measured_and_predicted() -> sample.SampleProject:
    """A probe on the CPU, and a prediction for a GPU made after it."""
    prediction = sample.cuda_prediction(micro_batch=32, accumulate=1, length=None, precision="fp32")
    return sample.predicted(sample.cpu(), prediction)


def test_the_latest_scenario_comes_first_with_device_batch_and_outcome():
    found = scenarios(sample.predicted(sample.cuda()))
    assert found[0].line.startswith(("predicted", "measured"))
    measured = next(one.line for one in found if one.id == sample.PROBE)
    assert measured == "measured  1 Dec 14:12  H100 80GB HBM3    8 x 1,024 x 4, bf16-autocast, fits"
    assert any(one.line.startswith("measured ") and one.line.endswith(", out-of-memory") for one in found)


async def test_a_gpu_prediction_after_a_cpu_probe_has_a_ledger_of_its_own_with_its_badge():
    app = opened(FakeSource(measured_and_predicted()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        assert "heap reserved" in await settle(app, pilot)
        await pilot.press("v")
        await pilot.pause()
        shown = app.screen.shown()
        assert "Whose ledger?" in shown
        assert "● measured" in shown
        assert "H100" in shown
        await pilot.press(*"h100", "enter")
        shown = await settle(app, pilot)
        assert "FITS, by prediction" in shown.split("\n")[2]
        assert "allocator-reserved" in shown
        assert "[backward 13.759 █ worst]" in shown
        await pilot.press("right")
        assert "[backward" not in await settle(app, pilot)
        await pilot.press("escape")
        assert "heap reserved" in await settle(app, pilot)


def test_the_assumptions_are_those_of_the_prediction_that_was_picked():
    project = measured_and_predicted()
    key = next(iter(project.measured.prediction))
    assert "attention kernel: flash" in text(project, "ledger", 80, 40, Cursor(pane=1, chosen=key))


async def test_where_nothing_is_measured_or_predicted_there_is_nothing_to_pick():
    app = opened(FakeSource(sample.empty()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "v")
        assert "r measures, p predicts" in await settle(app, pilot)


def test_a_scenario_that_is_gone_leaves_that_of_the_batch():
    assert ledger_of(sample.cuda(), None, "p-gone").probe_id == sample.PROBE


def test_a_scenario_of_another_spec_is_stale():
    project = sample.cuda()
    old = replace(project.measured.probe[sample.PROBE], spec="sha256:000000000000")
    probes = {**project.measured.probe, "p-20261201T100000-aa": old}
    project = replace(project, measured=replace(project.measured, probe=probes))
    cursor = Cursor(chosen="p-20261201T100000-aa")
    assert "~ STALE" in text(project, "ledger", cursor=cursor, spec=sample.SPEC)
    assert "~ STALE" not in text(project, "ledger", cursor=Cursor(chosen=sample.PROBE), spec=sample.SPEC)


async def test_every_sentence_behind_d_can_be_reached_by_the_keyboard():
    project = sample.predicted(sample.cuda())
    key, one = next(iter(project.measured.prediction.items()))
    assumed = tuple(f"assumption {n} of many" for n in range(40))
    one = replace(one, assumptions=assumed, approximate=("the last sentence",))
    project = replace(project, measured=replace(project.measured, prediction={key: one}))
    app = opened(FakeSource(project))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "d")
        shown = await settle(app, pilot)
        assert "folded" not in shown
        assert "more lines below" in shown
        seen = shown
        for _ in range(8):
            await pilot.press("pagedown")
            seen += await settle(app, pilot)
        for sentence in (*assumed, "the last sentence", "other processes"):
            assert sentence in seen


def test_what_is_not_known_for_one_reason_is_said_once():
    project = sample.predicted(sample.cuda())
    key, one = next(iter(project.measured.prediction.items()))
    why = "the CPU has no caching allocator of torch's"
    names = ("allocated_bytes", "reserved_bytes", "segments", "retries")
    one = replace(one, unknown=dict.fromkeys(names, why))
    project = replace(project, measured=replace(project.measured, prediction={key: one}))
    shown = " ".join(text(project, "ledger", 80, 60, Cursor(pane=1)).split())
    assert shown.count(why) == 1
    assert f"allocated, reserved, segments, retries: {why}" in shown


async def test_s_writes_what_is_shown_and_says_where():
    world = FakeSource(measured_and_predicted())
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "s")
        assert "written: h100.ledger.csv and h100.ledger.md" in await settle(app, pilot)
        assert world.accepted == [("p-20261201T141203-c1",)]


def test_the_real_world_writes_csv_and_markdown_beside_the_project(tmp_path):
    project = replace(sample.cuda(), path=tmp_path / "h100.toml")
    csv, page = World().write_ledger(project, ledger_of(project, None))
    assert (csv.name, page.name) == ("h100.ledger.csv", "h100.ledger.md")
    weights = next(row for row in csv.read_text().splitlines() if row.startswith("weights,"))
    assert "497759232" in weights
    assert "| weights |" in page.read_text()


async def test_temporaries_unfold_into_their_causes():
    line = timelines.decoder()
    project = sample.cuda()
    probe = replace(project.measured.probe[sample.PROBE], timeline="p.timeline")
    probes = {**project.measured.probe, sample.PROBE: probe}
    project = replace(project, measured=replace(project.measured, probe=probes))
    app = opened(FakeSource(project, line=line))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3")
        await settle(app, pilot)
        names = [row.name for section in [app.screen._placed] for row in [section.picked] if row]
        while "step_temporaries" not in names:
            await pilot.press("down")
            names = [app.screen._placed.picked.name]
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        shown = await settle(app, pilot)
        made = app.screen._made()
        causes = [one.cause for one in made.parts if one.row == "step_temporaries"]
        assert causes
        assert all(f"     {cause}" in shown for cause in causes)
        await pilot.press("enter")
        assert f"     {causes[0]}" not in await settle(app, pilot)


def test_without_a_timeline_the_causes_are_not_known():
    cursor = Cursor(turned=frozenset({"step_temporaries"}))
    assert "its causes are n/a: no timeline" in text(sample.cuda(), "ledger", 80, 24, cursor)


def test_what_rests_in_main_memory_has_rows_of_its_own():
    project = sample.cuda()
    placement = replace(project.spec.placement, optimizer="host-pinned")
    project = replace(project, spec=replace(project.spec, placement=placement))
    shown = text(project, "ledger", 120, 44)
    assert "main memory of one rank, GiB" in shown
    assert any(row.startswith("   optimizer state, ") for row in shown.split("\n"))
    last = Cursor(row=1000)
    assert "main memory of one rank" in text(project, "ledger", 80, 24, last)
    assert "main memory of one rank" not in text(sample.cuda(), "ledger", 80, 24, last)
