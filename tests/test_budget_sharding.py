from dataclasses import replace

import pytest
from sample_project import CUDA_INVENTORY, CUDA_SPEC

from tui.budget.declared import declared, situation
from tui.budget.sharding import DEVICE, DIVIDED, STATES, Groups, Options, States, divided, sheet
from tui.budget.sharding_estimates import older_zero3
from tui.project.model import PlacementSpec, PrecisionSpec

P = 10**9
MIXED = States(2 * P, 2 * P, 8 * P, 4 * P)
"""Half weights and gradients, fp32 copies and two fp32 moments."""
COUNT = 124_439_808


@pytest.mark.parametrize(
    ("strategy", "gib"),
    # Rajbhandari et al. 2020, figure 1: 7.5 billion parameters over 64 ranks, in units of 1e9 bytes
    [("ddp", 120), ("zero1", 31.4), ("zero2", 16.6), ("zero3", 1.9)],
)
def test_the_published_figure_of_each_stage_is_reproduced(strategy, gib):
    count = 75 * 10**8
    states = States(2 * count, 2 * count, 8 * count, 4 * count)
    assert round(sheet(states, strategy, 64).states_bytes / 1e9, 1) == gib


def test_every_line_says_its_divisor_and_how_it_was_obtained():
    found = sheet(MIXED, "zero2", 8, Options(reduce_bucket_bytes=10**9))
    assert [(one.key, one.divisor, one.obtained) for one in found.shares] == [
        ("weights", 1, "formula"),
        ("unsharded_weights", 1, "formula"),
        ("gradients", 8, "formula"),
        ("master_weights", 8, "formula"),
        ("optimizer_state", 8, "formula"),
        ("reduction_buckets", 1, "formula"),
    ]
    assert found.share("optimizer_state").text == "8,000,000,000 B / 8"
    assert found.shrinking == ("gradients", "master_weights", "optimizer_state")
    assert found.device_bytes == found.states_bytes + 10**9


