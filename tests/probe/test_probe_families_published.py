"""The families compute what transformers' own models of the same shape compute from the same weights."""

import pytest
import torch

from tui.probe import families

transformers = pytest.importorskip("transformers")

IDS = torch.randint(0, 20, (2, 9), generator=torch.Generator().manual_seed(3))
SEGMENTS = (torch.arange(9) > 4).long().repeat(2, 1)
IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(4))


def scrambled(model):
    """Every parameter away from where it begins, so that none can be left out unseen; no dropout."""
    torch.manual_seed(1)
    for one in model.parameters():
        one.data.add_(torch.randn_like(one) * 0.2)
    return model.eval()


def ours(name, args):
    module, cfg = families.load(name, args)
    return module.build(cfg).eval()


def both(names, kinds=("weight", "bias")):
    """``names`` of modules as names of their weights and biases."""
    return {f"{a}.{kind}": [f"{one}.{kind}" for one in b] for a, b in names.items() for kind in kinds}


def copy(model, theirs, names):
    """Every parameter of ``model`` from those of ``theirs`` that ``names`` says, one below the other."""
    found = dict(theirs.named_parameters(remove_duplicate=False))
    own = dict(model.named_parameters())
    assert set(own) == set(names)
    for name, parts in names.items():
        values = [part if isinstance(part, torch.Tensor) else found[part] for part in parts]
        own[name].data.copy_(torch.cat(values).view_as(own[name]))


def copy_in_order(model, theirs):
    pairs = list(zip(model.parameters(), theirs.parameters(), strict=True))
    for mine, value in pairs:
        mine.data.copy_(value)


def same(left, right):
    assert torch.allclose(left, right, atol=2e-5), float((left - right).abs().max())


MOE = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 20,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 12,
    "norm_topk_prob": True,
    "tie_word_embeddings": False,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
ROUTED = {
    "layers": 1,
    "heads": 4,
    "kv_heads": 2,
    "width": 16,
    "vocab": 20,
    "experts": 4,
    "top_k": 2,
    "expert_hidden": 12,
    "gated": True,
    "norm": "rmsnorm",
    "positions": "rotary",
    "bias": False,
    "tied": False,
}
L = "model.layers.0."
QKV = [L + f"self_attn.{one}_proj" for one in "qkv"]
QWEN = {
    "wte": ["model.embed_tokens"],
    "blocks.0.attn.qkv": QKV,
    "blocks.0.attn.proj": [L + "self_attn.o_proj"],
    "blocks.0.norm1": [L + "input_layernorm"],
    "blocks.0.norm2": [L + "post_attention_layernorm"],
    "blocks.0.mlp.router": [L + "mlp.gate"],
    "norm": ["model.norm"],
    "head": ["lm_head"],
}


def of_experts(theirs):
    """The experts, which transformers keeps as one tensor, by our names."""
    experts = theirs.model.layers[0].mlp.experts
    made = {}
    for place in range(4):
        gate, up = experts.gate_up_proj[place].chunk(2)
        for name, value in (("gate", gate), ("up", up), ("down", experts.down_proj[place])):
            made[f"blocks.0.mlp.experts.{place}.{name}.weight"] = [value]
    return made


def test_a_decoder_with_experts_and_qk_norm_computes_what_qwen3_does():
    rope = {"rope_type": "default", "rope_theta": 5e5}
    config = transformers.Qwen3MoeConfig(**MOE, head_dim=8, rope_parameters=rope)
    theirs = scrambled(transformers.Qwen3MoeForCausalLM(config))
    model = ours("decoder", {**ROUTED, "head_dim": 8, "qk_norm": True, "rope_base": 5e5})
    norms = {f"blocks.0.attn.{one}_norm": [L + f"self_attn.{one}_norm"] for one in "qk"}
    copy(model, theirs, {**both({**QWEN, **norms}, ["weight"]), **of_experts(theirs)})
    same(model(IDS), theirs(input_ids=IDS).logits)


def test_a_decoder_with_gated_shared_experts_computes_what_qwen2_does():
    config = transformers.Qwen2MoeConfig(**MOE, shared_expert_intermediate_size=24)
    theirs = scrambled(transformers.Qwen2MoeForCausalLM(config))
    model = ours("decoder", {**ROUTED, "qkv_bias": True, "shared_experts": 2, "shared_gate": True})
    shared = {
        f"blocks.0.mlp.shared.{one}": [L + f"mlp.shared_expert.{one}_proj"] for one in ("gate", "up", "down")
    }
    gate = {"blocks.0.mlp.shared_gate": [L + "mlp.shared_expert_gate"]}
    names = {
        **both({**QWEN, **shared, **gate}, ["weight"]),
        **both({"blocks.0.attn.qkv": QKV}, ["bias"]),
        **of_experts(theirs),
    }
    copy(model, theirs, names)
    same(model(IDS), theirs(input_ids=IDS).logits)


