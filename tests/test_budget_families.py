"""The formula of every family against models put together here from torch's own layers, part by part.

``tests/probe/test_probe_formulas.py`` has the families' own models; these are written in another way: a matrix for
each of query, key and value, torch's encoder layer, convolutions in a list.
"""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tui.budget import layers, stored
from tui.budget.kinds import KINDS
from tui.budget.params import FAMILIES, formula

few = settings(max_examples=40, deadline=None)
SMALL, FLAG = st.integers(1, 6), st.booleans()
LLAMA = {"gated": True, "norm": "rmsnorm", "positions": "rotary", "bias": False}


def counted(*modules):
    """Elements of unique parameters."""
    return sum({id(one): one.numel() for module in modules for one in module.parameters()}.values())


def entries(module):
    """Elements of all entries of a checkpoint."""
    return sum(one.numel() for one in module.state_dict().values())


@pytest.fixture(autouse=True, scope="module")
def _nothing_is_allocated():
    with torch.device("meta"):
        yield


def llama_mlp(width, hidden):
    up, gate = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
    return nn.ModuleList([gate, up, nn.Linear(hidden, width, bias=False)])


def llama(
    layers,
    heads,
    width,
    vocab,
    hidden,
    *,
    kv_heads=None,
    qkv_bias=False,
    tied=False,
    experts=0,
    dense_layers=0,
    **more,
):
    """Embedding, blocks of separate projections, and head, with or without experts."""
    kv_width = (kv_heads or heads) * (width // heads)
    model = nn.ModuleDict({"embed": nn.Embedding(vocab, width), "blocks": nn.ModuleList()})
    for place in range(layers):
        block = nn.ModuleDict(
            {"q": nn.Linear(width, width, bias=qkv_bias), "o": nn.Linear(width, width, bias=False)}
        )
        block["k"] = nn.Linear(width, kv_width, bias=qkv_bias)
        block["v"] = nn.Linear(width, kv_width, bias=qkv_bias)
        block["norms"] = nn.ModuleList([nn.RMSNorm(width), nn.RMSNorm(width)])
        if experts and place >= dense_layers:
            block["router"] = nn.Linear(width, experts, bias=False)
            block["experts"] = nn.ModuleList(llama_mlp(width, more["expert_hidden"]) for _ in range(experts))
        else:
            block["mlp"] = llama_mlp(width, hidden)
        model["blocks"].append(block)
    model["norm"], model["head"] = nn.RMSNorm(width), nn.Linear(width, vocab, bias=False)
    if tied:
        model["head"].weight = model["embed"].weight
    return model


def active(model, top_k):
    """Elements that one token uses: of the experts of a layer only ``top_k``."""
    idle = [one for block in model["blocks"] if "experts" in block for one in block["experts"][top_k:]]
    return counted(model) - counted(*idle)


@given(
    st.fixed_dictionaries(
        {
            "layers": st.integers(1, 3),
            "vocab": SMALL,
            "hidden": SMALL,
            "qkv_bias": FLAG,
            "tied": FLAG,
            "experts": st.integers(0, 4),
            "expert_hidden": SMALL,
        }
    ),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 3),
    st.data(),
)
@few
def test_a_llama_is_its_layers_whatever_its_shape(shape, kv_heads, repeat, half, data):
    heads = kv_heads * repeat
    shape |= {"heads": heads, "kv_heads": kv_heads, "width": heads * 2 * half}
    shape["dense_layers"] = data.draw(st.integers(0, shape["layers"]))
    top_k = data.draw(st.integers(1, max(1, shape["experts"])))
    model, found = llama(**shape), formula("decoder", LLAMA | shape | {"top_k": top_k})
    assert found.total == counted(model)
    assert found.active == active(model, top_k)
    assert found.embedding == counted(model["embed"], model["head"])


@given(st.integers(1, 3), st.integers(1, 3), SMALL, SMALL, SMALL, SMALL, FLAG)
@few
def test_a_gpt_is_torch_encoder_layers_between_two_tables(
    count, heads, head_dim, hidden, vocab, context, tied
):
    width = heads * head_dim
    block = nn.TransformerEncoderLayer(width, heads, hidden)
    head = nn.Linear(width, vocab, bias=False)
    tables = [nn.Embedding(vocab, width), nn.Embedding(context, width)]
    if tied:
        head.weight = tables[0].weight
    args = {
        "layers": count,
        "heads": heads,
        "width": width,
        "hidden": hidden,
        "vocab": vocab,
        "context": context,
    }
    found = formula("decoder", args | {"tied": tied})
    assert found.total == count * counted(block) + counted(nn.LayerNorm(width), head, *tables)
    assert found.parts[f"{count} blocks"] == count * counted(block)