def test_tensor_and_pipeline_parallel_are_divisors_that_the_user_declared():
    found = sheet(MIXED, "zero1", 2, Options(tensor_parallel=4, pipeline_parallel=2))
    weights, state = found.share("weights"), found.share("optimizer_state")
    assert (weights.bytes, weights.divisor, weights.obtained) == (2 * P // 8, 8, "declared")
    assert weights.text == "2,000,000,000 B / 4 (tensor parallel) / 2 (pipeline parallel)"
    assert (state.bytes, state.divisor) == (8 * P // 16, 16)
    assert found.share("reduction_buckets").bytes == 2 * P // 8


def test_the_fullest_device_gets_what_does_not_divide():
    assert divided(10, 4) == 3
    assert sheet(States(10, 10, 20), "zero3", 4, groups=Groups((10,))).share("weights").bytes == 3


def test_weights_are_whole_for_the_layers_that_work_and_the_next_ones():
    groups = Groups((30, 50, 20), root=7)
    gathered = sheet(MIXED, "fsdp2", 8, groups=groups).share("unsharded_weights")
    assert (gathered.bytes, gathered.shrinks) == (87, False)
    assert gathered.text == "87 B: 2 neighbouring groups and the root's 7 B"
    kept = sheet(MIXED, "fsdp2", 8, Options(reshard_after_forward=False), groups)
    assert kept.share("unsharded_weights").bytes == 107
    assert Groups((30,), ahead=1).at_once == 30
    assert Groups((), root=9).at_once == Groups((), root=9).largest == 9
    assert sheet(MIXED, "ddp", 8, groups=groups).share("unsharded_weights").bytes == 0


def test_what_is_not_known_makes_the_sum_unknown_and_says_why():
    found = sheet(MIXED, "zero3", 8)
    assert found.share("unsharded_weights").unknown == "which layers are gathered together is not known"
    assert found.share("reduction_buckets").unknown.startswith("placement.reduce_bucket does not say")
    assert found.device_bytes is None
    assert found.states_bytes == 16 * P // 8


def test_the_optimizer_on_the_host_takes_its_fp32_copies_along():
    found = sheet(MIXED, "zero2", 8, Options(host=("optimizer_state",)))
    assert found.states_bytes == 2 * P + 2 * P // 8
    assert [found.share(key).host_bytes for key in ("optimizer_state", "master_weights")] == [P, P // 2]


def test_one_rank_divides_and_reduces_nothing():
    for strategy in DIVIDED:
        found = sheet(MIXED, strategy, 1, groups=Groups((5,)))
        assert found.device_bytes == 16 * P, strategy
        assert found.shrinking == ()
        assert {one.key for one in found.shares} == set(DEVICE)


def test_a_published_estimate_of_stage_3_is_ours_without_what_is_gathered():
    older = older_zero3(P, 8, 10**7)
    assert older.bytes == 4 * 10**7 + 18 * P // 8
    assert older.text == "4 x 10,000,000 + 18 x 1,000,000,000 / 8"


# --- the same in the ledger's declared column -----------------------------------------------------------------------


def rows(inventory=CUDA_INVENTORY, phase=None, precision="fp32", **placement):
    spec = replace(CUDA_SPEC, placement=PlacementSpec(**placement), precision=PrecisionSpec(use=precision))
    return declared(spec, inventory, situation(spec, "cuda", phase))


COUNTED = replace(
    CUDA_INVENTORY,
    ranks=8,
    rank_parameters=15_600_000,
    rank_bytes=62_400_000,
    rank_padding=8 * 15_600_000 - COUNT,
    rank_gathered_bytes=4 * 1000,
    rank_group_bytes=4 * 600,
)


def test_ddp_declares_the_gradients_once_more_from_the_wrapping_on():
    for phase in (None, "build", "forward", "step"):
        found = rows(phase=phase, ranks=2, strategy="ddp")
        assert found["reduction_buckets"].bytes == 4 * COUNT, phase
        assert found["unsharded_weights"].bytes == 0
    assert rows(phase="context", ranks=2, strategy="ddp")["reduction_buckets"].bytes == 0
    assert rows(ranks=2, strategy="none")["reduction_buckets"].text == "no strategy reduces"


def test_gradients_that_are_views_of_their_buckets_survive_zero_grad():
    found = rows(phase="forward", ranks=2, strategy="ddp", gradient_as_bucket_view=True)
    assert (found["reduction_buckets"].bytes, found["gradients"].bytes) == (0, 4 * COUNT)


def test_fsdp2_declares_the_fullest_ranks_padded_rows_and_what_is_gathered():
    found = rows(COUNTED, "backward", ranks=8, strategy="fsdp2", shard_each=("Block",))
    assert (found["weights"].bytes, found["weights"].text) == (
        62_400_000,
        "15,600,000 x 4 B on the fullest of 8 ranks",
    )
    assert found["gradients"].bytes == 62_400_000
    assert found["optimizer_state"].bytes == 2 * 62_400_000
    assert found["unsharded_weights"].bytes == 4_000
    assert found["reduction_buckets"].bytes == 2_400
    assert rows(COUNTED, "step", ranks=8, strategy="fsdp2")["unsharded_weights"].bytes == 0


def test_weights_gathered_in_bf16_take_half_and_their_gradients_what_reduces_them():
    found = rows(COUNTED, "backward", ranks=8, strategy="fsdp2", param_dtype="bf16", reduce_dtype="fp32")
    assert (found["unsharded_weights"].bytes, found["reduction_buckets"].bytes) == (2_000, 2_400)
    pure = rows(COUNTED, "backward", precision="bf16", ranks=8, strategy="fsdp2")
    assert (pure["unsharded_weights"].bytes, pure["weights"].bytes) == (2_000, 31_200_000)


def test_a_count_of_another_placement_declares_no_padding():
    found = rows(COUNTED, ranks=4, strategy="fsdp2")
    assert found["weights"].text == "124,439,808 x 4 B / 4 ranks"
    assert found["unsharded_weights"].bytes is None


def test_zero_keeps_fp32_weights_and_state_where_the_library_says_so():
    found = rows(precision="bf16", ranks=8, strategy="zero2", master_weights=True, reduce_bucket=1000)
    shard = COUNT // 8
    assert {key: found[key].bytes for key in STATES} == {
        "weights": 2 * COUNT,
        "gradients": 2 * shard,
        "master_weights": 4 * shard,
        "optimizer_state": 8 * shard,
    }
    assert found["master_weights"].text == "124,439,808 x 4 B / 8 ranks"
    assert found["reduction_buckets"].text == "1,000 x 2 B are reduced at once"
    assert rows(precision="bf16", ranks=8, strategy="zero2")["master_weights"].bytes == 0


def test_declared_divisors_of_tensor_and_pipeline_parallel_are_named_as_such():
    found = rows(tensor_parallel=2, pipeline_parallel=4)
    text = "124,439,808 x 4 B / 2 (tensor parallel, declared) / 4 (pipeline parallel, declared)"
    assert (found["weights"].bytes, found["weights"].text) == (4 * COUNT // 8, text)


def test_every_declared_row_of_every_strategy_has_either_bytes_or_a_reason():
    for strategy in DIVIDED:
        for inventory in (None, CUDA_INVENTORY, COUNTED):
            for phase in (None, "build", "forward", "backward", "step", "validate"):
                for key, row in rows(inventory, phase, ranks=8, strategy=strategy).items():
                    assert (row.bytes is None) == bool(row.unknown), (strategy, key, phase)