def test_a_decoder_with_learned_positions_computes_what_gpt2_does():
    config = transformers.GPT2Config(
        n_layer=1, n_embd=16, n_head=2, vocab_size=20, n_positions=12, activation_function="gelu"
    )
    theirs = scrambled(transformers.GPT2LMHeadModel(config))
    model = ours("decoder", {"layers": 1, "heads": 2, "width": 16, "vocab": 20, "context": 12})
    h = "transformer.h.0."
    linear = {
        "attn.qkv": "attn.c_attn",
        "attn.proj": "attn.c_proj",
        "mlp.up": "mlp.c_fc",
        "mlp.down": "mlp.c_proj",
    }
    found = dict(theirs.named_parameters())
    names = {
        **both({"wte": ["transformer.wte"], "wpe": ["transformer.wpe"]}, ["weight"]),
        **both(
            {"blocks.0.norm1": [h + "ln_1"], "blocks.0.norm2": [h + "ln_2"], "norm": ["transformer.ln_f"]}
        ),
        **both({"blocks.0." + a: [h + b] for a, b in linear.items()}, ["bias"]),
        **{f"blocks.0.{a}.weight": [found[f"{h}{b}.weight"].T.contiguous()] for a, b in linear.items()},
    }
    copy(model, theirs, names)
    same(model(IDS), theirs(input_ids=IDS).logits)


def test_an_encoder_of_tokens_computes_what_bert_does():
    config = transformers.BertConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=4,
        vocab_size=20,
        intermediate_size=32,
        max_position_embeddings=12,
        layer_norm_eps=1e-5,
    )
    theirs = scrambled(transformers.BertForMaskedLM(config))
    model = ours("encoder", {"layers": 1, "heads": 4, "width": 16, "hidden": 32, "vocab": 20, "context": 12})
    e, b, c = "bert.embeddings.", "bert.encoder.layer.0.", "cls.predictions."
    tables = {"wte": [e + "word_embeddings"], "wpe": [e + "position_embeddings"]}
    names = {
        **both({**tables, "segments": [e + "token_type_embeddings"]}, ["weight"]),
        "head.output.bias": [c + "bias"],
        **both(
            {
                "embedding_norm": [e + "LayerNorm"],
                "blocks.0.attn.qkv": [b + f"attention.self.{one}" for one in ("query", "key", "value")],
                "blocks.0.attn.proj": [b + "attention.output.dense"],
                "blocks.0.norm1": [b + "attention.output.LayerNorm"],
                "blocks.0.mlp.up": [b + "intermediate.dense"],
                "blocks.0.mlp.down": [b + "output.dense"],
                "blocks.0.norm2": [b + "output.LayerNorm"],
                "head.dense": [c + "transform.dense"],
                "head.norm": [c + "transform.LayerNorm"],
            }
        ),
    }
    copy(model, theirs, names)
    labels = IDS.masked_fill(SEGMENTS == 1, -100)
    out = theirs(input_ids=IDS, token_type_ids=SEGMENTS, labels=labels)
    same(model(IDS, SEGMENTS), out.logits)
    same(model(IDS, SEGMENTS, labels), out.loss)


@pytest.mark.parametrize("side", [32, 48])
def test_an_encoder_of_patches_computes_what_vit_does_with_positions_interpolated(side):
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=32,
        image_size=32,
        patch_size=8,
        layer_norm_eps=1e-5,
        num_labels=5,
    )
    theirs = scrambled(transformers.ViTForImageClassification(config))
    args = {"inputs": "patches", "layers": 1, "heads": 4, "width": 16, "hidden": 32, "patch": 8, "classes": 5}
    model = ours("encoder", args)
    v = "vit.layers.0."
    names = {
        "wpe.weight": [theirs.vit.embeddings.position_embeddings[0]],
        "cls.weight": ["vit.embeddings.cls_token"],
        **both(
            {
                "patches": ["vit.embeddings.patch_embeddings.projection"],
                "blocks.0.attn.qkv": [v + f"attention.{one}_proj" for one in "qkv"],
                "blocks.0.attn.proj": [v + "attention.o_proj"],
                "blocks.0.norm1": [v + "layernorm_before"],
                "blocks.0.mlp.up": [v + "mlp.fc1"],
                "blocks.0.mlp.down": [v + "mlp.fc2"],
                "blocks.0.norm2": [v + "layernorm_after"],
                "norm": ["vit.layernorm"],
                "head": ["classifier"],
            }
        ),
    }
    copy(model, theirs, names)
    images = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(5))
    same(model(images), theirs(pixel_values=images, interpolate_pos_encoding=side != 32).logits)


@pytest.mark.parametrize("block", ["bottleneck", "basic"])
def test_a_residual_network_computes_what_resnet_does(block):
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 32], depths=[2, 1], layer_type=block, num_labels=5
    )
    theirs = scrambled(transformers.ResNetForImageClassification(config))
    args = {"block": block, "stem": 8, "channels": [16, 32], "depths": [2, 1], "classes": 5}
    model = ours("convnet", args)
    copy_in_order(model, theirs)
    model.train()
    theirs.train()  # norms of the batch itself: the running ones have seen nothing
    same(model(IMAGES), theirs(pixel_values=IMAGES).logits)


def test_a_convnext_computes_what_the_published_one_does():
    config = transformers.ConvNextConfig(
        hidden_sizes=[8, 16], depths=[1, 2], num_stages=2, layer_norm_eps=1e-6, num_labels=5
    )
    theirs = scrambled(transformers.ConvNextForImageClassification(config))
    args = {
        "block": "convnext",
        "stem": 8,
        "stem_kernel": 4,
        "channels": [8, 16],
        "depths": [1, 2],
        "classes": 5,
    }
    model = ours("convnet", args)
    copy_in_order(model, theirs)
    same(model(IMAGES), theirs(pixel_values=IMAGES).logits)
