"""Low-bit weights: what they are logically, and payload and metadata apart.

The stand-ins have the attributes of bitsandbytes, torchao, GPTQ and AWQ as those packages give them.
"""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tui.probe import families, inventory
from tui.probe.faults import TaskError
from tui.probe.identity import holdings
from tui.probe.tracker import Tracker


def four_bit(shape, device="cpu", block=64, nested=False):
    """A parameter as bitsandbytes leaves it after packing: two values a byte, and a state that says the rest."""
    elements = shape[0] * shape[1]
    one = nn.Parameter(torch.empty((elements // 2, 1), dtype=torch.uint8, device=device), requires_grad=False)
    blocks = elements // block
    state = SimpleNamespace(
        shape=torch.Size(shape),
        quant_type="nf4",
        code=torch.empty(16, device=device),
        absmax=torch.empty(blocks, dtype=torch.uint8 if nested else torch.float32, device=device),
        offset=torch.empty((), device=device) if nested else None,
        state2=None,
    )
    if nested:
        scales = torch.empty(-(-blocks // 256), device=device)
        state.state2 = SimpleNamespace(
            absmax=scales, code=torch.empty(256, device=device), offset=None, state2=None
        )
    one.quant_state = state
    return one


def test_a_7b_decoder_in_4_bits_keeps_its_logical_parameters():
    args = {"vocab": 32000, "width": 4096, "layers": 32, "heads": 32, "hidden": 11008, "gated": True}
    args |= {"norm": "rmsnorm", "positions": "rotary", "bias": False, "tied": False}
    family, cfg = families.load("decoder", args)
    with torch.device("meta"):
        model = family.build(cfg)
    for module in model.blocks.modules():
        if isinstance(module, nn.Linear):
            module.weight = four_bit(tuple(module.weight.shape), "meta")
    found = inventory.take(model, family.GROUPS)
    assert (found["unique_parameters"], found["stored_elements"]) == (6_738_415_616, 3_500_412_928)
    assert (found["packed_parameters"], found["packed_payload_bytes"]) == (6_476_005_376, 3_238_002_688)
    assert sum(found["groups"].values()) == 6_738_415_616
    assert found["state"] == "packed"


def test_scales_code_books_and_packed_scales_are_metadata():
    model = nn.Linear(256, 128, bias=False)
    model.weight = four_bit((128, 256), nested=True)
    found = inventory.take(model)
    # 512 scales of a byte, 16 values, an offset; their own 2 scales and 256 values
    assert found["packed_metadata_bytes"] == 512 + 16 * 4 + 4 + 2 * 4 + 256 * 4
    assert found["packed_payload_bytes"] == 128 * 256 // 2
    assert found["parameter_bytes"] == found["packed_payload_bytes"] + found["packed_metadata_bytes"]
    assert found["dtypes"] == {"nf4": 128 * 256}


def test_an_8_bit_layer_has_its_scales_on_the_weight_and_after_a_forward_on_its_state():
    model = nn.Linear(6, 4, bias=False)
    model.weight = nn.Parameter(torch.zeros(4, 6, dtype=torch.int8), requires_grad=False)
    model.weight.SCB = torch.zeros(4)
    before = inventory.take(model)
    model.weight.SCB, model.state = None, SimpleNamespace(SCB=torch.zeros(4))
    for found in (before, inventory.take(model)):
        assert (found["packed_parameters"], found["stored_elements"]) == (24, 24)
        assert (found["packed_payload_bytes"], found["packed_metadata_bytes"]) == (24, 16)


def test_plain_integers_are_not_packed():
    model = nn.Linear(6, 4, bias=False)
    model.weight = nn.Parameter(torch.zeros(4, 6, dtype=torch.int8), requires_grad=False)
    assert inventory.take(model)["packed_parameters"] == 0


class Quantized(torch.Tensor):
    """A wrapper of the kind that torchao makes."""

    @staticmethod
    def __new__(cls, shape, **inner):
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.bfloat16)

    def __init__(self, shape, **inner):
        self.inner = list(inner)
        for name, one in inner.items():
            setattr(self, name, one)

    def __tensor_flatten__(self):
        return self.inner, None

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            one = args[0]
            return cls(one.shape, **{name: getattr(one, name) for name in one.inner})
        raise NotImplementedError(func)


def packed_4_bit():
    return Quantized(
        (8, 64),
        qdata=torch.zeros(8, 32, dtype=torch.uint8),
        scale=torch.zeros(8, 2, dtype=torch.bfloat16),
        zero_point=torch.zeros(8, 2, dtype=torch.int8),
    )


def nested_8_bit():
    inner = Quantized((8, 64), int_data=torch.zeros(8, 64, dtype=torch.int8), scale=torch.zeros(8))
    return Quantized((8, 64), tensor_impl=inner)


def float8():
    return Quantized((8, 64), qdata=torch.zeros(8, 64).to(torch.float8_e4m3fn), scale=torch.zeros(8, 1))


@pytest.mark.parametrize(
    ("made", "dtype", "payload", "metadata"),
    [(packed_4_bit, "int4", 256, 48), (nested_8_bit, "int8", 512, 32), (float8, "float8_e4m3fn", 512, 32)],
)
def test_a_tensor_subclass_counts_as_what_it_stands_for(made, dtype, payload, metadata):
    model = nn.Linear(64, 8)
    model.weight = nn.Parameter(made(), requires_grad=False)
    found = inventory.take(model)
    assert (found["unique_parameters"], found["packed_parameters"]) == (8 * 64 + 8, 8 * 64)
    assert (found["packed_payload_bytes"], found["packed_metadata_bytes"]) == (payload, metadata)
    assert found["storage_bytes"] == payload + metadata + 32
    assert found["dtypes"] == {dtype: 512, "float32": 8}


def test_a_subclass_without_low_bit_parts_is_not_packed():
    model = nn.Linear(64, 8, bias=False)
    model.weight = nn.Parameter(Quantized((8, 64), left=torch.zeros(8, 64), right=torch.zeros(8, 64)))
    found = inventory.take(model)
    assert (found["unique_parameters"], found["packed_parameters"]) == (512, 0)


def grouped(bias=True, features=True, held_as="buffer", bits=4):
    """A linear layer of 64 inputs and 16 outputs as GPTQ packs it, in groups of 32."""
    model = nn.Module()
    values = {
        "qweight": torch.zeros(64 * bits // 32, 16, dtype=torch.int32),
        "qzeros": torch.zeros(2, 16 * bits // 32, dtype=torch.int32),
        "scales": torch.zeros(2, 16, dtype=torch.float16),
        "g_idx": torch.zeros(64, dtype=torch.int32),
    }
    if bias:
        values["bias"] = torch.zeros(16, dtype=torch.float16)
    for name, one in values.items():
        if held_as == "buffer":
            model.register_buffer(name, one)
        else:
            setattr(model, name, nn.Parameter(one, requires_grad=False))
    if features:
        model.in_features, model.out_features = 64, 16
    return model


@pytest.mark.parametrize("held_as", ["buffer", "parameter"])
@pytest.mark.parametrize("features", [True, False])
def test_a_packed_module_counts_its_inputs_times_its_outputs_whatever_holds_it(held_as, features):
    model = grouped(held_as=held_as, features=features)
    if not features:
        model.bits = 4
    found = inventory.take(nn.Sequential(model, nn.Linear(16, 2, bias=False)))
    assert (found["unique_parameters"], found["packed_parameters"]) == (64 * 16 + 16 + 32, 64 * 16)
    assert found["packed_payload_bytes"] == 64 * 16 // 2
    assert found["packed_metadata_bytes"] == 2 * 2 * 4 + 2 * 16 * 2 + 64 * 4
    assert found["buffer_elements"] == 0
    assert found["dtypes"] == {"int4": 1024, "float16": 16, "float32": 32}
    assert found["groups"] == {"0": 1040, "1": 32}


def test_a_packed_module_that_says_no_size_is_refused():
    with pytest.raises(TaskError) as caught:
        inventory.take(grouped(features=False))
    assert "Module keeps a packed qweight and says neither in_features and out_features nor bits" in (
        caught.value.sentence
    )


def test_a_packed_weight_that_two_layers_share_is_one():
    one = grouped(bias=False)
    other = grouped(bias=False)
    for name in ("qweight", "qzeros", "scales", "g_idx"):
        other._buffers[name] = one._buffers[name]
    assert [held.elements for held in holdings(nn.Sequential(one, other)).parameters] == [1024]


# --- names of their own ----------------------------------------------------------------------------------------------


def frozen(*shape, dtype=torch.uint8):
    return nn.Parameter(torch.zeros(shape).to(dtype), requires_grad=False)


def hqq():
    model = nn.Module()
    model.W_q = frozen(32 * 32, 1)
    model.meta = {"shape": (32, 64), "nbits": 4, "scale": torch.zeros(32, 1), "zero": torch.zeros(32, 1)}
    return model


def compressed(features=True):
    model = nn.Module()
    model.weight_packed = frozen(32, 8, dtype=torch.int32)
    model.weight_scale = frozen(32, 1, dtype=torch.bfloat16)
    model.weight_shape = nn.Parameter(torch.tensor([32, 64]), requires_grad=False)
    if features:
        model.in_features, model.out_features = 64, 32
    return model


def float8_with_scales():
    model = nn.Module()
    model.weight = frozen(32, 64, dtype=torch.float8_e4m3fn)
    model.weight_scale_inv = frozen(1, 1, dtype=torch.float32)
    return model


def microscaled():
    model = nn.Module()
    for name in ("gate_up_proj", "down_proj"):
        setattr(model, name + "_blocks", frozen(2, 8, 2, 16))
        setattr(model, name + "_scales", frozen(2, 8, 2))
    return model


@pytest.mark.parametrize(
    ("made", "elements", "dtype", "payload", "metadata"),
    [
        (hqq, 32 * 64, "int4", 1024, 2 * 32 * 4),
        (compressed, 32 * 64, "int4", 1024, 32 * 2 + 2 * 8),
        (lambda: compressed(features=False), 32 * 64, "int4", 1024, 32 * 2 + 2 * 8),
        (float8_with_scales, 32 * 64, "float8_e4m3fn", 2048, 4),
        (microscaled, 2 * (2 * 8 * 64), "mxfp4", 2 * 512, 2 * 32),
    ],
    ids=["HQQ", "compressed-tensors", "by its shape tensor", "float8", "MXFP4"],
)
def test_weights_under_names_of_their_own_count_as_what_they_stand_for(
    made, elements, dtype, payload, metadata
):
    found = inventory.take(nn.Sequential(made(), nn.Linear(2, 2, bias=False)))
    assert (found["unique_parameters"], found["packed_parameters"]) == (elements + 4, elements)
    assert (found["packed_payload_bytes"], found["packed_metadata_bytes"]) == (payload, metadata)
    assert found["dtypes"] == {dtype: elements, "float32": 4}


def test_a_model_of_tensor_subclasses_can_be_tracked():
    model = nn.Linear(64, 8)
    model.weight = nn.Parameter(packed_4_bit(), requires_grad=False)
    held = [model.weight.qdata, model.weight.scale, model.weight.zero_point, model.bias]
    addresses = {one.untyped_storage().data_ptr() for one in held}
    assert Tracker(model)._weights == addresses


def test_what_is_not_packed_is_named_by_its_kind_and_listed_by_its_shape():
    model = nn.Sequential(nn.Embedding(10, 256), nn.Linear(256, 128), nn.LayerNorm(128))
    model[1].weight = four_bit((128, 256))
    model[0].requires_grad_(False)
    found = inventory.take(model)
    assert found["unpacked"] == {
        "Embedding.weight": 2560,
        "Linear.bias": 128,
        "LayerNorm.weight": 128,
        "LayerNorm.bias": 128,
    }
    assert found["shapes"] == {"10x256 float32 frozen": 1, "128 float32": 3}
    assert inventory.take(nn.Linear(3, 2))["unpacked"] == {}
