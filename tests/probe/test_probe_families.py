import pytest
import torch

from tui.probe import families
from tui.probe.families import convolutions, norms, rotary, tokens
from tui.probe.faults import TaskError


@pytest.mark.parametrize("name", families.NAMES)
def test_batches_are_a_pure_function_of_their_arguments(name):
    family, cfg = families.load(name, {})
    first, again = (family.batch(3, 5, "train", None, cfg) for _ in range(2))
    other, valid = family.batch(3, 6, "train", None, cfg), family.batch(3, 5, "valid", None, cfg)
    for key, value in first.items():
        assert value.shape[0] == 3
        assert torch.equal(value, again[key])
    assert any(not torch.equal(value, other[key]) for key, value in first.items())
    assert any(not torch.equal(value, valid[key]) for key, value in first.items())


CASES = [
    ("decoder", {"layers": 2, "width": 32, "vocab": 16, "context": 16}),
    (
        "decoder",
        {
            "layers": 2,
            "width": 32,
            "vocab": 16,
            "context": 16,
            "kv_heads": 2,
            "head_dim": 16,
            "gated": True,
            "norm": "rmsnorm",
            "positions": "rotary",
            "bias": False,
            "tied": False,
            "qk_norm": True,
            "post_norms": True,
            "experts": 4,
            "expert_hidden": 32,
            "shared_experts": 1,
            "shared_gate": True,
            "dense_layers": 1,
        },
    ),
    ("encoder", {"layers": 2, "width": 32, "vocab": 16, "context": 16}),
    ("encoder", {"layers": 2, "width": 32, "vocab": 16, "context": 16, "head": "classify", "pooler": True}),
    ("encoder", {"inputs": "patches", "layers": 2, "width": 32, "size": 16}),
    ("encoder", {"inputs": "patches", "layers": 1, "width": 32, "size": 16, "class_token": False}),
    ("mlp", {}),
    ("mlp", {"norm": "batch", "activation": "gelu"}),
    ("mlp", {"norm": "layer", "activation": "tanh", "bias": False}),
    ("convnet", {"channels": [16, 32], "size": 16}),
    ("convnet", {"channels": [16, 32], "size": 16, "depths": [1, 2], "groups": 4, "norm": "none"}),
    ("convnet", {"channels": [16, 32], "size": 16, "block": "depthwise", "stem": 8, "stem_kernel": 3}),
    ("convnet", {"channels": [16, 32], "size": 16, "block": "basic", "norm": "group", "norm_groups": 4}),
    ("convnet", {"channels": [16, 32], "size": 32, "block": "bottleneck", "stem": 8}),
    ("convnet", {"channels": [16, 32], "size": 16, "block": "inverted", "expansion": [1, 6], "last": 64}),
    (
        "convnet",
        {"channels": [16, 32], "size": 16, "block": "convnext", "stem": 16, "stem_kernel": 2, "last": 64},
    ),
]


def steps(family, cfg, count, lr, n=16):
    """Losses of a training from a fixed beginning, and the model."""
    torch.manual_seed(0)
    model, losses = family.build(cfg), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for index in range(count):
        optimizer.zero_grad()
        loss = model(**family.batch(n, index, "train", None, cfg))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, model


@pytest.mark.parametrize(("name", "args"), CASES)
def test_the_loss_of_every_kind_falls_in_tens_of_steps_and_everything_has_a_gradient(name, args):
    family, cfg = families.load(name, args)
    losses, model = steps(family, cfg, 40, 5e-3)
    assert sum(losses[-5:]) / 5 < 0.95 * losses[0]
    assert [path for path, one in model.named_parameters() if one.grad is None] == []


@pytest.mark.parametrize(("name", "args"), CASES)
def test_every_kind_is_built_on_the_meta_device_without_a_value(name, args):
    family, cfg = families.load(name, args)
    with torch.device("meta"):
        model = family.build(cfg)
    assert all(one.is_meta for one in [*model.parameters(), *model.buffers()])
    real = family.build(cfg)
    assert {path: one.shape for path, one in model.named_parameters()} == {
        path: one.shape for path, one in real.named_parameters()
    }


@pytest.mark.parametrize(
    "args",
    [{"layers": 1, "width": 32, "context": 8}, {"inputs": "patches", "layers": 1, "width": 32, "size": 8}],
)
def test_an_encoders_attention_by_hand_and_by_the_fused_operator_agree(args):
    losses = []
    for attention in ("sdpa", "eager"):
        family, cfg = families.load("encoder", {**args, "attention": attention})
        torch.manual_seed(0)
        losses.append(float(family.build(cfg)(**family.batch(2, 0, "train", None, cfg)).detach()))
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


def test_a_decoder_sees_the_past_alone_and_an_encoder_everything():
    for name, sees in (("decoder", False), ("encoder", True)):
        family, cfg = families.load(name, {"layers": 1, "width": 16, "vocab": 16, "context": 8})
        model = family.build(cfg).eval()
        ids = torch.arange(8).view(1, 8)
        other = ids.clone()
        other[0, -1] = 15
        moved = (model(ids) - model(other)).abs().amax(-1)[0, :-1] > 1e-7
        assert moved.tolist() == [sees] * 7


