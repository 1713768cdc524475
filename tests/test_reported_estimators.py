"""Reported faults of estimators: disputed multipliers, wrong precisions, figures of different things compared."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sample_project import CUDA_INVENTORY, CUDA_PROBE, CUDA_SPEC, GIB

from tui import cli
from tui.budget.declared import declared, situation
from tui.budget.ledger import probe_verdict
from tui.budget.params import formula
from tui.budget.prediction import prediction_verdict
from tui.budget.scope import Held, compare
from tui.budget.sharding import STATES, Groups, Options, States, sheet
from tui.budget.sharding_estimates import older_zero2, older_zero3
from tui.budget.verdict import worst_phase
from tui.errors import ProjectError
from tui.project.load import parse
from tui.project.measured import PhasePeak, Reading
from tui.project.model import OptimizerSpec, PlacementSpec, PrecisionSpec
from tui.project.prediction import PredictedPeak, Prediction

P = 10**9


def calc(capsys, *words):
    code = cli.main(["calc", "ranks", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_e01_stage_2_divides_gradients_and_state_and_names_whose_arithmetic_it_is(capsys):
    found = sheet(States(2 * P, 2 * P, 8 * P, 4 * P), "zero2", 8)
    assert found.states_bytes == 2 * P + 14 * P // 8 == 3_750_000_000
    assert {key: found.share(key).divisor for key in STATES} == {
        "weights": 1,
        "gradients": 8,
        "master_weights": 8,
        "optimizer_state": 8,
    }
    assert found.variant.startswith("ZeRO-2 as published")
    assert older_zero2(P, 8).bytes == 4 * P + 16 * P // 8 == 6_000_000_000
    code, said = calc(capsys, "1e9", "--ranks", "8", "--strategy", "zero2", "--dtype", "bf16", "--master")
    assert (code, said["states_bytes"], said["older"]["bytes"]) == (0, 3_750_000_000, 6_000_000_000)
    assert said["older"]["name"] == "DeepSpeed's stage 2 estimator"


def test_e01_the_ledger_declares_the_same_lines():
    inventory = replace(
        CUDA_INVENTORY,
        unique_parameters=P,
        trainable_parameters=P,
        dtypes={"float32": P},
        parameter_bytes=4 * P,
    )
    placed = PlacementSpec(ranks=8, strategy="zero2", master_weights=True)
    spec = replace(CUDA_SPEC, placement=placed, precision=PrecisionSpec(use="bf16"))
    rows = declared(spec, inventory, situation(spec, "cuda"))
    assert sum(rows[key].bytes for key in STATES) == 3_750_000_000
    assert rows["gradients"].text == "1,000,000,000 x 2 B / 8 ranks"


LAYER = 206_000_000
OFFLOADED = Options(host=("weights", "gradients", "optimizer_state"))


@pytest.mark.parametrize("ranks", [2, 4])
def test_e03_with_everything_on_the_host_the_device_share_does_not_depend_on_the_ranks(ranks):
    count = 6_050_000_000
    states = States(2 * count, 2 * count, 8 * count, 4 * count)
    found = sheet(states, "zero3", ranks, OFFLOADED, Groups((2 * LAYER,), ahead=0))
    device = found.states_bytes + found.share("unsharded_weights").bytes
    assert device == 824_000_000 == older_zero3(count, ranks, LAYER, offload_params=True).bytes
    assert found.shrinking == ()
    assert found.share("optimizer_state").host_bytes == 8 * count // ranks


def test_e03_without_offload_the_divided_lines_are_named_as_those_that_shrink(capsys):
    _, said = calc(capsys, "6.05e9", "--ranks", "4", "--strategy", "zero3", "--largest", "206000000")
    assert {key for key, row in said["rows"].items() if row["shrinks"]} == {
        "weights",
        "gradients",
        "optimizer_state",
    }


def test_e06_every_dtype_counts_its_own_bytes_and_an_unknown_one_counts_none():
    spec = replace(CUDA_SPEC, precision=PrecisionSpec(use="fp32"))
    inventory = replace(
        CUDA_INVENTORY,
        unique_parameters=1_001_000,
        trainable_parameters=1_001_000,
        dtypes={"bfloat16": 1_001_000},
    )
    assert declared(spec, inventory, situation(spec))["weights"].bytes == 2_002_000
    strange = replace(inventory, dtypes={"float7_made_up": 1_001_000})
    row = declared(spec, strange, situation(spec))["weights"]
    assert (row.bytes, row.unknown) == (None, "bytes of one float7_made_up element are not known")


@pytest.mark.parametrize("name", ["bfloat16", "half", "fp8", "32"])
def test_e06_a_precision_that_is_not_known_is_an_error_and_never_32_bit(name):
    text = f'schema = 1\n[workload]\nsource = "mlp"\n[precision]\nuse = "{name}"\n'
    with pytest.raises(ProjectError, match=r"precision\.use must be fp32") as caught:
        parse(Path("a.toml"), text.encode())
    assert caught.value.where == "a.toml:5"


def test_e08_in_pure_bf16_weights_gradients_and_both_moments_have_2_bytes_and_there_is_no_master_copy():
    args = {"vocab": 32000, "width": 4096, "layers": 32, "heads": 32, "hidden": 11008, "gated": True}
    args |= {"tied": False, "norm": "rmsnorm", "bias": False, "positions": "rotary", "context": 2048}
    count = formula("decoder", args).total
    assert count == 6_738_415_616  # Llama 7B
    spec = replace(
        CUDA_SPEC,
        workload=replace(CUDA_SPEC.workload, args=args, optimizer=OptimizerSpec()),
        precision=PrecisionSpec(use="bf16"),
    )
    inventory = replace(
        CUDA_INVENTORY,
        unique_parameters=count,
        trainable_parameters=count,
        tensors=291,
        dtypes={"float32": count},
    )
    rows = declared(spec, inventory, situation(spec, "cuda"))
    assert [rows[key].bytes for key in STATES] == [2 * count, 2 * count, 0, 4 * count]
    assert sum(rows[key].bytes for key in STATES) == 53_907_324_928


def test_e10_an_estimate_of_weights_is_never_compared_with_a_pool_that_was_taken_in_advance():
    found = compare(round(8.5 * GIB), "weights", Held(72 * GIB, 80 * GIB, pool_fraction=0.9))
    assert (found.refused, found.difference_bytes, found.pool_bytes) == (True, None, 72 * GIB)
    assert "pre-reserved pool of 72.000 GiB" in found.reason
    assert found.text == "8.500 GiB: the weights alone"


def test_e10_nor_an_estimate_of_states_with_a_process_and_a_pool_is_a_line_of_its_own(capsys):
    common = ("1e9", "--ranks", "2", "--strategy", "ddp", "--process", "72GiB")
    _, said = calc(capsys, *common, "--device-total", "80GiB", "--pool", "0.9")
    assert said["compared"]["refused"]
    assert said["compared"]["pool_bytes"] == 72 * GIB
    _, said = calc(capsys, *common)
    assert said["compared"]["refused"]
    assert said["compared"]["pool_bytes"] is None
    assert said["scope"] == "weights, gradients and optimizer state, without activations"


def test_e10_a_peak_is_compared_with_a_process_that_holds_no_pool():
    assert compare(60 * GIB, "peak", Held(72 * GIB, 80 * GIB)).difference_bytes == 12 * GIB
    assert (
        compare(60 * GIB, "peak", Held(50 * GIB, 80 * GIB, pool_fraction=0.9)).difference_bytes == -10 * GIB
    )
    assert compare(60 * GIB, "peak", Held(70 * GIB, pool_bytes=64 * GIB)).refused
    unread = compare(60 * GIB, "peak", Held(None))
    assert (unread.difference_bytes, unread.reason) == (None, "the process was not read")


@pytest.mark.parametrize(("view", "extra"), [(False, P), (True, 0)])
def test_e11_buckets_hold_the_gradients_once_more_unless_they_are_views(view, extra):
    count = 250_000_000
    states = States(4 * count, 4 * count, 8 * count)
    found = sheet(states, "ddp", 2, Options(gradient_as_bucket_view=view))
    assert found.share("reduction_buckets").bytes == extra
    inventory = replace(
        CUDA_INVENTORY, unique_parameters=count, trainable_parameters=count, dtypes={"float32": count}
    )
    spec = replace(
        CUDA_SPEC,
        placement=PlacementSpec(ranks=2, strategy="ddp", gradient_as_bucket_view=view),
    )
    assert declared(spec, inventory, situation(spec, "cuda"))["reduction_buckets"].bytes == extra


PHASES_GIB = {"build": 26.0, "first.step": 22.0, "step": 19.5, "validate": 17.0, "restore": 23.0}


def test_e14_the_verdict_is_that_of_the_largest_phase_also_when_that_is_the_start():
    sizes = {phase: round(size * GIB) for phase, size in PHASES_GIB.items()}
    peaks = {phase: PhasePeak(size, size, size, size, {"weights": size}) for phase, size in sizes.items()}
    assert worst_phase(peaks) == "build"
    readings = {"process": Reading(max(sizes.values()), "NVML", "")}
    probe = replace(CUDA_PROBE, phases=peaks, worst_phase="build", readings=readings, outcome="does-not-fit")
    spec = replace(CUDA_SPEC, budget=replace(CUDA_SPEC.budget, job=24 * GIB, reserve=0))
    found = probe_verdict(spec, probe)
    assert (found.word, found.worst_phase) == ("DOES NOT FIT", "build")
    without = {phase: peak for phase, peak in peaks.items() if phase != "build"}
    assert worst_phase(without) == "restore"


def test_e14_a_prediction_that_fits_in_its_iterations_does_not_fit_when_its_start_does_not():
    at = datetime(2026, 12, 1, tzinfo=UTC)
    sizes = {phase: round(size * GIB) for phase, size in PHASES_GIB.items()}
    common = {"spec": "sha256:00000000", "precision": "fp32", "micro_batch": 1, "accumulate": 1}
    found = Prediction(
        at=at,
        **common,
        torch="2.13.0",
        semantics="cuda",
        worst_phase="build",
        phases={phase: PredictedPeak(size, size, size) for phase, size in sizes.items()},
        context_low_bytes=GIB // 2,
        context_high_bytes=GIB,
    )
    spec = replace(CUDA_SPEC, budget=replace(CUDA_SPEC.budget, job=25 * GIB, reserve=0))
    assert prediction_verdict(spec, found).word == "DOES NOT FIT"
    steady = {phase: peak for phase, peak in found.phases.items() if phase != "build"}
    assert prediction_verdict(spec, replace(found, phases=steady, worst_phase="restore")).word == "FITS"
