"""Parameters of which a part is here, and what a rank would hold under a placement."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tui.probe import inventory
from tui.probe.ranks import rows


def placeholders(model, local=None):
    """What DeepSpeed's stage 3 leaves of a model: empty data, the size in attributes."""
    for one in model.parameters():
        one.ds_numel, one.ds_shape = one.numel(), one.shape
        if local is not None:
            one.ds_tensor = torch.zeros(-(-one.numel() // local))
        one.data = torch.empty(0)
    return model


def test_placeholders_count_by_the_size_that_they_say():
    found = inventory.take(placeholders(nn.Linear(20, 50)))
    assert (found["unique_parameters"], found["stored_elements"], found["state"]) == (1050, 0, "partitioned")
    assert found["parameter_bytes"] == 0


def test_the_slice_of_a_placeholder_is_what_is_held_here():
    found = inventory.take(placeholders(nn.Linear(20, 50), local=4))
    assert (found["unique_parameters"], found["stored_elements"]) == (1050, 250 + 13)
    assert (found["rank_parameters"], found["rank_bytes"]) == (263, 4 * 263)
    assert "DeepSpeed stage 3" in found["unknown"]["rank_padding"]


def test_a_placeholder_that_says_its_shape_alone_counts_by_it():
    model = nn.Linear(20, 50)
    for one in model.parameters():
        one.ds_shape, one.data = one.shape, torch.empty(0)
    assert inventory.take(model)["unique_parameters"] == 1050


@pytest.fixture
def four_ranks():
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield
    dist.destroy_process_group()


def test_a_model_that_fsdp_divides_row_by_row_is_counted_whole(four_ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    plain = nn.Sequential(nn.Linear(20, 50), nn.Linear(50, 2))
    placed = inventory.take(plain, placement={"ranks": 4, "strategy": "fsdp2"})
    fully_shard(plain, mesh=init_device_mesh("cpu", (4,)))
    found = inventory.take(plain)
    assert (found["unique_parameters"], found["state"]) == (1152, "partitioned")
    assert found["stored_elements"] == 13 * 20 + 13 + 50 + 1
    # what the placement says of a plain model is what FSDP does with it
    assert placed["rank_parameters"] == found["rank_parameters"] == found["stored_elements"]
    assert placed["rank_bytes"] == found["rank_bytes"]


def test_a_flat_parameter_counts_as_the_parameters_in_it(four_ranks):
    from torch.distributed.fsdp import FullyShardedDataParallel

    for keeps in (False, True):
        plain = nn.Sequential(nn.Linear(20, 50), nn.Linear(50, 2))
        model = FullyShardedDataParallel(plain, use_orig_params=keeps, device_id=torch.device("cpu"))
        found = inventory.take(model)
        assert (found["unique_parameters"], found["state"]) == (1152, "partitioned")
        assert found["stored_elements"] in (288, 289)  # 1152 / 4, and one more where weights are aligned


def test_a_flat_parameter_that_is_not_divided_is_here_as_a_whole(four_ranks):
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

    for keeps in (False, True):
        plain = nn.Sequential(nn.Linear(20, 50), nn.Linear(50, 2))
        model = FullyShardedDataParallel(
            plain,
            sharding_strategy=ShardingStrategy.NO_SHARD,
            use_orig_params=keeps,
            device_id=torch.device("cpu"),
        )
        found = inventory.take(model)
        assert (found["unique_parameters"], found["stored_elements"]) == (1152, 1152)
        assert found["state"] == "complete"


def test_a_flat_parameter_by_its_attributes_alone():
    model = nn.Module()
    model.flat = nn.Parameter(torch.zeros(5))
    model.flat._unpadded_unsharded_size = torch.Size([18])
    found = inventory.take(model)
    assert (found["unique_parameters"], found["stored_elements"]) == (18, 5)


def test_views_of_a_flat_parameter_have_the_shapes_that_it_remembers():
    model = nn.Linear(4, 3)
    flat = SimpleNamespace(_params=list(model.parameters()), _shapes=[torch.Size([3, 4]), torch.Size([3])])
    model._handle = SimpleNamespace(flat_param=flat)
    model.weight.data, model.bias.data = torch.zeros(4), torch.empty(0)
    found = inventory.take(model)
    assert (found["unique_parameters"], found["stored_elements"]) == (15, 4)


@pytest.mark.parametrize("strategy", ["none", "ddp"])
def test_every_rank_holds_everything_without_sharding(strategy):
    found = inventory.take(nn.Linear(20, 50), placement={"ranks": 8, "strategy": strategy})
    assert (found["ranks"], found["rank_parameters"], found["rank_bytes"]) == (8, 1050, 4200)
    assert found["rank_padding"] == 0


def test_rows_are_divided_so_18_elements_over_4_ranks_are_5_and_2_of_padding_in_all():
    model = nn.ParameterList([nn.Parameter(torch.zeros(18))])
    found = inventory.take(model, placement={"ranks": 4, "strategy": "fsdp2"})
    assert (found["rank_parameters"], found["rank_padding"]) == (5, 2)
    # by rows: 3 rows over 4 ranks leave one rank with none, which flattening would not
    model = nn.ParameterList([nn.Parameter(torch.zeros(3, 6))])
    found = inventory.take(model, placement={"ranks": 4, "strategy": "fsdp2"})
    assert (found["rank_parameters"], found["rank_padding"]) == (6, 6)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(1, 12))
def test_the_fullest_rank_has_the_first_chunk_of_torch(shape, ranks):
    chunks = torch.zeros(shape).chunk(ranks)
    assert rows(shape, ranks) == chunks[0].numel() == max(one.numel() for one in chunks)


def test_a_scalar_cannot_be_divided_and_says_so():
    model = nn.ParameterList([nn.Parameter(torch.zeros(()))])
    found = inventory.take(model, placement={"ranks": 2, "strategy": "fsdp2"})
    assert found["rank_parameters"] is None
    assert found["unknown"]["rank_parameters"] == "fsdp2 takes no scalar, and 0 is one"


def test_what_is_gathered_at_once_is_the_root_and_two_neighbouring_groups_padded_to_the_ranks():
    class Layer(nn.Linear):
        pass

    model = nn.Sequential(nn.Embedding(10, 8), Layer(8, 8), Layer(8, 24), Layer(24, 8))
    placed = {"ranks": 4, "strategy": "fsdp2", "shard_each": ["Layer"]}
    sizes = [8 * 8 + 8, 24 * 8 + 24, 8 * 24 + 8]
    root = 12 * 8  # 10 rows over 4 ranks are gathered as 12
    found = inventory.take(model, placement=placed)
    assert found["rank_gathered_bytes"] == 4 * (root + sizes[1] + sizes[2])
    assert found["rank_group_bytes"] == 4 * sizes[1]
    kept = inventory.take(model, placement={**placed, "reshard_after_forward": False})
    assert kept["rank_gathered_bytes"] == 4 * (root + sum(sizes))
    alone = inventory.take(model, placement={**placed, "shard_each": []})
    assert alone["rank_gathered_bytes"] == alone["rank_group_bytes"] == 4 * (root + sum(sizes))
    whole = inventory.take(model, placement={**placed, "strategy": "ddp"})
    assert whole["rank_gathered_bytes"] == 0


def test_what_is_gathered_is_unknown_when_a_class_is_not_there():
    placed = {"ranks": 4, "strategy": "fsdp2", "shard_each": ["Block"]}
    found = inventory.take(nn.Linear(4, 4), placement=placed)
    assert found["rank_gathered_bytes"] is None
    assert found["unknown"]["rank_gathered_bytes"].startswith("placement.shard_each names Block")


def test_stages_1_and_2_leave_the_weights_whole_and_stage_3_divides_elements():
    model = nn.Linear(3, 5)  # 15 + 5 elements
    shares = {
        strategy: inventory.take(model, placement={"ranks": 4, "strategy": strategy})["rank_parameters"]
        for strategy in ("zero1", "zero2", "zero3")
    }
    assert shares == {"zero1": 20, "zero2": 20, "zero3": 4 + 2}
