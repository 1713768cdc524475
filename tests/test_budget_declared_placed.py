"""Declared rows that are packed, divided unevenly, shared out as experts, or entered by the user."""

from dataclasses import replace

import pytest
from sample_project import CPU_INVENTORY, CPU_SPEC, CUDA_INVENTORY, CUDA_SPEC

from tui.budget.declared import declared, situation
from tui.budget.held import held
from tui.project.inventory import Inventory
from tui.project.model import LedgerSpec, OptimizerSpec, PlacementSpec, PrecisionSpec

GIB = 2**30
# LLaMA-7B with its linear layers of the blocks in 4 bits, blocks of 64 with fp32 scales, as bitsandbytes keeps them
PACKED = Inventory(
    spec="sha256:00000000",
    unique_parameters=6_738_415_616,
    tensors=291,
    parameter_bytes=3_238_002_688 + 404_750_336 + 524_820_480,
    trainable_parameters=0,
    buffer_elements=0,
    buffer_bytes=0,
    state_entries=291,
    state_entry_elements=0,
    dtypes={"nf4": 6_476_005_376, "float16": 262_410_240},
    state="packed",
    packed_parameters=6_476_005_376,
    packed_payload_bytes=3_238_002_688,
    packed_metadata_bytes=404_750_336,
    unpacked={"Embedding.weight": 131_072_000, "Linear.weight": 131_072_000, "RMSNorm.weight": 266_240},
    shapes={"32000x4096 float16 frozen": 2, "4096 float16 frozen": 65},
)


def rows(spec, inventory, device="cuda", phase=None):
    return declared(spec, inventory, situation(spec, device, phase))


def placed(spec=CUDA_SPEC, **values):
    return replace(spec, placement=PlacementSpec(**values))


def test_packed_weights_are_their_payload_and_what_stays_as_it_is_by_name():
    found = rows(CUDA_SPEC, PACKED)
    assert found["weights"].bytes == 6_476_005_376 // 2 + 2 * 262_410_240
    assert found["weights"].text == (
        "3,238,002,688 B of 6,476,005,376 packed (4 bits each) + 524,820,480 B of 262,410,240 not packed: "
        "Embedding.weight, Linear.weight, RMSNorm.weight"
    )
    # a scale of 4 bytes for each block of 64
    assert found["packed_metadata"].bytes == 6_476_005_376 // 64 * 4
    assert found["gradients"].bytes == found["optimizer_state"].bytes == 0
    assert found["gradients"].text == "nothing is trained"


def test_adapters_on_packed_weights_are_what_is_trained():
    adapters = {**PACKED.shapes, "8x4096 float32": 64, "4096x8 float32": 64}
    count = 128 * 8 * 4096
    inventory = replace(
        PACKED,
        unique_parameters=PACKED.unique_parameters + count,
        parameter_bytes=PACKED.parameter_bytes + 4 * count,
        trainable_parameters=count,
        trainable_tensors=128,
        dtypes={**PACKED.dtypes, "float32": count},
        shapes=adapters,
    )
    found = rows(CUDA_SPEC, inventory)
    assert found["gradients"].bytes == 4 * count
    assert (found["optimizer_state"].bytes, found["optimizer_state"].text) == (8 * count, f"{count:,} x 8 B")


def test_how_packed_weights_are_divided_is_not_guessed():
    found = rows(placed(ranks=8, strategy="fsdp2"), PACKED)["weights"]
    assert found.unknown == "how packed weights are divided is not declared"
    plain = rows(CUDA_SPEC, CUDA_INVENTORY)["packed_metadata"]
    assert (plain.bytes, plain.text) == (0, "nothing is packed")


ODD = replace(
    CPU_INVENTORY,
    unique_parameters=35 + 3,
    trainable_parameters=38,
    tensors=2,
    dtypes={"float32": 35, "bfloat16": 3},
    shapes={"5x7 float32": 1, "3 bfloat16": 1},
)


def test_the_fullest_rank_holds_padded_rows_of_each_tensor_in_its_dtype():
    found = rows(placed(CPU_SPEC, ranks=2, strategy="fsdp2"), ODD)
    # torch.chunk of 5 and of 3 rows over 2 ranks: 3 and 2
    assert (found["weights"].bytes, found["weights"].text) == (
        21 * 4 + 2 * 2,
        "21 x 4 B + 2 x 2 B on the fullest of 2 ranks",
    )
    stage3 = rows(placed(CPU_SPEC, ranks=2, strategy="zero3"), ODD)["weights"]
    assert stage3.bytes == 18 * 4 + 2 * 2


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_declared_rows_of_a_rank_are_those_that_fully_shard_would_cut(ranks):
    torch = pytest.importorskip("torch")
    tensors = [torch.empty(5, 7), torch.empty(9, 2), torch.empty(4)]
    inventory = replace(
        CPU_INVENTORY,
        unique_parameters=57,
        trainable_parameters=57,
        tensors=3,
        dtypes={"float32": 57},
        shapes={"5x7 float32": 1, "9x2 float32": 1, "4 float32": 1},
    )
    spec = placed(CPU_SPEC, ranks=ranks, strategy="fsdp2")
    first = sum(torch.chunk(one, ranks)[0].nbytes for one in tensors)
    assert rows(spec, inventory)["weights"].bytes == first
    assert rows(spec, inventory)["gradients"].bytes == first


