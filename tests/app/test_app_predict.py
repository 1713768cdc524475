"""A prediction in the app: started by p, watched in row 3, its column, its assumptions, the GPU it is for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import sample
from app.fakes import FakeSource, opened, say, settle
from app.pages import laid, text
from tui.app.glyphs import ascii_line
from tui.app.page import Cursor
from tui.app.views import predicting
from tui.budget.prediction import PredictedVerdict
from tui.probe import protocol as p

REFUSED = (
    "h100.toml:12: cannot predict: aten.nonzero in model.router (workload.py:57) has a shape that depends on data; "
    "measure it: peakmark probe"
)


def unmeasured(**changes: object) -> sample.SampleProject:
    """A project in which nothing was measured, but predicted."""
    found = sample.predicted(sample.cuda(), sample.cuda_prediction(**changes))
    return replace(found, measured=replace(found.measured, probe={}, operating={}))


def began(step: str = "predict") -> list[object]:
    return [
        p.RunStarted("run-1", 1, "h100.toml", [step], "none"),
        p.StepStarted(step),
        p.MeasurementStarted("f-1", step, "predict", "8 x 1024 on tensors without values", "runs/f-1.jsonl"),
        p.PhaseEntered("first.forward"),
    ]


async def box(app, pilot) -> str:
    """The text of what lies over the screen."""
    await pilot.pause()
    return app.screen.shown()


@pytest.mark.parametrize("key", ["1", "3", "4"])
async def test_p_starts_a_prediction_and_row_3_says_how_far_it_is(key):
    world = FakeSource(sample.empty())
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(key, "p")
        say(world, *began())
        rows = (await settle(app, pilot)).split("\n")
        assert (world.started, world.options) == ([("predict",)], [()])
        assert "» PREDICTING  8 x 1024 on tensors without values, first.forward" in rows[2]
        app._tick()  # of the clock that stands still between two draws
        assert (await settle(app, pilot)).split("\n")[2].endswith(" 0:19")
        world.project = unmeasured()
        say(world, p.StepEnded("predict", "fits", 0, "fits by prediction"), p.RunEnded(0))
        rows = (await settle(app, pilot)).split("\n")
        assert "PREDICTING" not in rows[2]
        assert rows[22] == " fits by prediction"
        await pilot.press("3")
        rows = (await settle(app, pilot)).split("\n")
        assert "● FITS, by prediction  41.180 to 41.307 GiB to spare of 56.000" in rows[2]


@pytest.mark.parametrize("key", ["2", "5", "6"])
async def test_p_does_nothing_where_no_prediction_is_shown(key):
    world = FakeSource(sample.cuda())
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(key, "p")
        await settle(app, pilot)
        assert world.started == []


async def test_a_refusal_stays_in_row_3_until_the_spec_changes_or_another_prediction_begins():
    world = FakeSource(sample.empty())
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "p")
        say(world, *began(), p.StepEnded("predict", "refused", 4, REFUSED), p.RunEnded(4, REFUSED))
        rows = (await settle(app, pilot)).split("\n")
        assert "× FAILED  cannot predict: aten.nonzero" in rows[2]
        await pilot.press("4")
        shown = " ".join((await settle(app, pilot)).split())
        assert REFUSED in shown
        await pilot.press("3", "p")
        say(world, *began())
        assert "FAILED" not in await settle(app, pilot)


async def test_a_prediction_that_was_stopped_is_no_refusal():
    world = FakeSource(sample.empty())
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "p")
        say(world, *began(), p.StepEnded("predict", "cancelled", 143, "stopped"), p.RunEnded(143, "stopped"))
        assert "○ EMPTY" in await settle(app, pilot)


async def test_a_batch_that_was_opened_is_predicted_itself():
    world = FakeSource(sample.cuda())
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "shift+tab", "j", "enter")
        await settle(app, pilot)
        await pilot.press("p")
        await settle(app, pilot)
        assert world.options == [("--batch", "1")]


async def test_the_gpu_that_was_chosen_is_that_of_every_prediction_of_the_session():
    world = FakeSource(sample.empty())
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "d")
        assert "○ EMPTY  nothing is predicted of this batch: p predicts in about 10 s" in await settle(
            app, pilot
        )
        await pilot.press("enter")
        shown = await box(app, pilot)
        assert "● as the project and this machine say" in shown
        assert "L4   22.494 GiB" in shown
        await pilot.press(*"h100")
        shown = await box(app, pilot)
        assert "L4" not in shown
        await pilot.press("enter")
        assert "p predicts for H100 80GB HBM3" in await settle(app, pilot)
        await pilot.press("p")
        await settle(app, pilot)
        assert world.options == [("--gpu", "H100 80GB HBM3")]
        assert app.gpu == "H100 80GB HBM3"


@pytest.mark.parametrize(
    ("key", "gpu", "options"), [("3", "", "--device cpu"), ("4", "L4", "--gpu L4"), ("1", "", "")]
)
async def test_beside_a_measurement_on_the_cpu_the_prediction_is_of_the_cpu_unless_a_gpu_is_chosen(
    key, gpu, options
):
    world = FakeSource(sample.cpu())
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        app.gpu = gpu
        await pilot.press(key, "p")
        await settle(app, pilot)
        assert world.options == [tuple(options.split())]


def test_a_prediction_for_another_device_than_that_of_the_measurement_is_behind_d():
    found = sample.cpu()
    prediction = sample.cuda_prediction(micro_batch=32, accumulate=1, length=None, precision="fp32")
    project = sample.predicted(found, prediction)
    rows = text(project, "ledger").split("\n")
    assert "d: predicted for H100" in rows[22]
    assert "predicted" not in rows[7]
    behind = text(project, "ledger", cursor=Cursor(pane=1))
    assert "FITS, by prediction" in behind
    assert "retained activations 8.774" in " ".join(behind.split())


async def test_leaving_the_list_of_gpus_changes_nothing():
    app = opened(FakeSource(sample.empty()))
    async with app.run_test(size=(80, 24)) as pilot:
        app.gpu = "L4"
        app.choose_gpu()
        assert "● L4   22.494 GiB" in await box(app, pilot)
        await pilot.press("up", "escape")
        await settle(app, pilot)
        assert app.gpu == "L4"


async def test_d_opens_what_the_prediction_assumes_and_goes_back():
    app = opened(FakeSource(unmeasured()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "d")
        shown = await settle(app, pilot)
        assert " attention kernel: flash (bf16, causal, no mask), 12 times" in shown
        assert " 1.0 to workload.py:57 in loss, 3 times" in shown
        assert " cuDNN convolution workspaces: none in this model" in shown
        await pilot.press("escape")
        assert "FITS, by prediction" in await settle(app, pilot)


def test_without_a_measurement_the_column_of_the_prediction_is_the_ledger():
    rows = text(unmeasured(), "ledger").split("\n")
    assert any(row.split()[:5] == ["weights", "0.464", "0.464", "-", "-"] for row in rows)
    process = next(row for row in rows if row.startswith("► = process"))
    assert process.split()[3:6] == ["-", "14.6-14.9", "-"]
    assert process.endswith("+.5-.7 context")
    total = next(row for row in rows if row.startswith("► = device total"))
    assert total.split()[4:7] == ["-", "79.647", "-"]
    assert rows[4].startswith(" GiB ▒ others n/a █ job 14.820 · free 41.180 ░ reserve 4.000")
    assert "[backward 13.759 █ worst]" in "\n".join(rows)
    assert "device total" in "\n".join(rows)  # a GPU's rows on whatever machine this is


def test_beside_a_measurement_the_difference_is_from_the_prediction_and_its_cause_is_named():
    project = sample.predicted(sample.cuda())
    rows = text(project, "ledger", 120, 40).split("\n")
    cached = next(row for row in rows if row.startswith("   cached"))
    assert cached.split()[1:5] == ["-", "0.385", "0.395", "+0.010*"]
    assert "* " in cached.partition("+0.010*")[2]
    process = next(row for row in rows if "= process" in row)
    assert process.split()[3:7] == ["-", "14.6-14.9", "14.756", "within"]
    assert "predicted: 14.693 to 14.820" in process
    assert "● FITS  41.244 GiB to spare" in "\n".join(rows)


@pytest.mark.parametrize(
    ("changes", "badge"),
    [
        ({"target_total_bytes": 24 * 2**30}, "FITS, by prediction"),
        ({"context_high_bytes": None}, "? UNKNOWN, by prediction"),
    ],
)
def test_what_is_not_known_leaves_the_badge_unknown(changes, badge):
    found = unmeasured(**changes)
    spec = replace(found.spec, budget=replace(found.spec.budget, job=None))
    assert badge in text(replace(found, spec=spec), "ledger")


def test_without_a_gpu_and_a_budget_row_3_says_how_to_name_one():
    found = unmeasured(target="", target_total_bytes=None)
    spec = replace(found.spec, budget=replace(found.spec.budget, job=None))
    assert "no budget is set, no GPU named: 3 d Enter names one" in text(replace(found, spec=spec), "ledger")


def test_a_batch_that_is_too_large_says_what_it_needs():
    found = unmeasured(target_total_bytes=12 * 2**30)
    spec = replace(found.spec, budget=replace(found.spec.budget, job=None))
    assert "× NO FIT, by prediction" in text(replace(found, spec=spec), "ledger")


@pytest.mark.parametrize("step", ["ledger", "probe", "spec"])
@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=str)
@pytest.mark.parametrize("exact", [False, True])
def test_pages_of_a_prediction_fill_any_terminal(step, size, exact):
    for project in (unmeasured(), sample.predicted(sample.cuda())):
        for pane in (0, 1):
            made = laid(project, step, *size, Cursor(pane=pane if step == "ledger" else 0), exact=exact)
            assert len(made.lines) == size[1]
            assert max(line.cell_len for line in made.lines) <= size[0]
            assert all(ascii_line(line).plain.isascii() for line in made.lines)


def test_where_the_cache_must_be_emptied_the_badge_says_how_often_and_what_is_left_then(monkeypatch):
    found = PredictedVerdict(
        "FITS", "backward", 12 * 2**30, 20 * 2**30, 2**30, 7 * 2**30, "entered", retries=3
    )
    monkeypatch.setattr(predicting, "prediction_verdict", lambda spec, one: found)
    project = unmeasured()
    spec = replace(project.spec, budget=replace(project.spec.budget, job=20 * 2**30, reserve=2**30))
    row = text(replace(project, spec=spec), "ledger").split("\n")[2]
    assert "FITS, by prediction  7.000 GiB to spare of 19.000, cache emptied 3 x" in row


def test_a_prediction_that_does_not_fit_says_where_and_why(monkeypatch):
    why = "backward asks 6.1 GiB in mm, by fragmentation"
    found = PredictedVerdict("DOES NOT FIT", "backward", None, 20 * 2**30, 0, None, "entered", why=why)
    monkeypatch.setattr(predicting, "prediction_verdict", lambda spec, one: found)
    assert "NO FIT, by prediction  " + why in text(unmeasured(), "ledger").split("\n")[2]
