"""What the families refuse, each mistake in one sentence."""

import pytest

from tui.probe import families
from tui.probe.faults import TaskError


def complain(name, **args):
    def use():
        family, cfg = families.load(name, args)
        family.build(cfg)

    with pytest.raises(TaskError) as caught:
        use()
    assert caught.value.kind == "workload"
    return caught.value


@pytest.mark.parametrize(
    ("name", "args", "sentence", "hint"),
    [
        (
            "decoder",
            {"layer": 2},
            "workload.args.layer is not an argument of decoder",
            "did you mean layers?",
        ),
        ("mlp", {"inptus": 2}, "workload.args.inptus is not an argument of mlp", "did you mean inputs?"),
        ("decoder", {"layers": "2"}, "workload.args.layers of decoder must be int, got '2'", ""),
        ("decoder", {"layers": True}, "workload.args.layers of decoder must be int, got True", ""),
        ("decoder", {"tied": 1}, "workload.args.tied of decoder must be bool, got 1", ""),
        ("decoder", {"norm": "batch"}, "workload.args.norm must be layernorm or rmsnorm, got 'batch'", ""),
        ("convnet", {"norm": "layer"}, "workload.args.norm must be batch, group or none, got 'layer'", ""),
        (
            "decoder",
            {"width": 130},
            "workload.args.width (130) is not a multiple of heads (4)",
            "change one of them, or set head_dim",
        ),
        ("decoder", {"kv_heads": 3}, "workload.args.heads (4) is not a multiple of kv_heads (3)", ""),
        ("decoder", {"kv_heads": "2"}, "workload.args.kv_heads of decoder must be int, got '2'", ""),
        ("decoder", {"layers": 0}, "workload.args.layers must be at least 1, got 0", ""),
        ("decoder", {"experts": -1}, "workload.args.experts must be at least 0, got -1", ""),
        ("decoder", {"layers": 2.0}, "workload.args.layers of decoder must be int, got 2.0", ""),
        ("decoder", {"dropout": 1}, "workload.args.dropout must be at least 0 and less than 1, got 1", ""),
        ("decoder", {"rope_base": 0}, "workload.args.rope_base must be above 0, got 0", ""),
        (
            "decoder",
            {"norm": "rmsnrm"},
            "workload.args.norm must be layernorm or rmsnorm, got 'rmsnrm'",
            "did you mean rmsnorm?",
        ),
        (
            "decoder",
            {"head_dim": 3, "positions": "rotary"},
            "workload.args.head_dim (3) is odd, and rotary positions turn channels in pairs",
            "set an even head_dim, or width to an even multiple of heads",
        ),
        (
            "decoder",
            {"experts": 1},
            "workload.args.top_k (2) is more than experts (1)",
            "a token cannot use more experts than there are: lower top_k",
        ),
        (
            "decoder",
            {"shared_experts": 1},
            "workload.args.shared_experts (1) stand beside routed experts, and experts is 0",
            "set experts, or hidden for a plain MLP",
        ),
        (
            "decoder",
            {"experts": 4, "shared_gate": True},
            "workload.args.shared_gate needs shared_experts",
            "set shared_experts to 1 or more",
        ),
        ("decoder", {"dense_layers": 5}, "workload.args.dense_layers (5) is more than layers (4)", ""),
        (
            "decoder",
            {"lora_rank": 2, "lora_targets": ["qkv", "prj"]},
            "workload.args.lora_targets must hold qkv, proj, gate, up or down, got 'prj'",
            "did you mean proj?",
        ),
        (
            "encoder",
            {"width": 30},
            "workload.args.width (30) is not a multiple of heads (4)",
            "change one of them",
        ),
        (
            "encoder",
            {"inputs": "patches", "size": 30},
            "workload.args.size (30) is not a multiple of workload.args.patch (4)",
            "change one of them",
        ),
        (
            "encoder",
            {"inputs": "patches", "head": "mlm"},
            'workload.args.head = "mlm" completes tokens, and inputs are patches',
            'set head = "classify", or inputs = "tokens"',
        ),
        ("mlp", {"hidden": [4, 0]}, "workload.args.hidden must hold whole numbers of at least 1, got 0", ""),
        ("mlp", {"hidden": 4}, "workload.args.hidden of mlp must be list, got 4", ""),
        (
            "convnet",
            {"channels": []},
            "workload.args.channels is empty",
            "name the channels of at least one stage",
        ),
        (
            "convnet",
            {"depths": [1, 2]},
            "workload.args.depths names 2 stages, and channels 3",
            "give one number for each stage",
        ),
        (
            "convnet",
            {"expansion": "4"},
            "workload.args.expansion of convnet must be int or list, got '4'",
            "",
        ),
        (
            "convnet",
            {"block": "bottleneck", "expansion": 5},
            "workload.args.expansion (5) does not divide 32 channels",
            "the middle of a bottleneck has channels / expansion",
        ),
        (
            "convnet",
            {"block": "basic", "kernel": 4},
            "workload.args.kernel (4) is even, which shifts the sides of a residual block",
            "set an odd kernel",
        ),
        (
            "convnet",
            {"block": "inverted", "groups": 2},
            "workload.args.groups (2) is not for inverted blocks",
            "groups are for plain, basic, bottleneck",
        ),
        (
            "convnet",
            {"norm": "group", "norm_groups": 3},
            "workload.args.norm_groups (3) does not divide 32 channels",
            "",
        ),
        (
            "convnet",
            {"block": "convnext", "stem": 32, "size": 12},
            "workload.args.size (12) is too small: stem and stages divide the side by 28",
            "enlarge it, or take fewer stages or a smaller stem_kernel",
        ),
    ],
)
def test_a_wrong_argument_is_one_sentence(name, args, sentence, hint):
    error = complain(name, **args)
    assert (error.sentence, error.hint) == (sentence, hint)


