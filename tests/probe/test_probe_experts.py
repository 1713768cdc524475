"""Experts and adapters: what is computed, what is trained, and what is said about them."""

import pytest
import torch

from tests.probe.helpers import run_here
from tui.probe import families, workload
from tui.probe.families import blocks, lora, mixture

CFG = {
    "width": 8,
    "gated": True,
    "bias": False,
    "experts": 4,
    "top_k": 2,
    "expert_hidden": 6,
    "shared_experts": 0,
    "shared_gate": False,
}
DECODER = {
    "layers": 2,
    "heads": 2,
    "width": 16,
    "vocab": 16,
    "context": 8,
    "experts": 4,
    "expert_hidden": 8,
    "shared_experts": 1,
    "dense_layers": 1,
}


def experts_of(**more):
    torch.manual_seed(0)
    return mixture.Experts({**CFG, **more})


def dense(layer, x):
    """Every expert on every token, each with its weight, which is 0 for those not chosen (Jiang et al. 2024, 2.1)."""
    logits = layer.router(x)
    chosen = torch.full_like(logits, float("-inf")).scatter(
        -1, logits.topk(layer.top_k).indices, logits.topk(layer.top_k).values
    )
    weights = chosen.softmax(-1)
    return sum(weights[..., place, None] * one(x) for place, one in enumerate(layer.experts))


@pytest.mark.parametrize("top_k", [1, 2, 4])
@pytest.mark.parametrize("tokens", [1, 50])
def test_dispatched_tokens_get_what_a_loop_over_all_experts_gives_them(top_k, tokens):
    layer = experts_of(top_k=top_k)
    x = torch.randn(2, tokens, 8, requires_grad=True)
    again = x.detach().clone().requires_grad_()
    out, expected = layer(x), dense(layer, again)
    assert torch.allclose(out, expected, atol=1e-6)
    found = torch.autograd.grad(out.square().sum(), [x, *layer.parameters()])
    right = torch.autograd.grad(expected.square().sum(), [again, *layer.parameters()])
    for one, other in zip(found, right, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_a_token_is_seen_by_the_experts_that_it_chose_alone():
    layer, seen = experts_of(), []
    for one in layer.experts:
        one.register_forward_hook(lambda _, args, out: seen.append(len(args[0])))
    layer(torch.randn(3, 5, 8))
    assert len(seen) == 4
    assert sum(seen) == 3 * 5 * 2


def test_an_expert_that_nobody_chose_has_a_gradient_of_zero():
    layer = experts_of(top_k=1)
    layer(torch.randn(1, 1, 8)).sum().backward()
    sizes = [float(one.up.weight.grad.abs().sum()) for one in layer.experts]
    assert sorted(size > 0 for size in sizes) == [False, False, False, True]


@pytest.mark.parametrize("gate", [False, True])
def test_shared_experts_see_every_token(gate):
    layer = experts_of(shared_experts=2, shared_gate=gate)
    assert layer.shared.up.out_features == 12
    x = torch.randn(2, 3, 8)
    shared = layer.shared(x)
    if gate:
        shared = shared * torch.sigmoid(x @ layer.shared_gate.weight.T)
    assert torch.allclose(layer(x), dense(layer, x) + shared, atol=1e-6)


def test_the_first_layers_may_have_no_experts():
    family, cfg = families.load("decoder", {**DECODER, "hidden": 24})
    model = family.build(cfg)
    assert isinstance(model.blocks[0].mlp, blocks.MLP)
    assert model.blocks[0].mlp.up.out_features == 24
    assert isinstance(model.blocks[1].mlp, mixture.Experts)
    assert model.blocks[1].mlp.experts[0].up.out_features == 8


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("decoder", DECODER, {"modules": "blocks.*.mlp.experts", "total": 4, "used": 2}),
        ("decoder", {}, None),
        ("decoder", {**DECODER, "dense_layers": 2}, None),
        ("mlp", {}, None),
    ],
)
def test_a_workload_says_which_modules_are_experts(name, args, expected):
    assert workload.load(name, args, ".").experts == expected


def test_the_inventory_counts_what_works_on_one_token():
    """Of 2 layers one has experts: a token leaves out 2 of its 4, of 2 x 16 x 8 + 8 + 16 elements each."""
    table = run_here("inventory", source="decoder", args=DECODER).table("inventory")
    assert table["unique_parameters"] - table["active_parameters"] == 2 * (2 * 16 * 8 + 8 + 16)


@pytest.mark.parametrize(
    ("name", "more"), [("decoder", {"gated": True}), ("encoder", {}), ("decoder", {"experts": 2})]
)
def test_adapters_begin_as_nothing_and_are_all_that_is_trained(name, more):
    args = {"layers": 1, "heads": 2, "width": 16, "vocab": 16, "context": 8, **more}
    targets = ["qkv", "proj", "gate", "up", "down"]
    family, cfg = families.load(name, {**args, "lora_rank": 3, "lora_targets": targets})
    torch.manual_seed(0)
    base = family.build({**cfg, "lora_rank": 0})
    torch.manual_seed(0)
    model = family.build(cfg)
    batch = family.batch(2, 0, "train", None, cfg)
    assert torch.equal(model(**batch), base(**batch))
    model(**batch).backward()
    for path, one in model.named_parameters():
        adapter = path.endswith((".A.weight", ".B.weight"))
        assert one.requires_grad == adapter, path
        assert (one.grad is not None) == adapter, path
    adapted = [one for one in model.modules() if isinstance(one, lora.LoRALinear)]
    linear = [path for path, _ in base.blocks.named_modules() if path.rpartition(".")[2] in targets]
    assert len(adapted) == len(linear) > 2
    assert adapted[0].A.weight.shape == (3, 16)
    assert adapted[0].B.weight.shape == (48, 3)


def test_an_adapter_adds_its_two_matrices_to_the_layer():
    torch.manual_seed(0)
    layer = lora.LoRALinear(torch.nn.Linear(4, 5), 2)
    torch.nn.init.normal_(layer.B.weight)
    x = torch.randn(3, 4)
    merged = layer.base.weight + layer.B.weight @ layer.A.weight
    assert torch.allclose(layer(x), torch.nn.functional.linear(x, merged, layer.base.bias), atol=1e-6)
