"""The formula of every layer against the layer that torch makes, over small random shapes."""

from math import prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from tui.budget import layers, stored
from tui.budget.kinds import KINDS

few = settings(max_examples=40, deadline=None)
SMALL, FLAG = st.integers(1, 6), st.booleans()
CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


def counted(module):
    return sum(one.numel() for one in module.parameters())


def worked(kind, /, **args):
    return KINDS[kind].work(args)


@pytest.fixture(autouse=True, scope="module")
def _nothing_is_allocated():
    with torch.device("meta"):
        yield


@given(SMALL, SMALL, FLAG)
@few
def test_a_dense_layer_has_a_weight_and_a_bias(inputs, outputs, bias):
    real = counted(nn.Linear(inputs, outputs, bias=bias))
    assert layers.dense(inputs, outputs, bias) == real
    assert worked("dense", **{"in": inputs}, out=outputs, bias=bias).total == real


@given(SMALL, SMALL, st.integers(1, 4), st.lists(st.integers(1, 4), min_size=1, max_size=3), FLAG, FLAG)
@few
def test_a_convolution_of_any_dimension_may_be_grouped_and_transposed(
    inputs, outputs, groups, sides, bias, transposed
):
    kind = (TRANSPOSED if transposed else CONVOLUTIONS)[len(sides)]
    real = counted(kind(inputs * groups, outputs * groups, tuple(sides), groups=groups, bias=bias))
    args = {"in": inputs * groups, "out": outputs * groups, "groups": groups, "bias": bias}
    assert layers.conv(inputs * groups, outputs * groups, sides, groups=groups, bias=bias) == real
    assert worked("conv", kernel=sides, transposed=transposed, **args).total == real


@given(SMALL, SMALL, st.integers(1, 4), st.integers(1, 3))
@few
def test_one_side_of_a_kernel_is_for_every_dimension(inputs, outputs, side, dims):
    real = counted(CONVOLUTIONS[dims](inputs, outputs, side))
    assert layers.conv(inputs, outputs, side, dims=dims) == real
    assert worked("conv", **{"in": inputs}, out=outputs, kernel=side, dims=dims).total == real


@given(SMALL, SMALL)
@few
def test_an_embedding_is_a_table(entries, width):
    assert worked("embedding", entries=entries, width=width).total == counted(nn.Embedding(entries, width))


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("layer", nn.LayerNorm),
        ("batch", nn.BatchNorm2d),
        ("group", lambda width: nn.GroupNorm(1, width)),
        ("instance", lambda width: nn.InstanceNorm2d(width, affine=True)),
        ("rms", nn.RMSNorm),
    ],
)
def test_a_norm_has_a_scale_and_but_for_rms_a_shift(kind, make):
    assert worked("norm", kind=kind, width=10).total == counted(make(10))
    assert worked("norm", kind="layer", width=10, bias=False).total == counted(nn.LayerNorm(10, bias=False))


@given(st.integers(1, 4), SMALL, FLAG)
@few
def test_attention_with_a_head_for_every_query_is_that_of_torch(heads, head_dim, bias):
    real = counted(nn.MultiheadAttention(heads * head_dim, heads, bias=bias))
    assert layers.attention(heads * head_dim, heads, qkv_bias=bias, out_bias=bias) == real


@given(SMALL, st.integers(1, 3), st.integers(1, 3), SMALL, FLAG, FLAG, FLAG)
@few
def test_grouped_query_attention_is_four_projections_and_two_norms_of_a_head(
    width, kv_heads, repeat, head_dim, qkv_bias, out_bias, qk_norm
):
    heads = kv_heads * repeat
    parts = [
        nn.Linear(width, heads * head_dim, bias=qkv_bias),
        nn.Linear(width, kv_heads * head_dim, bias=qkv_bias),
        nn.Linear(width, kv_heads * head_dim, bias=qkv_bias),
        nn.Linear(heads * head_dim, width, bias=out_bias),
        *([nn.RMSNorm(head_dim), nn.RMSNorm(head_dim)] if qk_norm else []),
    ]
    args = {"qkv_bias": qkv_bias, "out_bias": out_bias, "qk_norm": qk_norm}
    assert layers.attention(width, heads, kv_heads, head_dim, **args) == sum(map(counted, parts))
    shown = worked("attention", width=width, heads=heads, kv_heads=kv_heads, head_dim=head_dim, **args)
    assert shown.total == sum(map(counted, parts))


