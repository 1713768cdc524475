"""Reported faults whose figures other tests hold elsewhere, here as a ledger or a comparison shows them."""

from dataclasses import replace

import pytest
from sample_project import CPU_SPEC, CUDA_INVENTORY, CUDA_PROBE, CUDA_SPEC

from tui.budget.comparable import void
from tui.budget.declared import declared, situation
from tui.budget.host_ledger import host_ledger
from tui.budget.reserve import learned
from tui.budget.sharding import STATES
from tui.project.inventory import Inventory
from tui.project.measured import Measured, PhasePeak
from tui.project.model import OptimizerSpec, PlacementSpec, PrecisionSpec

MIB = 2**20


def zero3(ranks):
    count = 6_050_000_000
    inventory = replace(
        CUDA_INVENTORY,
        unique_parameters=count,
        trainable_parameters=count,
        parameter_bytes=4 * count,
        dtypes={"float32": count},
    )
    placed = PlacementSpec(
        ranks=ranks,
        strategy="zero3",
        master_weights=True,
        weights="host",
        gradients="host",
        optimizer="host",
    )
    spec = replace(CUDA_SPEC, placement=placed, precision=PrecisionSpec(use="bf16"))
    rows = declared(spec, inventory, situation(spec, "cuda"))
    return rows, {row.key: row.declared for row in host_ledger(spec, Measured(inventory=inventory))}


def test_e03_states_on_the_host_are_0_on_the_device_at_any_number_of_ranks_and_only_the_host_gets_less():
    (two, host_of_two), (four, host_of_four) = zero3(2), zero3(4)
    for rows in (two, four):
        assert {key: rows[key].bytes for key in STATES} == dict.fromkeys(STATES, 0)
        # what is whole while a layer works does not shrink, and is not taken for 0
        assert rows["unsharded_weights"].bytes is None
        assert "not declared" in rows["unsharded_weights"].unknown
    keys = ("host_weights", "host_gradients", "host_master_weights", "host_optimizer")
    counters = 148 * 4  # a step for each tensor, which no rank divides
    assert sum(host_of_two[key] or 0 for key in keys) == 16 * 6_050_000_000 // 2 + counters
    assert sum(host_of_four[key] or 0 for key in keys) == 16 * 6_050_000_000 // 4 + counters


def test_a08_two_peaks_of_one_process_are_one_peak_and_what_was_there_before():
    one, other = (
        replace(
            CUDA_PROBE,
            micro_batch=micro,
            start_bytes=start * MIB,
            phases={"forward": PhasePeak(peak * MIB, peak * MIB, peak * MIB, rows={})},
        )
        for micro, start, peak in ((4, 0, 1686), (8, 340, 2026))
    )
    grown = other.phases["forward"].requested_bytes - one.phases["forward"].requested_bytes
    assert grown == 340 * MIB
    assert "did not begin with the same bytes alive" in void([one, other])
    assert void([one, replace(other, start_bytes=one.start_bytes)]) == ""


def test_a12_the_share_to_keep_free_is_between_what_failed_and_what_passed():
    total = 24 * 2**30

    def shares(*passed):
        trials = [(round(share * total), share in passed) for share in (0.88, *passed)]
        return [round((size or 0) / total, 2) for size in learned(total, trials)]

    assert shares(0.80) == [0.12, 0.20]
    assert shares(0.80, 0.85) == [0.12, 0.15]  # until a narrower one passes


def counted(model):
    from tui.probe import inventory

    return Inventory("sha256:00000000", **inventory.take(model))


def with_adam(**args):
    work = replace(CPU_SPEC.workload, optimizer=OptimizerSpec("torch.optim.Adam", args=args))
    return replace(CPU_SPEC, workload=work, precision=PrecisionSpec(use="fp32"))


def test_e06_a_model_that_is_built_in_bf16_is_counted_and_declared_at_2_bytes():
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(1000, 1000, device="meta", dtype=torch.bfloat16)
    spec = with_adam()
    found = counted(model)
    assert found.parameter_bytes == 2_002_000
    rows = declared(spec, found, situation(spec))
    assert [rows[key].bytes for key in ("weights", "gradients")] == [2_002_000, 2_002_000]
    assert rows["optimizer_state"].bytes == 2 * 2_002_000 + 2 * 4


@pytest.mark.parametrize("betas", [[0.9, 0.999], [0.0, 0.999]])
def test_o05_and_o06_a_counted_model_declares_both_moments_of_the_trained_layer_alone(betas):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(
        torch.nn.Linear(1000, 1000, device="meta"), torch.nn.Linear(1000, 10, device="meta")
    )
    model[0].requires_grad_(False)
    spec = with_adam(betas=betas)
    rows = declared(spec, counted(model), situation(spec))
    sizes = [rows[key].bytes for key in ("weights", "gradients", "optimizer_state")]
    assert sizes == [4_044_040, 40_040, 80_088]