def test_rotary_scores_depend_on_the_distance_alone():
    q, k = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    cos, sin = rotary.angles(20, 8, 10000.0, q)
    score = rotary.rotate(q.expand(1, 1, 20, 8), cos, sin) @ rotary.rotate(k.expand(1, 1, 20, 8), cos, sin).mT
    for distance in (0, 3, 11):
        line = score[0, 0].diagonal(-distance)
        assert torch.allclose(line, line[:1].expand_as(line), atol=1e-4)
    assert not torch.allclose(score[0, 0, 3, 0], score[0, 0, 0, 0], atol=1e-2)


def test_rotary_positions_turn_complex_numbers_by_powers_of_the_base():
    """Su et al. 2021, equation 14: channel pair i at place m is turned by m x base^(-2i / D)."""
    x = torch.randn(1, 1, 5, 6, dtype=torch.float64)
    cos, sin = rotary.angles(5, 6, 500.0, x)
    found = rotary.rotate(x, cos, sin)
    pairs = torch.complex(x[..., :3], x[..., 3:])
    turn = torch.outer(torch.arange(5.0), 500.0 ** (-2 * torch.arange(3) / 6)).double()
    right = pairs * torch.polar(torch.ones_like(turn), turn)
    assert torch.allclose(torch.complex(found[..., :3], found[..., 3:]), right, atol=1e-6)


def test_grouped_queries_are_full_attention_whose_heads_share_keys_and_values():
    args = {"layers": 1, "heads": 4, "width": 16, "vocab": 8, "context": 8, "positions": "rotary"}
    loaded = [families.load("decoder", {**args, "kv_heads": count}) for count in (2, 4)]
    few, full = (family.build(cfg) for family, cfg in loaded)
    full.load_state_dict(few.state_dict() | expanded(few.blocks[0].attn.qkv))
    ids = torch.arange(8).view(1, 8)
    assert torch.allclose(few(ids), full(ids), atol=1e-6)


def expanded(qkv):
    """The rows of 4 queries, 2 keys and 2 values of 4 channels as those of 4 each."""
    made = {}
    for kind in ("weight", "bias"):
        q, k, v = getattr(qkv, kind).detach().split((16, 8, 8))
        wide = [one.unflatten(0, (2, 4)).repeat_interleave(2, 0).flatten(0, 1) for one in (k, v)]
        made["blocks.0.attn.qkv." + kind] = torch.cat((q, *wide))
    return made


def test_norms_of_queries_and_keys_make_their_length_meaningless():
    args = {
        "layers": 1,
        "width": 16,
        "vocab": 8,
        "context": 8,
        "qk_norm": True,
        "norm": "rmsnorm",
        "bias": False,
    }
    family, cfg = families.load("decoder", args)
    model, ids = family.build(cfg), torch.arange(8).view(1, 8)
    before = model(ids)
    model.blocks[0].attn.qkv.weight.data[:32] *= 30
    assert torch.allclose(model(ids), before, atol=1e-3)


def test_a_norm_keeps_its_epsilon_in_low_precision():
    norm = norms.rms_norm(4).bfloat16()
    x = torch.full((1, 4), 0.01, dtype=torch.bfloat16)
    assert torch.allclose(norm(x).float(), torch.ones(1, 4), atol=0.02)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_block_computes_what_torchs_own_encoder_layer_does(norm_first):
    args = {"layers": 1, "width": 16, "hidden": 24, "vocab": 8, "context": 8, "norm_first": norm_first}
    family, cfg = families.load("encoder", args)
    block = family.build(cfg).blocks[0]
    layer = torch.nn.TransformerEncoderLayer(16, 4, 24, 0.0, "gelu", batch_first=True, norm_first=norm_first)
    for mine, theirs in (
        (block.attn.proj, layer.self_attn.out_proj),
        (block.mlp.up, layer.linear1),
        (block.mlp.down, layer.linear2),
        (block.norm1, layer.norm1),
        (block.norm2, layer.norm2),
    ):
        theirs.load_state_dict(mine.state_dict())
    layer.self_attn.in_proj_weight.data.copy_(block.attn.qkv.weight)
    layer.self_attn.in_proj_bias.data.copy_(block.attn.qkv.bias)
    x = torch.randn(2, 5, 16)
    assert torch.allclose(block(x), layer(x), atol=1e-5)


def shapes_of(args, side, names):
    """Shapes of the outputs of the modules ``names`` for one image."""
    family, cfg = families.load("convnet", args)
    model, seen = family.build(cfg).eval(), {}
    for path, module in model.named_modules():
        if path in names:
            module.register_forward_hook(
                lambda _, args, out, path=path: seen.update({path: tuple(out.shape[1:])})
            )
    model(torch.zeros(1, 3, side, side))
    return [seen[path] for path in names]


