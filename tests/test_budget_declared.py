from dataclasses import replace

import pytest
from sample_project import CPU_INVENTORY, CPU_PARAMETERS, CPU_SPEC, CUDA_INVENTORY, CUDA_SPEC

from tui.budget.declared import counter_note, declared, situation
from tui.project.model import OptimizerSpec, PlacementSpec, PrecisionSpec

# Linear(1000, 1000) and Linear(1000, 10), only the second one trained
FROZEN = replace(
    CPU_INVENTORY,
    unique_parameters=1_011_010,
    tensors=4,
    trainable_parameters=10_010,
    trainable_tensors=2,
    dtypes={"float32": 1_011_010},
)
ADAM = OptimizerSpec(name="torch.optim.Adam")


def rows(spec, inventory, device="cpu", phase=None):
    return declared(spec, inventory, situation(spec, device, phase))


def with_optimizer(spec, optimizer):
    return replace(spec, workload=replace(spec.workload, optimizer=optimizer))


def with_precision(spec, use):
    return replace(spec, precision=PrecisionSpec(use=use))


def test_rows_follow_from_parameters_and_say_how():
    found = rows(CUDA_SPEC, CUDA_INVENTORY, "cuda")
    assert (found["weights"].bytes, found["weights"].text) == (497_759_232, "124,439,808 x 4 B")
    assert found["gradients"] == found["weights"]
    assert (found["optimizer_state"].bytes, found["optimizer_state"].text) == (
        995_518_464,
        "124,439,808 x 8 B",
    )
    assert (found["input_batch"].bytes, found["input_batch"].text) == (131_072, "8 x 1024 x 8 B x 2")
    assert (found["buffers"].bytes, found["master_weights"].bytes) == (0, 0)


def test_pure_half_precision_halves_weights_gradients_and_state_but_autocast_does_not():
    half = rows(with_precision(CUDA_SPEC, "bf16"), CUDA_INVENTORY, "cuda")
    assert [half[key].bytes for key in ("weights", "gradients", "optimizer_state")] == [
        2 * 124_439_808,
        2 * 124_439_808,
        4 * 124_439_808,
    ]
    assert (
        rows(with_precision(CUDA_SPEC, "fp16-autocast"), CUDA_INVENTORY, "cuda")["weights"].bytes
        == 497_759_232
    )


def test_adam_has_no_state_before_the_first_step_and_8_bytes_a_parameter_after_it():
    inventory = replace(
        CPU_INVENTORY, unique_parameters=1_001_000, trainable_parameters=1_001_000, tensors=2, dtypes={}
    )
    spec = with_optimizer(CPU_SPEC, ADAM)
    assert rows(spec, inventory, phase="first.backward")["optimizer_state"].bytes == 0
    # on the CPU a counter of 4 bytes for each of the two tensors is in the row
    after = rows(spec, inventory, phase="step")["optimizer_state"]
    assert (after.bytes, after.text) == (8_008_008, "1,001,000 x 8 B + 2 x 4 B")


def test_frozen_parameters_have_neither_gradients_nor_state():
    found = rows(with_optimizer(CPU_SPEC, ADAM), FROZEN)
    assert found["weights"].bytes == 4_044_040
    assert found["gradients"].bytes == 40_040
    assert found["optimizer_state"].bytes == 80_088


def test_state_is_unknown_when_the_trained_tensors_were_not_counted():
    found = rows(with_optimizer(CPU_SPEC, ADAM), replace(FROZEN, trainable_tensors=None))["optimizer_state"]
    assert found.bytes is None
    assert found.unknown == "how many tensors are trained was not counted, each has a counter"


def test_both_moments_exist_whatever_the_betas_are():
    spec = with_optimizer(CUDA_SPEC, OptimizerSpec(args={"betas": [0.0, 0.999]}))
    assert rows(spec, CUDA_INVENTORY, "cuda")["optimizer_state"].bytes == 995_518_464


def test_step_counters_stay_on_the_cpu_unless_the_optimizer_is_fused():
    assert counter_note(CUDA_SPEC, CUDA_INVENTORY, "cuda") == "148 step counters (592 B) are on the CPU"
    fused = with_optimizer(CUDA_SPEC, OptimizerSpec(implementation="fused"))
    assert counter_note(fused, CUDA_INVENTORY, "cuda") is None
    assert rows(fused, CUDA_INVENTORY, "cuda")["optimizer_state"].bytes == 995_518_464 + 592


