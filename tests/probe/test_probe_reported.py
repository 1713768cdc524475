"""Counts that people reported as wrong elsewhere, by the framework's own objects, and others like them."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from tui.probe import families, inventory
from tui.probe.identity import holdings

LLAMA = {"norm": "rmsnorm", "positions": "rotary", "bias": False, "gated": True}


def decoder(**args):
    """A family's table of figures, built on meta."""
    family, cfg = families.load("decoder", {**LLAMA, **args})
    with torch.device("meta"):
        return inventory.take(family.build(cfg), family.GROUPS, families.routed(family, cfg))


def tied():
    model = nn.ModuleDict({"first": nn.Embedding(1000, 64), "last": nn.Linear(64, 1000, bias=False)})
    model["last"].weight = model["first"].weight
    return model


def test_the_tensor_that_embedding_and_head_share_has_9_216_000_elements():
    family, cfg = families.load("decoder", {**LLAMA, "vocab": 32000, "width": 288, "layers": 1, "heads": 6})
    with torch.device("meta"):
        found = holdings(family.build(cfg))
    assert [one.elements for one in found.parameters if len(one.names) > 1] == [9_216_000]


@pytest.mark.parametrize(
    "change",
    [
        copy.deepcopy,
        lambda model: model.load_state_dict(model.state_dict()) and model,
        lambda model: model.to(torch.bfloat16),
        nn.DataParallel,
        lambda model: nn.ModuleList([model, model]),
    ],
    ids=["copied", "loaded", "converted", "wrapped", "held twice"],
)
def test_a_tie_outlives_what_is_done_to_the_model(change):
    assert inventory.take(change(tied()))["unique_parameters"] == 64_000


def test_a_tie_that_loading_by_assignment_breaks_is_two_parameters():
    model = tied()
    model.load_state_dict({key: one.clone() for key, one in model.state_dict().items()}, assign=True)
    assert inventory.take(model)["unique_parameters"] == 128_000


@pytest.mark.parametrize(
    ("layers", "elements"),
    [
        ([nn.Conv2d(3, 24, 3, bias=False), nn.Conv2d(24, 24, 3, groups=24, bias=False)], 864),
        (
            [
                nn.Conv2d(3, 24, 3, bias=False),
                *[nn.Conv2d(24, 12, 3, groups=12, bias=False) for _ in range(2)],
            ],
            1080,
        ),
        ([nn.ConvTranspose2d(24, 12, 3, groups=12)], 24 * 1 * 9 + 12),
        ([nn.Conv1d(8, 16, 5, groups=4)], 16 * 2 * 5 + 16),
    ],
)
def test_grouped_convolutions_hold_their_share_of_the_inputs(layers, elements):
    assert inventory.take(nn.ModuleList(layers))["unique_parameters"] == elements


@pytest.mark.parametrize(
    ("args", "elements"),
    [
        (
            {"vocab": 128256, "width": 4096, "layers": 32, "heads": 32, "kv_heads": 8, "hidden": 14336},
            8_030_261_248,
        ),
        (
            {"vocab": 152064, "width": 8192, "layers": 80, "heads": 64, "kv_heads": 8, "hidden": 29568}
            | {"qkv_bias": True},
            72_706_203_648,
        ),
    ],
)
def test_a_published_decoder_with_grouped_queries_holds_what_it_is_said_to(args, elements):
    assert decoder(**args, tied=False)["unique_parameters"] == elements


def test_experts_narrower_than_the_dense_layer_are_670_784_of_which_339_008_work_on_a_token():
    args = {"vocab": 1000, "width": 64, "layers": 4, "heads": 4, "kv_heads": 2, "hidden": 256, "tied": False}
    found = decoder(**args, expert_hidden=96, experts=8, top_k=2, dense_layers=1)
    assert (found["unique_parameters"], found["active_parameters"]) == (670_784, 339_008)


NO_DIM: Any = None  # torch takes it, whatever its annotation says
WN, SN = torch.nn.utils.parametrizations.weight_norm, torch.nn.utils.parametrizations.spectral_norm


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("made", "elements", "buffers"),
    [
        (lambda: WN(nn.Conv1d(4, 8, 3)), 112, 0),
        (lambda: torch.nn.utils.weight_norm(nn.Conv1d(4, 8, 3)), 112, 0),
        (lambda: WN(nn.Conv1d(4, 8, 3), dim=1), 4 + 96 + 8, 0),
        (lambda: WN(nn.Conv1d(4, 8, 3), dim=NO_DIM), 1 + 96 + 8, 0),
        (lambda: copy.deepcopy(WN(nn.Conv1d(4, 8, 3))), 112, 0),
        (lambda: SN(nn.Conv1d(4, 8, 3)), 104, 8 + 12),
        (lambda: torch.nn.utils.spectral_norm(nn.Conv1d(4, 8, 3)), 104, 8 + 12),
    ],
    ids=["new", "old", "by input", "one magnitude", "copied", "spectral", "old spectral"],
)
def test_what_is_stored_of_a_normed_weight_is_counted_not_what_is_seen(made, elements, buffers):
    found = inventory.take(made())
    assert (found["unique_parameters"], found["buffer_elements"]) == (elements, buffers)


@pytest.mark.parametrize(
    ("made", "elements", "buffers", "size"),
    [
        (lambda: nn.BatchNorm2d(10, affine=False), 0, 21, 88),
        (lambda: nn.BatchNorm2d(10, track_running_stats=False), 20, 0, 0),
        (lambda: nn.SyncBatchNorm(10), 20, 21, 88),
        (lambda: nn.BatchNorm2d(10).half(), 20, 21, 2 * 10 * 2 + 8),
        (lambda: nn.InstanceNorm2d(10, affine=True, track_running_stats=True), 20, 21, 88),
        (lambda: nn.GroupNorm(2, 10), 20, 0, 0),
    ],
)
def test_statistics_of_a_norm_are_buffers(made, elements, buffers, size):
    found = inventory.take(nn.ModuleList([nn.Linear(1, 1, bias=False), made()]))
    assert (found["unique_parameters"], found["buffer_elements"]) == (1 + elements, buffers)
    assert found["buffer_bytes"] == size


@pytest.mark.parametrize(
    ("made", "elements", "size"),
    [
        (lambda: nn.MultiheadAttention(8, 2, kdim=6, vdim=5), 8 * (8 + 6 + 5) + 24 + 72, 4 * 248),
        (lambda: nn.LSTM(3, 8, bidirectional=True, proj_size=4), 2 * (32 * 3 + 32 * 4 + 64 + 4 * 8), 4 * 640),
        (lambda: nn.ParameterList([nn.Parameter(torch.zeros(2, 3, dtype=torch.complex64))]), 6, 48),
        (lambda: nn.ParameterList([nn.Parameter(torch.tensor(1.0))]), 1, 4),
        (lambda: nn.ParameterDict({"i": nn.Parameter(torch.arange(3), requires_grad=False)}), 3, 24),
    ],
    ids=["keys and values of other widths", "projected states", "complex", "scalar", "integers"],
)
def test_layers_and_values_that_counters_get_wrong(made, elements, size):
    found = inventory.take(made())
    assert (found["unique_parameters"], found["parameter_bytes"]) == (elements, size)