@pytest.mark.parametrize(
    ("args", "side", "expected"),
    [
        (
            {"block": "bottleneck", "stem": 8, "channels": [16, 32], "depths": [1, 2]},
            64,
            [(8, 16, 16), (16, 16, 16), (32, 8, 8)],
        ),
        (
            {"block": "inverted", "stem": 8, "stem_kernel": 3, "channels": [16, 24]},
            64,
            [(8, 32, 32), (16, 32, 32), (24, 16, 16)],
        ),
        (
            {"block": "convnext", "stem": 8, "stem_kernel": 4, "channels": [8, 16]},
            64,
            [(8, 16, 16), (8, 16, 16), (16, 8, 8)],
        ),
    ],
)
def test_stem_and_stages_divide_the_side_as_published(args, side, expected):
    assert shapes_of(args, side, ["stem", "stages.0", "stages.1"]) == expected


def test_an_inverted_block_adds_its_input_where_nothing_changes():
    cfg = {"norm": "batch", "kernel": 3}
    same, other = (convolutions.Inverted(cfg, 8, out, 1, 2).eval() for out in (8, 9))
    assert (same.adds, other.adds) == (True, False)
    x = torch.randn(1, 8, 5, 5)
    assert torch.allclose(same(x), x + same.inner(x), atol=1e-6)
    assert float(same.inner(x).detach().min()) < 0  # no activation at its end


@pytest.mark.parametrize(
    ("name", "args", "shape"),
    [("convnet", {}, (2, 3, 20, 20)), ("encoder", {"inputs": "patches"}, (2, 3, 20, 20))],
)
def test_a_length_is_the_side_of_images(name, args, shape):
    family, cfg = families.load(name, args)
    batch = family.batch(2, 0, "train", 20, cfg)
    assert next(iter(batch.values())).shape == shape
    assert torch.isfinite(family.build(cfg)(**batch))


def test_a_side_that_patches_do_not_divide_is_refused():
    family, cfg = families.load("encoder", {"inputs": "patches"})
    with pytest.raises(TaskError, match=r"workload.batch.length \(21\) is not a multiple"):
        family.batch(2, 0, "train", 21, cfg)


def test_15_percent_of_masked_tokens_have_labels_and_most_of_these_are_hidden():
    ids, labels = tokens.masked(200, 40, 32, 0, "train")
    chosen = labels != -100
    assert chosen.sum(1).tolist() == [6] * 200
    shown, right = ids[chosen], labels[chosen]
    assert float((shown == 31).float().mean()) == pytest.approx(0.8, abs=0.04)
    assert float((shown == right).float().mean()) == pytest.approx(0.1, abs=0.03)
    assert int(right.max()) < 31
    assert not (ids[~chosen] == 31).any()


def test_the_tokens_of_a_large_vocabulary_are_drawn_at_once():
    assert tokens.sequences(2, 16, 200_000, 0, "train").shape == (2, 17)


@pytest.mark.parametrize("length", [1, 2])
def test_the_shortest_samples_are_made(length):
    for name in ("decoder", "encoder"):
        family, cfg = families.load(name, {"vocab": 2})
        assert torch.isfinite(family.build(cfg)(**family.batch(2, 0, "train", length, cfg)))


def test_attention_by_hand_and_by_the_fused_operator_agree():
    args = {
        "layers": 1,
        "heads": 2,
        "width": 16,
        "vocab": 16,
        "context": 8,
        "kv_heads": 1,
        "positions": "rotary",
    }
    losses = []
    for attention in ("sdpa", "eager"):
        family, cfg = families.load("decoder", {**args, "attention": attention})
        torch.manual_seed(0)
        losses.append(float(family.build(cfg)(**family.batch(2, 0, "train", None, cfg)).detach()))
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_small_decoder_learns_more_than_token_frequencies_in_60_steps(seed):
    family, cfg = families.load("decoder", {"layers": 2, "width": 64, "vocab": 32, "context": 32})
    torch.manual_seed(seed)
    model = family.build(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for index in range(60):
        optimizer.zero_grad()
        model(**family.batch(16, index, "train", None, cfg)).backward()
        optimizer.step()
    valid = family.batch(64, 0, "valid", None, cfg)
    with torch.no_grad():
        loss = float(model(**valid))
    unigram = tokens.unigram_entropy(valid["labels_BT"], 32)
    assert tokens.floor(32) < loss < unigram - 0.3


def test_the_entropy_of_four_equal_tokens_is_log_4():
    assert tokens.unigram_entropy(torch.tensor([0, 1, 2, 3]), 4) == pytest.approx(1.3862943611)


@pytest.mark.parametrize("length", [1, 2, 3, 65])
def test_few_sequences_are_the_first_of_what_operators_make(length, monkeypatch):
    few = tokens.sequences(5, length, 97, 3, "train")
    monkeypatch.setattr(tokens, "FEW", 0)
    assert torch.equal(few, tokens.sequences(5, length, 97, 3, "train"))
    assert few.dtype == torch.int64