@given(st.integers(1, 3), st.integers(1, 3), SMALL, SMALL, SMALL, SMALL, st.integers(0, 3))
@few
def test_a_bert_is_torch_encoder_layers_with_a_head_for_masked_tokens(
    count, heads, head_dim, hidden, vocab, context, segments
):
    width = heads * head_dim
    tables = [nn.Embedding(vocab, width), nn.Embedding(context, width)]
    tables += [nn.Embedding(segments, width)] if segments else []
    blocks = [nn.TransformerEncoderLayer(width, heads, hidden) for _ in range(count)]
    head = [nn.Linear(width, width), nn.LayerNorm(width), nn.Linear(width, vocab)]
    head[2].weight = tables[0].weight
    args = {
        "layers": count,
        "heads": heads,
        "width": width,
        "hidden": hidden,
        "vocab": vocab,
        "context": context,
    }
    found = formula("encoder", args | {"segments": segments})
    assert found.total == counted(*tables, nn.LayerNorm(width), *blocks, *head)
    assert found.embedding == counted(*tables)


@given(st.integers(1, 3), st.integers(1, 3), SMALL, SMALL, st.integers(1, 4), st.integers(1, 3), FLAG, SMALL)
@few
def test_a_vit_is_a_convolution_torch_encoder_layers_and_a_classifier(
    count, heads, head_dim, channels, patch, side, class_token, classes
):
    width = heads * head_dim
    blocks = [nn.TransformerEncoderLayer(width, heads, 4 * width) for _ in range(count)]
    places = nn.Embedding(side * side + class_token, width)
    around = [
        nn.Conv2d(channels, width, patch, patch),
        places,
        nn.LayerNorm(width),
        nn.Linear(width, classes),
    ]
    args = {"layers": count, "heads": heads, "width": width, "in_channels": channels, "classes": classes}
    args |= {"inputs": "patches", "size": side * patch, "patch": patch, "class_token": class_token}
    found = formula("encoder", args)
    assert found.total == counted(*blocks, *around) + (width if class_token else 0)
    assert found.embedding == counted(places)


def conv_norm(inputs, outputs, kernel, groups=1):
    return [nn.Conv2d(inputs, outputs, kernel, groups=groups, bias=False), nn.BatchNorm2d(outputs)]


@given(
    st.lists(st.tuples(st.sampled_from([4, 8, 12]), st.integers(1, 3)), min_size=1, max_size=3),
    st.sampled_from(["basic", "bottleneck"]),
    st.sampled_from([1, 2]),
    st.sampled_from([0, 4]),
)
@few
def test_a_residual_network_projects_where_the_shape_changes(stages, block, groups, stem):
    made = conv_norm(3, stem, 7) if stem else []
    before = stem or 3
    for stage, (after, depth) in enumerate(stages):
        for place in range(depth):
            image = not (stem or stage or place)
            if block == "basic":
                made += conv_norm(before, after, 3, 1 if image else groups) + conv_norm(
                    after, after, 3, groups
                )
            else:
                inner = after // 2
                made += (
                    conv_norm(before, inner, 1)
                    + conv_norm(inner, inner, 3, groups)
                    + conv_norm(inner, after, 1)
                )
            if before != after or (stage and not place):
                made += conv_norm(before, after, 1)
            before = after
    made.append(nn.Linear(before, 10))
    args = {
        "channels": [after for after, _ in stages],
        "depths": [depth for _, depth in stages],
        "block": block,
    }
    assert formula("convnet", args | {"groups": groups, "stem": stem, "expansion": 2}).total == counted(*made)


@given(SMALL, st.lists(SMALL, max_size=3), SMALL, FLAG, st.sampled_from(["none", "batch", "layer"]))
@few
def test_an_mlp_has_a_norm_after_every_hidden_layer(inputs, hidden, outputs, bias, norm):
    kinds = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}
    widths = [inputs, *hidden, outputs]
    made = [nn.Linear(before, after, bias=bias) for before, after in pairwise(widths)]
    made += [kinds[norm](width) for width in hidden] if norm in kinds else []
    args = {"inputs": inputs, "hidden": hidden, "outputs": outputs, "bias": bias, "norm": norm}
    assert formula("mlp", args).total == counted(*made)


