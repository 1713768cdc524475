import pytest
import torch

from tui.probe import families
from tui.probe.families import tokens
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
    ],
)
def test_a_wrong_argument_is_one_sentence(name, args, sentence, hint):
    error = complain(name, **args)
    assert (error.sentence, error.hint) == (sentence, hint)


def test_an_argument_far_from_all_lists_what_there_is():
    assert complain("mlp", zzz=1).hint == "it has activation, bias, dropout, hidden, inputs, norm, outputs"


def test_channels_that_the_groups_do_not_divide_are_refused():
    assert "does not divide 32 and 33 channels" in complain("convnet", channels=[32, 33], groups=2).sentence


def test_a_length_beyond_the_learned_positions_is_refused():
    family, cfg = families.load("decoder", {"context": 16})
    with pytest.raises(TaskError, match="length 17 is longer"):
        family.batch(2, 0, "train", 17, cfg)


def test_a_whole_number_is_fine_where_a_float_is_meant():
    assert families.load("decoder", {"dropout": 0})[1]["dropout"] == 0


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
