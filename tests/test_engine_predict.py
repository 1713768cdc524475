"""The step predict over a child that tells a table: what it is asked, what is saved, and for which device."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import mlp_project
import predictions as made
import pytest
from predictions import GIB, H100, MIB

from tui.engine.context import Context, Options
from tui.engine.device import Device
from tui.engine.outcome import Outcome
from tui.engine.runner import DEVICELESS, STEPS
from tui.engine.steps import placing, predict, predict_target
from tui.errors import RunError, UsageError
from tui.probe.protocol import Failed
from tui.project import save
from tui.project.calibration import Calibration
from tui.project.load import load
from tui.project.measured import Environment, Probe

PROJECT = mlp_project.text(8, "60 GiB", "4 GiB")
LENGTHS = PROJECT.replace("micro = 8", "micro = 8\nlength = { max = 1024 }")


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(
        predict_target.devices, "resolve", lambda *_, **__: Device("cpu", "cpu", "CPU", 64 * GIB)
    )
    file = tmp_path / "tiny.toml"
    file.write_text(PROJECT)
    return file


class World:
    """One run of the step; the child tells the table of ``made.predicted`` for every point."""

    def __init__(
        self, path: Path, *, device: Device | None = None, failure: Failed | None = None, **options: Any
    ):
        self.path, self.failure = path, failure
        self.plans: list[Any] = []
        self.more: dict[str, Any] = {}
        state = path.parent / "state"
        self.context = Context(path, Options(**options), "r", state, device, lambda _: None, lambda _: None)
        self.context.measure = self.child  # type: ignore[method-assign]

    async def child(self, plan: Any, title: str, **_: Any) -> Outcome:
        self.plans.append(plan)
        if self.failure is not None:
            return made.failed(plan, self.failure)
        asked = plan.extra["predict"]
        tables = [made.predicted(**one, semantics=asked["semantics"], **self.more) for one in asked["points"]]
        return made.ended(plan, tables, made.LARGEST if asked["largest"] else None)

    async def run(self) -> Any:
        return await predict.run(self.context)

    @property
    def saved(self) -> list[Any]:
        return [one for _, one in sorted(load(self.path).measured.prediction.items())]

    @property
    def asked(self) -> Any:
        return self.plans[-1].extra["predict"]


def put(path: Path, **tables: Any) -> None:
    save.record(path, lambda measured: dataclasses.replace(measured, **tables))


def test_a_run_of_predict_alone_needs_no_device():
    assert "predict" in STEPS
    assert "predict" in DEVICELESS


async def test_the_child_is_asked_for_the_gpu_that_is_named(path):
    world = World(path, gpu="h100 80gb hbm3", alloc_conf="expandable_segments:True")
    result = await world.run()
    (plan,) = world.plans
    assert (plan.task, plan.device, plan.limit_bytes) == ("predict", "cpu", None)
    assert world.asked == {
        "semantics": "cuda",
        "target": {
            "name": H100,
            "total_bytes": 81559 * MIB,
            "capability": [9, 0],
            "sm_count": 132,
            "threads_per_sm": 2048,
        },
        "allocator": "expandable_segments:True",
        "capacity_bytes": [
            56 * GIB - 615 * MIB,
            56 * GIB - 520 * MIB,
            60 * GIB - 615 * MIB,
            60 * GIB - 520 * MIB,
        ],
        "workspaces": {},
        "points": [{"micro": 8, "accumulate": 1, "length": None}],
        "largest": None,
        "placement": placing.predicted(load(path).spec.placement),
    }
    assert (result.outcome, result.code) == ("fits", 0)


async def test_what_the_child_tells_is_saved_with_the_range_of_the_process(path):
    await World(path, gpu="H100 SXM5").run()
    (one,) = World(path).saved
    assert (one.semantics, one.target, one.target_from, one.worst_phase) == (
        "cuda",
        H100,
        "--gpu",
        "backward",
    )
    peak = one.phases["backward"]
    assert (peak.requested_bytes, peak.allocated_bytes) == (6 * GIB, 6 * GIB + MIB)
    assert peak.rows == {"weights": GIB, "gradients": GIB, "retained_activations": 4 * GIB}
    assert (one.context_low_bytes, one.context_high_bytes) == (520 * MIB, 615 * MIB)
    assert one.assumptions == ("attention kernel: flash (bf16, causal, no mask)",)
    assert one.answered == (".item() at workload.py:57 in loss was told 1.0, 3 times",)
    assert one.unknown["largest"] == "not asked for: --largest"
    assert one.outcome == "fits"


async def test_every_batch_and_length_is_a_point_of_one_child(path):
    path.write_text(LENGTHS)
    world = World(path, gpu="H200", batches=(4, 8), lengths=(512, 1024))
    result = await world.run()
    assert [(one["micro"], one["length"]) for one in world.asked["points"]] == [
        (4, 512), (8, 512), (4, 1024), (8, 1024),
    ]  # fmt: skip
    assert len(world.plans) == 1
    assert [(one.micro_batch, one.length) for one in world.saved] == [
        (4, 512),
        (8, 512),
        (4, 1024),
        (8, 1024),
    ]
    assert result.text == "4 of 4 fit, by prediction"


async def test_one_point_that_does_not_fit_is_a_negative_verdict(path):
    result = await World(path, gpu="H100 PCIe", batches=(8, 400)).run()
    assert (result.outcome, result.code) == ("does-not-fit", 1)
    assert result.text == "1 of 2 fit, by prediction"


async def test_the_largest_is_looked_for_within_the_budget_less_reserve_and_context(path):
    world = World(path, gpu="H100 80GB HBM3", largest=True)
    await world.run()
    limit = 60 * GIB - 4 * GIB - 615 * MIB
    assert world.asked["largest"] == {"reserved_limit_bytes": limit, "upper": None}
    (one,) = world.saved
    assert (one.largest, one.largest_limit_bytes, one.largest_next) == (107, limit, 108)
    assert (one.line_fixed_bytes, one.line_per_sample_bytes, one.line_residual_bytes) == (
        2 * GIB,
        512 * MIB,
        0,
    )


async def test_without_a_budget_the_gpu_itself_is_the_limit(path):
    path.write_text(PROJECT.replace('job = "60 GiB"\nreserve = "4 GiB"\n', ""))
    world = World(path, gpu="80GiB", largest=True)
    await world.run()
    assert world.asked["largest"]["reserved_limit_bytes"] == 80 * GIB - 615 * MIB
    assert "none for this one" in world.saved[0].context_from


async def test_a_calibration_of_the_same_gpu_takes_the_place_of_the_range(path):
    put(path, calibration={"e-1": Calibration(made.AT, "p-1", H100, "2.13.0", 600 * MIB, driver="570.1")})
    await World(path, gpu="H100 80GB HBM3").run()
    await World(path, gpu="A100 SXM 80GB").run()
    own, other = World(path).saved
    assert (own.context_low_bytes, own.context_high_bytes) == (600 * MIB, 600 * MIB)
    assert own.context_from == "calibrated by p-1 (e-1, torch 2.13.0, driver 570.1)"
    assert (other.context_low_bytes, other.context_high_bytes) == (300 * MIB, 600 * MIB)


async def test_a_measured_workspace_of_cublas_takes_the_place_of_the_rule(path):
    own = Calibration(made.AT, "p-1", H100, "2.13.0", 600 * MIB, cublas_bytes=32 * MIB)
    put(path, calibration={"e-1": own})
    world = World(path, gpu="H100 80GB HBM3")
    await world.run()
    assert world.asked["workspaces"] == {"cublas_bytes": 32 * MIB}


async def test_what_cannot_be_predicted_is_told_with_code_4_and_nothing_is_saved(path):
    said = "cannot predict: aten.nonzero in model.router (workload.py:57) has a shape that depends on data"
    world = World(path, gpu="L4", failure=Failed("prediction", said))
    result = await world.run()
    assert (result.outcome, result.code, result.text, world.saved) == ("refused", 4, said, [])


async def test_the_hint_to_measure_instead_names_the_project(path):
    hint = "measure it: peakmark probe; or register a fake kernel for it"
    world = World(path, gpu="L4", failure=Failed("prediction", "cannot predict: aten.nonzero", hint=hint))
    result = await world.run()
    assert result.text == (
        "cannot predict: aten.nonzero; measure it: peakmark probe tiny.toml; or register a fake kernel for it"
    )


async def test_only_what_fits_is_code_0(path):
    path.write_text(PROJECT.replace('job = "60 GiB"\nreserve = "4 GiB"\n', ""))
    unknown = await World(path).run()
    assert (unknown.outcome, unknown.code) == ("unknown", 1)
    path.write_text(mlp_project.text(8, "7 GiB", "500 MiB"))
    reserve = await World(path, gpu="L4").run()
    assert (reserve.outcome, reserve.code) == ("fits-without-reserve", 1)
    path.write_text(PROJECT)
    fits = await World(path, gpu="H100 80GB HBM3").run()
    assert (fits.outcome, fits.code) == ("fits", 0)


async def test_what_the_child_tells_of_a_limit_is_saved(path):
    world = World(path, gpu="H100 80GB HBM3", alloc_conf="expandable_segments:True")
    failed = {
        "phase": "backward", "operator": "mm", "module": "head", "asked_bytes": 5, "allocated_bytes": 6,
        "reserved_bytes": 7, "largest_free_block_bytes": 4, "rule": "fragmentation",
    }  # fmt: skip
    runs = {
        "capacity_bytes": 9,
        "retries": 2,
        "steady_retries": 1,
        "reserved_bytes": 8,
        "out_of_memory": None,
    }
    world.more = {
        "within": [runs, {**runs, "capacity_bytes": 7, "out_of_memory": failed}],
        "allocator": "expandable_segments:True",
        "allocator_rules": "from source, not yet verified",
    }
    await world.run()
    (one,) = world.saved
    assert (one.allocator, one.allocator_rules) == (
        "expandable_segments:True",
        "from source, not yet verified",
    )
    first, second = one.within
    assert (first.capacity_bytes, first.retries, first.steady_retries, first.phase) == (9, 2, 1, "")
    assert (second.phase, second.operator, second.module, second.cause) == (
        "backward", "mm", "head", "fragmentation",
    )  # fmt: skip
    assert (second.asked_bytes, second.allocated_bytes, second.largest_free_block_bytes) == (5, 6, 4)


async def test_in_a_run_that_measures_a_prediction_neither_stops_it_nor_decides(path):
    held = Device("cuda", "GPU-1f0c", H100, 81559 * MIB)
    refused = await World(path, device=held, gpu="L4", failure=Failed("prediction", "cannot predict")).run()
    assert (refused.outcome, refused.code, refused.text) == ("refused", 0, "cannot predict")
    crashed = await World(path, device=held, gpu="L4", failure=Failed("internal", "a fault")).run()
    assert (crashed.outcome, crashed.code, crashed.text) == ("failed", 0, "a fault")
    large = await World(path, device=held, gpu="L4", batches=(400,)).run()
    assert (large.outcome, large.code) == ("does-not-fit", 0)
    path.write_text(PROJECT + "[workload.step]\ncompile = true\n")
    never = await World(path, device=held, gpu="L4").run()
    assert (never.outcome, never.code) == ("refused", 0)


async def test_what_is_never_predicted_is_refused_before_a_child_is_started(path):
    path.write_text(PROJECT + "[workload.step]\ncompile = true\n")
    world = World(path, gpu="L4")
    said = r"cannot predict: workload.step.compile = true.*measure it: peakmark probe tiny\.toml"
    with pytest.raises(RunError, match=said):
        await world.run()
    assert world.plans == []


# --- for which device ------------------------------------------------------------------------------


async def test_the_cpu_is_predicted_for_when_it_is_asked_for_or_the_project_is_for_it(path):
    world = World(path, device=Device("cpu", "cpu", "CPU", GIB))
    await world.run()
    path.write_text(PROJECT + '[environment]\ndevice = "cpu"\n')
    other = World(path)
    await other.run()
    for one in (world, other):
        assert (one.asked["semantics"], one.asked["target"], one.saved[-1].target) == ("cpu", None, "")
    assert "not predicted on the CPU" in other.saved[-1].unknown["context_low_bytes"]
    assert other.saved[-1].outcome == "unknown"


async def test_without_any_gpu_cuda_is_predicted_for_none_in_particular(path):
    world = World(path)
    await world.run()
    assert (world.asked["semantics"], world.asked["target"]) == ("cuda", None)
    assert world.saved[0].target_from == "no GPU is here, none was measured on and none is named: --gpu NAME"


async def test_the_gpu_of_this_machine_comes_before_the_one_last_measured_on(path, monkeypatch):
    place = Environment("NVIDIA L4", "GPU-9", 23034 * MIB, "2.13.0", "3.11", capability="8.9")
    probe = Probe(made.AT, "s", "e-9", "fp32", 8, 1, "fits", device="cuda")
    put(path, environment={"e-9": place}, probe={"p-1": probe})
    await World(path).run()
    card = Device("cuda", "GPU-1f0c", H100, 85_520_809_984)
    monkeypatch.setattr(predict_target.devices, "resolve", lambda *_, **__: card)
    await World(path).run()
    last, here = World(path).saved
    assert (last.target, last.target_from) == ("NVIDIA L4", "measured in e-9")
    assert (here.target, here.target_from) == (H100, "this machine")


async def test_a_gpu_that_the_table_does_not_have_leaves_its_numbers_unknown(path, monkeypatch):
    card = Device("cuda", "GPU-1", "NVIDIA Future 9", 200 * GIB)
    monkeypatch.setattr(predict_target.devices, "resolve", lambda *_, **__: card)
    world = World(path)
    await world.run()
    assert world.asked["target"] == {
        "name": "NVIDIA Future 9", "total_bytes": 200 * GIB, "capability": None, "sm_count": None,
        "threads_per_sm": None,
    }  # fmt: skip


async def test_a_gpu_and_the_cpu_at_once_are_refused(path):
    world = World(path, gpu="L4")
    world.context.options = dataclasses.replace(world.context.options, device="cpu")
    with pytest.raises(UsageError, match="--gpu names a GPU, --device cpu does not"):
        await world.run()


async def test_lengths_of_samples_that_have_none_are_refused(path):
    with pytest.raises(UsageError, match="--length: this project's samples have no length"):
        await World(path, gpu="L4", lengths=(8,)).run()