@pytest.mark.parametrize(
    ("args", "total"),
    [
        ({"block": "basic", "stem": 64, "channels": [64, 128, 256, 512], "depths": [2, 2, 2, 2]}, 11_689_512),
        (
            {"block": "bottleneck", "stem": 64, "channels": [256, 512, 1024, 2048], "depths": [3, 4, 6, 3]},
            25_557_032,
        ),
        (
            {"block": "bottleneck", "stem": 64, "channels": [256, 512, 1024, 2048], "depths": [3, 8, 36, 3]},
            60_192_808,
        ),
        (
            {
                "block": "bottleneck",
                "stem": 64,
                "channels": [256, 512, 1024, 2048],
                "depths": [3, 4, 23, 3],
                "groups": 32,
                "expansion": 1,
            },
            88_791_336,
        ),
        (
            {
                "block": "inverted",
                "stem": 32,
                "stem_kernel": 3,
                "channels": [16, 24, 32, 64, 96, 160, 320],
                "depths": [1, 2, 3, 4, 3, 3, 1],
                "expansion": [1, 6, 6, 6, 6, 6, 6],
                "last": 1280,
            },
            3_504_872,
        ),
        (
            {
                "block": "convnext",
                "stem": 96,
                "stem_kernel": 4,
                "channels": [96, 192, 384, 768],
                "depths": [3, 3, 9, 3],
            },
            28_589_128,
        ),
    ],
    ids=["resnet-18", "resnet-50", "resnet-152", "resnext-101-32x8d", "mobilenet-v2", "convnext-t"],
)
def test_published_convolutional_networks_come_out_exactly(args, total):
    assert formula("convnet", args | {"classes": 1000, "size": 224}).total == total


def test_published_encoders_come_out_exactly():
    bert = {"vocab": 30522, "context": 512}
    base = formula("encoder", bert | {"layers": 12, "heads": 12, "width": 768})
    large = formula("encoder", bert | {"layers": 24, "heads": 16, "width": 1024})
    assert (base.total, large.total) == (109_514_298, 335_174_458)
    vit = {
        "inputs": "patches",
        "layers": 12,
        "heads": 12,
        "width": 768,
        "size": 224,
        "patch": 16,
        "classes": 1000,
    }
    assert formula("encoder", vit).total == 86_567_656


# --- faults that people reported of counters --------------------------------------------------------------------------


def test_a_head_that_shares_the_embedding_is_one_tensor_and_two_checkpoint_entries():
    # P01; the sum of the checkpoint's entries is no number of parameters
    for shape in (
        {"layers": 6, "heads": 6, "width": 288, "vocab": 32000, "hidden": 768},
        {"layers": 2, "heads": 2, "width": 8, "vocab": 100, "hidden": 12},
    ):
        model, found = llama(**shape, tied=True), formula("decoder", LLAMA | shape)
        assert found.total == counted(model)
        assert entries(model) - found.total == shape["vocab"] * shape["width"] == found.embedding
        assert found.parts["output head"] == 0
    small = {"layers": 6, "heads": 6, "width": 288, "vocab": 32000, "hidden": 768}
    assert formula("decoder", LLAMA | small).total == 15_191_712


def test_a_group_of_outputs_sees_only_its_share_of_the_inputs():
    # P08: 12 groups of 24 channels still see 2 channels each
    first = layers.conv(3, 24, 3, bias=False)
    assert first + layers.conv(24, 24, 3, groups=24, bias=False) == 864
    assert first + 2 * layers.conv(24, 12, 3, groups=12, bias=False) == 1080
    for inputs, outputs, groups in ((24, 12, 12), (24, 24, 24), (18, 27, 9)):
        real = counted(nn.Conv2d(inputs, outputs, 3, groups=groups, bias=False))
        assert layers.conv(inputs, outputs, 3, groups=groups, bias=False) == real