def test_frozen_weights_are_divided_and_have_no_gradients_on_any_rank():
    half = replace(ODD, trainable_parameters=35, trainable_tensors=1)
    half = replace(half, shapes={"5x7 float32": 1, "3 bfloat16 frozen": 1})
    found = rows(placed(CPU_SPEC, ranks=2, strategy="fsdp2"), half)
    assert (found["weights"].bytes, found["gradients"].bytes) == (88, 84)


def test_experts_are_shared_out_and_then_divided_over_the_ranks_that_hold_the_same_ones():
    inventory = replace(
        CUDA_INVENTORY,
        unique_parameters=1000,
        trainable_parameters=1000,
        dtypes={"float32": 1000},
        expert_parameters=800,
    )
    plain = rows(placed(ranks=8, strategy="ddp", expert_parallel=4), inventory)["weights"]
    assert (plain.bytes, plain.text) == (4 * (200 + 200), "200 x 4 B + 800 x 4 B / 4 (expert parallel)")
    stage3 = rows(placed(ranks=8, strategy="zero3", expert_parallel=4), inventory)["optimizer_state"]
    assert stage3.bytes == 8 * 25 + 8 * 100
    assert stage3.text == "200 x 8 B / 8 ranks + 800 x 8 B / 4 (expert parallel) / 2 ranks"


def test_experts_that_were_not_counted_can_be_entered_and_are_else_unknown():
    inventory = replace(CUDA_INVENTORY, unique_parameters=1000, trainable_parameters=1000, dtypes={})
    spec = placed(ranks=4, strategy="ddp", expert_parallel=4)
    assert "[ledger] expert_parameters" in rows(spec, inventory)["weights"].unknown
    entered = replace(spec, ledger=LedgerSpec(expert_parameters=400))
    assert rows(entered, inventory)["weights"].bytes == 4 * (600 + 100)
    much = replace(spec, ledger=LedgerSpec(expert_parameters=1001))
    assert "more than the 1,000 of this row" in rows(much, inventory)["weights"].unknown


def test_bf16_adam_keeps_2_x_2_bytes_and_with_fp32_master_weights_8_and_4():
    half = replace(CUDA_SPEC, precision=PrecisionSpec(use="bf16"))
    found = rows(half, CUDA_INVENTORY)
    assert found["optimizer_state"].text == "124,439,808 x 4 B"
    master = rows(placed(half, ranks=2, strategy="zero1", master_weights=True), CUDA_INVENTORY)
    assert master["weights"].text == "124,439,808 x 2 B"
    assert master["master_weights"].text == "124,439,808 x 4 B / 2 ranks"
    assert master["optimizer_state"].text == "124,439,808 x 8 B / 2 ranks"


def test_a_row_is_entered_only_when_the_user_said_so():
    found = rows(CUDA_SPEC, CUDA_INVENTORY)
    assert {"retained_activations", "step_temporaries", "context", "device_total"} & found.keys() == set()
    said = LedgerSpec(
        retained_activations=3 * GIB, context=GIB // 2, other_processes=GIB, device_total=80 * GIB
    )
    found = rows(replace(CUDA_SPEC, ledger=said), CUDA_INVENTORY)
    for key, size in (("retained_activations", 3), ("others", 1), ("device_total", 80)):
        assert (found[key].bytes, found[key].text, found[key].origin) == (size * GIB, "entered", "entered")
    cpu = rows(replace(CPU_SPEC, ledger=said), CPU_INVENTORY, "cpu")
    assert (cpu["host_total"].bytes, "device_total" in cpu) == (80 * GIB, False)


def test_an_entered_row_still_tells_what_the_formula_gives():
    spec = replace(CUDA_SPEC, ledger=LedgerSpec(optimizer_state=GIB, input_batch=131_072))
    found = rows(spec, CUDA_INVENTORY)
    assert found["optimizer_state"].text == "entered; the formula gives 995,518,464 B"
    assert found["input_batch"].text == "entered"
    eight_bit = replace(
        spec, workload=replace(spec.workload, optimizer=OptimizerSpec("bitsandbytes.optim.Adam8bit"))
    )
    assert rows(eight_bit, CUDA_INVENTORY)["optimizer_state"].bytes == GIB
    none = replace(eight_bit, ledger=LedgerSpec())
    assert rows(none, CUDA_INVENTORY)["optimizer_state"].bytes is None


def test_entered_activations_are_those_of_forward_and_backward():
    spec = replace(CUDA_SPEC, ledger=LedgerSpec(retained_activations=GIB))
    assert rows(spec, CUDA_INVENTORY, phase="backward")["retained_activations"].bytes == GIB
    step = rows(spec, CUDA_INVENTORY, phase="step")["retained_activations"]
    assert (step.bytes, step.unknown) == (None, "entered for the forward and the backward, not for step")


def test_what_rests_on_the_host_is_not_held_by_the_device():
    from sample_project import CUDA_PROBE

    spec = placed(optimizer="host")
    assert "optimizer_state" in held(CUDA_SPEC, CUDA_INVENTORY, CUDA_PROBE)
    assert "optimizer_state" not in held(spec, CUDA_INVENTORY, CUDA_PROBE)