def swiglu(width, hidden, gated, bias):
    into = [nn.Linear(width, hidden, bias=bias) for _ in range(2 if gated else 1)]
    return nn.ModuleList([*into, nn.Linear(hidden, width, bias=bias)])


@given(SMALL, SMALL, FLAG, FLAG)
@few
def test_a_gate_is_a_third_matrix_of_the_mlp(width, hidden, gated, bias):
    real = counted(swiglu(width, hidden, gated, bias))
    assert layers.mlp(width, hidden, gated, bias) == real
    assert worked("feed_forward", width=width, hidden=hidden, gated=gated, bias=bias).total == real


@given(SMALL, SMALL, st.integers(1, 5), st.data(), FLAG, FLAG, st.integers(0, 2))
@few
def test_experts_are_all_held_and_few_are_active(width, hidden, count, data, gated, bias, shared):
    top_k = data.draw(st.integers(1, count))
    shared_gate = bool(shared) and data.draw(FLAG)
    many = nn.ModuleList(swiglu(width, hidden, gated, bias) for _ in range(count))
    always = nn.ModuleList([nn.Linear(width, count, bias=False)])
    if shared:
        always.append(swiglu(width, shared * hidden, gated, bias))
    if shared_gate:
        always.append(nn.Linear(width, 1, bias=False))
    more = {"gated": gated, "bias": bias, "shared": shared, "shared_gate": shared_gate}
    found = layers.experts(width, hidden, count, top_k, **more)
    assert found.total == counted(many) + counted(always)
    assert found.active == counted(many[:top_k]) + counted(always)
    shown = worked("experts", width=width, hidden=hidden, experts=count, top_k=top_k, **more)
    assert (shown.total, shown.further[0].value) == (found.total, found.active)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@given(SMALL, st.integers(2, 6), st.integers(1, 3), FLAG, FLAG, st.data())
@few
def test_a_recurrent_layer_has_two_biases_a_gate(kind, inputs, hidden, count, both, bias, data):
    more = {"proj_size": data.draw(st.integers(0, hidden - 1))} if kind == "lstm" else {}
    make = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind]
    real = counted(make(inputs, hidden, count, bias=bias, bidirectional=both, **more))
    assert layers.recurrent(kind, inputs, hidden, count, bidirectional=both, bias=bias, **more) == real
    args = {"hidden": hidden, "layers": count, "bias": bias, "bidirectional": both, **more}
    assert worked(kind, **{"in": inputs}, **args).total == real


def test_a_projection_is_of_an_lstm_and_smaller_than_its_state():
    with pytest.raises(ValueError, match="proj_size = 4 must be less than hidden = 4"):
        layers.recurrent("lstm", 3, 4, proj_size=4)
    with pytest.raises(ValueError, match="proj_size is of an LSTM, not of a GRU"):
        layers.recurrent("gru", 3, 4, proj_size=2)


@given(SMALL, SMALL, SMALL)
@few
def test_an_adapter_is_two_thin_matrices(inputs, outputs, rank):
    real = counted(nn.Linear(inputs, rank, bias=False)) + counted(nn.Linear(rank, outputs, bias=False))
    assert layers.lora(rank, inputs, outputs) == real
    assert worked("lora", **{"in": inputs}, out=outputs, rank=rank).total == real


@given(SMALL, SMALL, st.integers(1, 4), st.sampled_from([0, 1, 2, None]), FLAG)
@few
def test_weight_norm_stores_a_magnitude_and_a_direction_instead_of_the_weight(
    inputs, outputs, side, dim, bias
):
    real = counted(weight_norm(nn.Conv1d(inputs, outputs, side, bias=bias), dim=dim))
    shape = (outputs, inputs, side)
    assert layers.weight_norm(shape, dim).total + (outputs if bias else 0) == real
    shown = worked("weight_norm", shape=list(shape), dim=-1 if dim is None else dim, bias=bias)
    assert shown.total == real


def test_a_weight_norm_of_8_channels_stores_112_parameters_not_the_104_that_are_seen():
    real = counted(weight_norm(nn.Conv1d(4, 8, 3)))
    found = layers.weight_norm((8, 4, 3))
    assert (found.magnitude, found.direction, 8) == (8, 96, 8)
    assert found.total + 8 == real == 112
    assert layers.conv(4, 8, 3, dims=1) == counted(nn.Conv1d(4, 8, 3)) == 104


# --- packed ---------------------------------------------------------------------------------------------------------