def test_fewer_key_heads_and_a_third_matrix_need_no_fudge_factor():
    # P09: with as many key as query heads and two matrices the formula is wrong by exactly these
    shape = {"layers": 32, "heads": 32, "kv_heads": 8, "width": 4096, "hidden": 14336, "vocab": 128256}
    found = formula("decoder", LLAMA | shape | {"tied": False})
    assert found.total == 8_030_261_248
    naive = formula("decoder", LLAMA | shape | {"tied": False, "kv_heads": 32, "gated": False})
    assert found.total - naive.total == 32 * (4096 * 14336 - 2 * 4096 * 24 * 128)
    small = {"layers": 2, "heads": 8, "kv_heads": 2, "width": 32, "hidden": 112, "vocab": 60}
    assert formula("decoder", LLAMA | small | {"tied": False}).total == counted(llama(**small))


def test_experts_have_their_own_width_and_the_first_layers_none():
    # P11
    shape = {"layers": 4, "heads": 4, "kv_heads": 2, "width": 64, "vocab": 1000, "hidden": 256}
    shape |= {"expert_hidden": 96, "experts": 8, "dense_layers": 1}
    found = formula("decoder", LLAMA | shape | {"tied": False, "top_k": 2})
    assert (found.total, found.active) == (670_784, 339_008)
    other = shape | {"layers": 5, "experts": 3, "dense_layers": 2, "expert_hidden": 20}
    for args in (shape, other):
        model, found = llama(**args), formula("decoder", LLAMA | args | {"tied": False, "top_k": 2})
        assert (found.total, found.active) == (counted(model), active(model, 2))


def test_biases_of_query_key_and_value_alone_are_in_every_layer():
    # P13
    shape = {"layers": 80, "heads": 64, "kv_heads": 8, "width": 8192, "hidden": 29568, "vocab": 152064}
    with_bias = formula("decoder", LLAMA | shape | {"tied": False, "qkv_bias": True}).total
    assert with_bias == 72_706_203_648
    assert with_bias - formula("decoder", LLAMA | shape | {"tied": False}).total == 819_200
    small = {"layers": 3, "heads": 6, "kv_heads": 2, "width": 24, "hidden": 10, "vocab": 9, "qkv_bias": True}
    assert formula("decoder", LLAMA | small | {"tied": False}).total == counted(llama(**small))


def test_packing_halves_the_stored_elements_and_not_the_parameters():
    # P15
    shape = {"layers": 32, "heads": 32, "width": 4096, "hidden": 11008, "vocab": 32000}
    linear = [(4096, 4096)] * 4 + [(4096, 11008)] * 2 + [(11008, 4096)]
    logical = formula("decoder", LLAMA | shape | {"tied": False}).total
    packed = [stored.packed(inputs, outputs, 4) for inputs, outputs in linear]
    payload = 32 * sum(one.payload_bytes for one in packed)
    assert (logical, payload) == (6_738_415_616, 3_238_002_688)
    assert logical - 32 * sum(one.logical for one in packed) + payload == 3_500_412_928
    # adapters of rank 16 on all of them are what the reported 3,540,389,888 has on top
    assert 32 * sum(layers.lora(16, *sides) for sides in linear) == 3_540_389_888 - 3_500_412_928
    # another instance: every second code of a small matrix moves into the byte of the first
    codes = torch.zeros(6, 10, dtype=torch.uint8, device="cpu").flatten()
    assert (
        stored.packed(10, 6, 4).payload_bytes == (codes[::2] << 4 | codes[1::2]).nbytes == codes.numel() // 2
    )


# --- what is shown ----------------------------------------------------------------------------------------------------


@given(
    st.sampled_from(sorted(FAMILIES)), FLAG, FLAG, st.integers(0, 3), st.sampled_from(["plain", "bottleneck"])
)
@few
def test_terms_of_a_family_add_up_to_its_total(family, tied, flag, rank, block):
    args = {
        "decoder": {"tied": tied, "qk_norm": flag, "experts": 2 * rank, "lora_rank": rank, "gated": flag},
        "encoder": {"tied": tied, "pooler": flag, "lora_rank": rank, "segments": rank},
        "convnet": {"block": block, "stem": 8 * rank, "last": 5 if flag else 0, "depths": [1, 2, 3]},
        "mlp": {"bias": tied, "norm": "layer" if flag else "none"},
    }[family]
    found = formula(family, args)
    assert KINDS[family].work(args).total == found.total == sum(found.parts.values())
