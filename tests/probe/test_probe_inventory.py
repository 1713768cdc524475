import pytest
import torch
from torch import nn

from tui.probe import inventory
from tui.probe.faults import TaskError


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(10, 4)
        self.lm_head = nn.Linear(4, 10, bias=False)
        self.lm_head.weight = self.wte.weight


def test_a_shared_parameter_is_counted_once_and_named():
    found = inventory.take(Tied())
    assert (found["unique_parameters"], found["tensors"], found["parameter_bytes"]) == (40, 1, 160)
    assert (found["state_entries"], found["state_entry_elements"]) == (2, 80)
    assert found["shared"] == ["lm_head.weight = wte.weight"]


def test_batch_norm_over_ten_channels_has_20_parameters_and_21_buffer_elements():
    found = inventory.take(nn.BatchNorm2d(10))
    assert (found["unique_parameters"], found["buffer_elements"], found["buffer_bytes"]) == (20, 21, 88)


def test_a_module_that_is_used_twice_is_counted_once():
    layer = nn.Linear(3, 3)
    found = inventory.take(nn.Sequential(layer, layer))
    assert (found["unique_parameters"], found["tensors"]) == (12, 2)
    assert found["shared"] == ["1.weight = 0.weight", "1.bias = 0.bias"]


def test_one_activation_object_at_two_places_changes_nothing():
    act = nn.PReLU()
    found = inventory.take(nn.Sequential(nn.Linear(2, 2), act, nn.Linear(2, 2), act))
    assert found["unique_parameters"] == 13


def test_frozen_parameters_are_not_trainable():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    found = inventory.take(model)
    assert (found["unique_parameters"], found["trainable_parameters"], found["trainable_tensors"]) == (
        9,
        3,
        2,
    )


def test_dtypes_are_counted_apart():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1).to(torch.bfloat16))
    found = inventory.take(model)
    assert (found["dtypes"], found["parameter_bytes"]) == ({"float32": 6, "bfloat16": 3}, 30)


def test_the_meta_device_counts_the_same():
    with torch.device("meta"):
        found = inventory.take(Tied())
    assert (found["unique_parameters"], found["device"]) == (40, "meta")


def test_lazy_parameters_are_refused():
    with pytest.raises(TaskError) as caught:
        inventory.take(nn.Sequential(nn.LazyLinear(4)))
    assert "2 parameters are not initialised (lazy), such as 0.weight" in caught.value.sentence


def test_a_model_without_parameters_is_refused():
    with pytest.raises(TaskError, match="no parameters"):
        inventory.take(nn.ReLU())


def test_groups_are_the_parts_by_their_words_and_add_up():
    found = inventory.take(nn.Sequential(*[nn.Linear(2, 2) for _ in range(3)]), {"0": "first"})
    assert found["groups"]["first"] == 6
    assert sum(found["groups"].values()) == 18