def test_an_argument_far_from_all_lists_what_there_is():
    assert complain("mlp", zzz=1).hint == "it has activation, bias, dropout, hidden, inputs, norm, outputs"


def test_channels_that_the_groups_do_not_divide_are_refused():
    assert "does not divide 32 and 33 channels" in complain("convnet", channels=[32, 33], groups=2).sentence


def test_no_segments_no_stem_and_no_experts_are_fine():
    assert families.load("encoder", {"segments": 0})[1]["segments"] == 0
    assert families.load("convnet", {"stem": 0, "last": 0})[1]["stem"] == 0


@pytest.mark.parametrize("name", ["decoder", "encoder"])
def test_a_length_beyond_the_learned_positions_is_refused(name):
    family, cfg = families.load(name, {"context": 16})
    with pytest.raises(TaskError, match="length 17 is longer"):
        family.batch(2, 0, "train", 17, cfg)


def test_a_whole_number_is_fine_where_a_float_is_meant():
    assert families.load("decoder", {"dropout": 0})[1]["dropout"] == 0


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("mlp", {"norm": "batch"}, "batch norm needs 2 samples or more"),
        ("convnet", {"size": 4}, "batch norm has one value a channel"),
        ("convnet", {"size": 16, "block": "basic", "stem": 8}, "batch norm has one value a channel"),
    ],
)
def test_a_single_sample_that_batch_norm_cannot_use_is_refused(name, args, said):
    family, cfg = families.load(name, args)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        family.build(cfg)(**{key: one[:1] for key, one in family.batch(2, 0, "train", None, cfg).items()})
    with pytest.raises(TaskError, match=said):
        family.batch(1, 0, "train", None, cfg)


@pytest.mark.parametrize("size", [5, 8, 17])
def test_a_single_sample_with_more_than_one_pixel_left_is_fine(size):
    family, cfg = families.load("convnet", {"size": size})
    assert family.build(cfg)(**family.batch(1, 0, "train", None, cfg)).isfinite()
