"""A search on a GPU begins where a prediction points: a saved one, one made first, or none when it is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import mlp_project
import predictions as made
import pytest
import test_engine_search as search_tests
from predictions import GIB, H100, MIB

from tui.engine.context import Context, Options
from tui.engine.device import Device
from tui.engine.outcome import Outcome
from tui.engine.steps.search_predicted import predicted_largest
from tui.probe.protocol import Failed, ReadingTaken
from tui.project import save
from tui.project.fingerprint import spec_hash
from tui.project.load import load

PROJECT = mlp_project.text(8, "60 GiB", "4 GiB")
LIMIT = 60 * GIB - 4 * GIB - 615 * MIB
CARD = Device("cuda", "GPU-1f0c", H100, 81559 * MIB)


class World:
    def __init__(self, path: Path, device: Device | None = CARD, failure: Failed | None = None) -> None:
        self.path, self.failure = path, failure
        self.plans: list[Any] = []
        state = path.parent / "state"
        self.context = Context(path, Options(search=True), "r", state, device, lambda _: None, lambda _: None)
        self.context.measure = self.child  # type: ignore[method-assign]

    async def child(self, plan: Any, title: str) -> Outcome:
        self.plans.append(plan)
        if self.failure is None:
            tables = [made.predicted(**one) for one in plan.extra["predict"]["points"]]
            return made.ended(plan, tables, made.LARGEST)
        return made.failed(plan, self.failure)

    async def largest(self) -> tuple[int | None, str]:
        project = load(self.path)
        return await predicted_largest(self.context, project, spec_hash(project), 1, None)


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    file = tmp_path / "tiny.toml"
    file.write_text(PROJECT)
    return file


async def test_a_prediction_is_made_first_and_used_again(path):
    first, second = World(path), World(path)
    micro, said = await first.largest()
    assert micro == 107
    assert said.startswith("prediction f-")
    assert said.endswith("says 107, made in 0.0 s")
    assert first.plans[0].extra["predict"]["largest"] == {"reserved_limit_bytes": LIMIT, "upper": None}
    assert (await second.largest())[0] == 107
    assert second.plans == []


@pytest.mark.parametrize(
    "changes",
    [
        {"largest_limit_bytes": LIMIT - 1},
        {"target": "NVIDIA L4"},
        {"allocator": "expandable_segments:True"},
        {"precision": "bf16"},
        {"largest": None},
    ],
)
async def test_a_saved_prediction_of_something_else_is_not_used(path, changes):
    spec = spec_hash(load(path))
    one = made.prediction(spec, **{"largest": 50, "largest_limit_bytes": LIMIT, **changes})
    save.record(path, lambda measured: dataclasses.replace(measured, prediction={"f-1": one}))
    world = World(path)
    assert (await world.largest())[0] == 107
    assert len(world.plans) == 1


async def test_a_refused_prediction_is_told_and_the_search_goes_on_without(path):
    world = World(path, failure=Failed("prediction", "cannot predict: aten.nonzero in router"))
    micro, said = await world.largest()
    assert micro is None
    assert said == "no prediction to begin with: cannot predict: aten.nonzero in router"


async def test_what_is_never_predicted_is_no_obstacle_to_a_search(path):
    path.write_text(PROJECT + "[workload.step]\ncompile = true\n")
    micro, said = await World(path).largest()
    assert micro is None
    assert "workload.step.compile = true" in said


@pytest.mark.parametrize("device", [None, Device("cpu", "cpu", "CPU", GIB)])
async def test_on_the_cpu_nothing_is_predicted(path, device):
    world = World(path, device)
    assert await world.largest() == (None, "")
    assert world.plans == []


# --- the whole search ------------------------------------------------------------------------------


def on_a_gpu(outcome: Outcome) -> Outcome:
    """``outcome`` with its process as CUDA shows it: by what the whole device has in use."""
    used = [one.bytes for one in outcome.readings if one.name == "process"]
    readings = [
        ReadingTaken(name, "backward", size, "inside", "what", "", size)
        for process in used
        for name, size in (("device_used", process), ("device_total", CARD.total_bytes))
    ]
    return dataclasses.replace(outcome, readings=tuple(readings))


class Searched(search_tests.World):
    """A search whose processes take 100 MiB and 10 a sample, on a GPU, with a prediction of ``says`` samples."""

    def __init__(self, project: Path, says: int | None, **options: Any) -> None:
        super().__init__(project, **options)
        self.says = says
        self.context.device = dataclasses.replace(CARD, others_used_bytes=0, free_bytes=CARD.total_bytes)
        self.context.device_now = lambda: self.context.device  # type: ignore[method-assign]

    async def measure(self, plan: Any, title: str) -> Outcome:
        if plan.task != "predict":
            return on_a_gpu(await super().measure(plan, title))
        self.plans.append(plan)
        tables = [made.predicted(**one) for one in plan.extra["predict"]["points"]]
        return made.ended(plan, tables, made.LARGEST | {"micro": self.says, "unknown": {"micro": "no line"}})


@pytest.fixture
def tight(path, monkeypatch) -> Path:
    monkeypatch.setattr("tui.engine.steps.probe.device_after", lambda context: context.device)
    path.write_text(PROJECT.replace("60 GiB", "1200 MiB").replace("4 GiB", "100 MiB"))
    return path


async def test_a_search_measures_the_predicted_batch_first(tight):
    world = Searched(tight, 96, quick=True)
    await world.run()
    assert world.tried[:2] == [("predict", 8), ("timed", 96)]
    assert world.search.largest == 100
    assert "says 96, made in" in world.told
    assert "96 first (by prediction)" in world.told


async def test_a_search_without_a_predicted_batch_begins_where_it_always_did(tight):
    world = Searched(tight, None, quick=True)
    await world.run()
    assert world.tried[:2] == [("predict", 8), ("timed", 8)]
    assert world.search.largest == 100
    assert "no prediction to begin with: no line" in world.told
