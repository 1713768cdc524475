"""The engine of what-if over a child that tells a table: which children are started, what is taken from where."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import predictions as made
import pytest
from predictions import GIB, H100, MIB

from tui.budget import what_if as changes
from tui.engine.context import Context, Options
from tui.engine.device import Device
from tui.engine.outcome import Outcome
from tui.engine.steps import predict_target, what_if, what_if_cache
from tui.errors import ProjectError, RunError, UsageError
from tui.probe.protocol import Failed
from tui.project import save
from tui.project.calibration import Calibration
from tui.project.fingerprint import spec_hash
from tui.project.load import load
from tui.project.paths import runs_folder

TEXT = """\
schema = 1
[workload]
source = "decoder"
args = { layers = 1, heads = 1, width = 8, vocab = 16, context = 64 }
[workload.batch]
micro = 8     # samples
length = 32
[budget]
job = "60 GiB"
reserve = "4 GiB"
"""
GPU = Options(gpu="H100 80GB HBM3")


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    cpu = Device("cpu", "cpu", "CPU", 64 * GIB)
    monkeypatch.setattr(predict_target.devices, "resolve", lambda *_, **__: cpu)
    file = tmp_path / "small.toml"
    file.write_text(TEXT)
    return file


@pytest.fixture
def plans(monkeypatch) -> list[Any]:
    """The plans of every child, which each leave a file as a real one does."""
    found: list[Any] = []

    async def child(self: Context, plan: Any, title: str, **_: Any) -> Outcome:
        found.append(plan)
        Path(plan.journal).parent.mkdir(parents=True, exist_ok=True)
        Path(plan.journal).write_text("")
        return made.ended(plan, [made.predicted(**one) for one in plan.extra["predict"]["points"]])

    monkeypatch.setattr(Context, "measure", child)
    return found


async def ask(path: Path, *scenarios: str, options: Options = GPU, **more: Any) -> Any:
    spec = load(path).spec
    asked = [[changes.parse(word, spec) for word in one.split()] for one in scenarios]
    return await what_if.scenarios(path, asked, options, **more)


def points(plan: Any) -> list[tuple[int, int, int]]:
    return [(one["micro"], one["accumulate"], one["length"]) for one in plan.extra["predict"]["points"]]


async def test_other_batches_lengths_and_accumulations_are_points_of_one_child(path, plans):
    found = await ask(path, "batch=16", "length=64 accumulate=2", "batch=16 budget=30GiB")
    assert [points(plan) for plan in plans] == [[(8, 1, 32), (16, 1, 32), (8, 2, 64)]]
    sizes = [one.then.prediction.phases["backward"].requested_bytes for one in found.comparisons]
    assert sizes == [10 * GIB, 6 * GIB, 10 * GIB]
    assert found.comparisons[2].then.verdict.budget_bytes == 30 * GIB


async def test_another_precision_needs_a_child_of_its_own(path, plans):
    await ask(path, "precision=bf16", "precision=bf16 batch=16")
    assert [(plan.precision, points(plan)) for plan in plans] == [
        ("fp32", [(8, 1, 32)]),
        ("bf16", [(8, 1, 32), (16, 1, 32)]),
    ]


async def test_the_changed_spec_is_what_the_child_is_told(path, plans):
    await ask(path, "optimizer=sgd implementation=foreach checkpoint=Block ranks=2 strategy=fsdp2")
    plan = plans[1]
    assert (plan.optimizer["name"], plan.optimizer["implementation"]) == ("torch.optim.SGD", "foreach")
    assert plan.step["checkpoint"] == ["Block"]
    assert plan.extra["predict"]["placement"]["strategy"] == "fsdp2"
    assert plan.extra["predict"]["target"]["name"] == H100


async def test_nothing_is_saved_and_the_children_leave_no_files(path, plans):
    await ask(path, "batch=16")
    assert plans
    assert path.read_text() == TEXT
    assert list(runs_folder().iterdir()) == []


async def test_asking_again_starts_no_child(path, plans):
    first = await ask(path, "batch=16", "precision=bf16")
    count = len(plans)
    again = await ask(path, "precision=bf16", "batch=16")
    assert len(plans) == count
    assert [one.then.origin for one in again.comparisons] == ["cached", "cached"]
    told, kept = first.comparisons[0].then.prediction, again.comparisons[1].then.prediction
    assert dataclasses.replace(kept, at=told.at) == told


async def test_another_gpu_file_or_allocator_is_asked_for_anew(path, plans):
    await ask(path, "batch=16")
    await ask(path, "batch=16", options=Options(gpu="L4"))
    await ask(path, "batch=16", options=Options(gpu="H100 80GB HBM3", alloc_conf="expandable_segments:True"))
    path.write_text(TEXT.replace("width = 8", "width = 16"))
    await ask(path, "batch=16")
    assert len(plans) == 4


async def test_a_saved_prediction_of_the_same_spec_and_device_is_taken(path, plans):
    spec = spec_hash(load(path))
    for id, micro in (("f-1", 8), ("f-2", 16)):  # what predict --batch 8,16 leaves
        one = made.prediction(spec, micro_batch=micro, length=32)
        save.record(path, lambda measured, id=id, one=one: dataclasses.replace(
            measured, prediction={**measured.prediction, id: one}
        ))  # fmt: skip
    found = await ask(path, "batch=16", "batch=32")
    assert (found.now.origin, found.comparisons[0].then.origin) == ("saved", "saved")
    assert [points(plan) for plan in plans] == [[(32, 1, 32)]]
    other = await ask(path, "batch=16", options=Options(gpu="L4"))
    assert other.now.origin == "predicted"


async def test_a_saved_prediction_of_another_spec_is_not_taken(path, plans):
    one = made.prediction(spec_hash(load(path)), length=32)
    save.record(path, lambda measured: dataclasses.replace(measured, prediction={"f-1": one}))
    found = await ask(path, "precision=bf16")
    assert (found.now.origin, found.comparisons[0].then.origin) == ("saved", "predicted")


async def test_a_calibration_counts_for_what_was_asked_before_it(path, plans):
    await ask(path, "batch=16")
    one = Calibration(made.AT, "p-1", H100, "2.13.0", 600 * MIB)
    save.record(path, lambda measured: dataclasses.replace(measured, calibration={"e-1": one}))
    found = await ask(path, "batch=16")
    then = found.comparisons[0].then
    assert then.prediction.context_low_bytes == then.prediction.context_high_bytes == 600 * MIB


async def test_without_predicting_the_answer_is_there_and_no_child_is_started(path, plans):
    found = await ask(path, "batch=16", predicting=False)
    assert plans == []
    (one,) = found.comparisons
    by_key = {row.key: row for row in one.rows}
    assert by_key["input_batch"].difference == 8 * 32 * 8 * 2
    assert one.then.verdict.word == "UNKNOWN"


async def test_what_cannot_be_predicted_says_why_and_the_others_are(path, plans):
    found = await ask(path, "workload.step.compile=true", "batch=16")
    refused, done = found.comparisons
    assert refused.then.refused.startswith("cannot predict: workload.step.compile = true")
    assert done.then.origin == "predicted"


async def test_a_child_that_fails_keeps_the_points_that_it_told(path, monkeypatch):
    said = "cannot predict: aten.nonzero has a shape that depends on data"

    async def child(self: Context, plan: Any, title: str, **_: Any) -> Outcome:
        tables = [made.predicted(**one) for one in plan.extra["predict"]["points"][:1]]
        return dataclasses.replace(made.failed(plan, Failed("prediction", said)), predicted=tuple(tables))

    monkeypatch.setattr(Context, "measure", child)
    found = await ask(path, "batch=16")
    assert found.now.origin == "predicted"
    assert found.comparisons[0].then.refused == said


async def test_an_interpreter_that_does_not_start_leaves_the_declared_rows(path, monkeypatch):
    async def child(self: Context, plan: Any, title: str, **_: Any) -> Outcome:
        raise RunError("there is no interpreter", hint="name one")

    monkeypatch.setattr(Context, "measure", child)
    found = await ask(path, "batch=16")
    assert found.comparisons[0].then.refused == "there is no interpreter; name one"
    assert found.comparisons[0].rows


async def test_a_child_that_was_stopped_cancels_the_question(path, monkeypatch):
    async def child(self: Context, plan: Any, title: str, **_: Any) -> Outcome:
        return dataclasses.replace(made.ended(plan, []), word="cancelled", sentence="stopped in phase build")

    monkeypatch.setattr(Context, "measure", child)
    with pytest.raises(asyncio.CancelledError):
        await ask(path, "batch=16")


async def test_code_that_nobody_allowed_is_not_run_by_asking(path, plans):
    with pytest.raises(ProjectError, match=r"workload\.optimizer\.name is Python you have not allowed here"):
        await ask(path, "optimizer=mine:Lion")
    assert plans == []


async def test_a_change_that_cannot_be_is_refused_before_any_child(path, plans):
    with pytest.raises(UsageError, match="batch=0"):
        await ask(path, "batch=16", "batch=0")
    assert plans == []


async def test_a_damaged_file_of_the_cache_is_a_prediction_made_again(path, plans):
    await ask(path, "batch=16")
    for file in (path.parent / "state" / "what-if").iterdir():
        file.write_text("at = 3 [")
    await ask(path, "batch=16")
    assert len(plans) == 2


async def test_the_cache_keeps_the_latest_alone(path, plans, monkeypatch):
    monkeypatch.setattr(what_if_cache, "MOST", 2)
    await ask(path, "batch=16", "batch=17", "batch=18")
    assert len(list((path.parent / "state" / "what-if").iterdir())) == 2


def test_an_accepted_change_is_written_where_it_stands_with_its_comment(path):
    seen = load(path)
    what_if.accept(path, [changes.parse("batch=16"), changes.parse("length=64")], seen)
    assert path.read_text() == TEXT.replace("micro = 8 ", "micro = 16 ").replace("length = 32", "length = 64")