@pytest.mark.parametrize("name", ["torch.optim.Adafactor", "torch.optim.Adam8bit", "mine:Lion"])
def test_state_without_a_rule_is_unknown_with_the_reason(name):
    found = rows(with_optimizer(CPU_SPEC, OptimizerSpec(name=name)), CPU_INVENTORY)["optimizer_state"]
    assert found.bytes is None
    assert found.unknown


def test_sgd_keeps_nothing_without_momentum():
    assert rows(CPU_SPEC, CPU_INVENTORY)["optimizer_state"].bytes == 0
    momentum = OptimizerSpec(name="torch.optim.SGD", args={"momentum": 0.9})
    assert (
        rows(with_optimizer(CPU_SPEC, momentum), CPU_INVENTORY)["optimizer_state"].bytes == 4 * CPU_PARAMETERS
    )


def test_gradients_are_gone_at_the_forward_only_without_accumulation():
    assert rows(CPU_SPEC, CPU_INVENTORY, phase="forward")["gradients"].bytes == 0
    assert rows(CUDA_SPEC, CUDA_INVENTORY, "cuda", "forward")["gradients"].bytes == 497_759_232


def test_what_rests_on_the_host_is_0_on_the_device_and_says_where_it_is():
    place = PlacementSpec(weights="host-pinned", gradients="host", optimizer="disk")
    found = rows(replace(CUDA_SPEC, placement=place), CUDA_INVENTORY, "cuda")
    weights = found["weights"]
    assert (weights.bytes, weights.residence, weights.away) == (0, "host-pinned", 497_759_232)
    assert weights.text == "pinned on the host: 124,439,808 x 4 B"
    assert (found["gradients"].residence, found["gradients"].away) == ("host", 497_759_232)
    # on the host the 148 counters are beside the moments
    state = found["optimizer_state"]
    assert (state.bytes, state.residence, state.away) == (0, "disk", 995_518_464 + 592)
    assert found["unsharded_weights"].bytes is found["reduction_buckets"].bytes is None


def test_on_the_cpu_main_memory_is_the_device_and_a_disk_is_not():
    place = PlacementSpec(weights="host", optimizer="disk")
    found = rows(with_optimizer(replace(CPU_SPEC, placement=place), ADAM), CPU_INVENTORY)
    assert (found["weights"].bytes, found["weights"].residence) == (4 * CPU_PARAMETERS, "device")
    assert (found["optimizer_state"].bytes, found["optimizer_state"].residence) == (0, "disk")


def test_sharded_weights_are_divided_by_the_ranks():
    spec = replace(CUDA_SPEC, placement=PlacementSpec(ranks=4, strategy="fsdp2"))
    found = rows(spec, CUDA_INVENTORY, "cuda")
    assert (found["weights"].bytes, found["weights"].text) == (124_439_808, "124,439,808 x 4 B / 4 ranks")
    assert found["unsharded_weights"].unknown == "which layers are gathered together was not counted"
    odd = replace(CUDA_INVENTORY, unique_parameters=9, trainable_parameters=9, dtypes={})
    assert (
        rows(replace(spec, placement=PlacementSpec(ranks=8, strategy="fsdp2")), odd)["weights"].bytes is None
    )


def test_nothing_is_declared_before_the_parameters_were_counted():
    found = rows(CUDA_SPEC, None)
    assert found["weights"].unknown == "the parameters were not counted yet: peakmark params"
    assert found["input_batch"].bytes == 131_072


def test_a_workload_of_ones_own_declares_no_batch():
    spec = replace(CPU_SPEC, workload=replace(CPU_SPEC.workload, source="workload.py"))
    assert rows(spec, CPU_INVENTORY)["input_batch"].unknown == "the workload makes its own batch"


def test_every_declared_row_has_either_bytes_or_a_reason():
    for spec, inventory in ((CUDA_SPEC, CUDA_INVENTORY), (CPU_SPEC, CPU_INVENTORY), (CPU_SPEC, None)):
        for precision in ("fp32", "bf16", "fp16-autocast"):
            for phase in (None, "build", "forward", "backward", "step", "validate", "restore"):
                for key, row in rows(with_precision(spec, precision), inventory, "cpu", phase).items():
                    assert (row.bytes is None) == bool(row.unknown), (key, phase)