@given(SMALL, st.integers(1, 40), st.integers(1, 16), st.sampled_from(["flat", "input"]), st.integers(0, 5))
@few
def test_a_packed_weight_has_a_payload_of_bytes_and_a_scale_for_every_block(
    outputs, inputs, block, along, double
):
    with torch.device("cpu"):
        codes = torch.randint(0, 16, (outputs, inputs), dtype=torch.uint8)
        flat = nn.functional.pad(codes.flatten(), (0, codes.numel() % 2))
        payload = (flat[::2] << 4) | flat[1::2]
        rows = [codes.flatten()] if along == "flat" else list(codes)
        scales = torch.stack([one.float().amax() for row in rows for one in row.split(block)])
    found = stored.packed(inputs, outputs, 4, block=block, along=along, double=double)
    assert (found.logical, found.payload_bytes) == (codes.numel(), payload.nbytes)
    assert found.blocks == len(scales)
    if double:
        second = [one.amax() for one in scales.split(double)]
        assert found.metadata_bytes == scales.to(torch.uint8).nbytes + 4 * len(second) + 4
    else:
        assert found.metadata_bytes == scales.nbytes


def test_zero_points_are_packed_too_and_a_block_of_0_is_a_row():
    found = stored.packed(128, 3, 4, block=0, scale_itemsize=2, zero_points=True)
    assert (found.blocks, found.scale_bytes, found.zero_point_bytes) == (3, 6, 2)
    assert found.total_bytes == 128 * 3 // 2 + 6 + 2


def test_three_bits_an_element_are_rounded_up_to_a_byte_once_a_tensor():
    assert stored.packed(5, 3, 3).payload_bytes == 6  # 45 bits


# --- sharded --------------------------------------------------------------------------------------------------------


@given(st.lists(SMALL, min_size=1, max_size=3), st.integers(1, 9))
@few
def test_rows_are_cut_as_torch_chunk_cuts_them(shape, ranks):
    chunks = torch.empty(shape).chunk(ranks)
    found = stored.by_rows(shape, ranks)
    assert [found.own(rank) for rank in range(ranks)] == [
        chunks[rank].numel() if rank < len(chunks) else 0 for rank in range(ranks)
    ]
    assert found.slice == chunks[0].numel()
    assert found.empty_ranks == ranks - len(chunks)
    assert found.padding == ranks * chunks[0].numel() - prod(shape)


@given(st.integers(1, 60), st.integers(1, 9))
@few
def test_flattened_elements_are_cut_as_torch_chunk_cuts_one_row(elements, ranks):
    chunks = torch.empty(elements).chunk(ranks)
    found = stored.flattened(elements, ranks)
    assert found.slice == chunks[0].numel()
    assert found.padding == ranks * chunks[0].numel() - elements
    assert sum(found.own(rank) for rank in range(ranks)) == elements


def test_the_slice_of_a_rank_is_no_model_size_and_padding_is_said():
    model = stored.flattened(496_195_456, 4)
    assert (model.logical, model.slice, model.padding) == (496_195_456, 124_048_864, 0)
    layer = stored.flattened(18, 4)
    assert (layer.slice, layer.padding) == (5, 2)
    # the same 18 elements as 9 rows of 2: three rows a rank, and the last rank holds none of its own
    rows = stored.by_rows((9, 2), 4)
    assert (rows.slice, rows.padding, rows.empty_ranks) == (6, 6, 1)


# --- held several times -----------------------------------------------------------------------------------------------


def test_a_tied_embedding_of_two_stages_is_64000_unique_and_128000_resident():
    assert stored.tied_embedding(1000, 64, (0, 1), 2) == stored.Tied(64_000, 128_000)


@given(SMALL, SMALL, st.integers(1, 5), st.data())
@few
def test_every_stage_that_holds_the_embedding_holds_a_copy(entries, width, stages, data):
    held_by = data.draw(st.lists(st.integers(0, stages - 1), min_size=1, unique=True))
    copies = {stage: nn.Embedding(entries, width) for stage in held_by}
    found = stored.tied_embedding(entries, width, held_by, stages)
    assert found.unique == counted(copies[held_by[0]])
    assert found.resident == sum(counted(copies.get(stage, nn.Identity())) for stage in range(stages))


@pytest.mark.parametrize(
    ("held_by", "sentence"),
    [
        ((0, 2), "held_by = 2 is no stage: they are 0 to 1"),
        ((0, 0), "held_by names a stage twice"),
        ((), "held_by must name at least 1 stage"),
    ],
)
def test_a_stage_that_cannot_be_is_refused(held_by, sentence):
    with pytest.raises(ValueError, match=sentence):
        stored.tied_embedding(10, 2, held_by, 2)
