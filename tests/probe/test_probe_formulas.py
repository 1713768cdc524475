"""For random small specs of every family: the formula is what the framework's own objects say, part by part."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.budget import params
from tui.probe import families, inventory
from tui.probe.faults import TaskError

SMALL = st.integers(1, 6)
FLAG = st.booleans()
TARGETS = st.lists(st.sampled_from(["qkv", "proj", "gate", "up", "down"]), unique=True, min_size=1)

DECODER: dict[str, st.SearchStrategy[Any]] = {
    "layers": st.integers(1, 3),
    "heads": st.sampled_from([1, 2, 4]),
    "width": st.sampled_from([4, 8, 12]),
    "vocab": st.integers(4, 9),
    "context": st.integers(4, 9),
    "kv_heads": st.sampled_from([1, 2, 4]),
    "head_dim": st.sampled_from([1, 2, 3, 6]),
    "hidden": SMALL,
    "gated": FLAG,
    "norm": st.sampled_from(["layernorm", "rmsnorm"]),
    "positions": st.sampled_from(["learned", "rotary"]),
    "bias": FLAG,
    "qkv_bias": FLAG,
    "tied": FLAG,
    "attention": st.sampled_from(["sdpa", "eager"]),
    "qk_norm": FLAG,
    "post_norms": FLAG,
    "experts": st.integers(0, 4),
    "top_k": st.integers(1, 4),
    "expert_hidden": SMALL,
    "shared_experts": st.integers(0, 2),
    "shared_gate": FLAG,
    "dense_layers": st.integers(0, 3),
    "lora_rank": st.integers(0, 2),
    "lora_targets": TARGETS,
}
ENCODER: dict[str, st.SearchStrategy[Any]] = {
    "inputs": st.sampled_from(["tokens", "patches"]),
    "layers": st.integers(1, 3),
    "heads": st.sampled_from([1, 2, 4]),
    "width": st.sampled_from([4, 8]),
    "hidden": SMALL,
    "vocab": st.integers(4, 9),
    "context": st.integers(4, 9),
    "segments": st.integers(0, 3),
    "size": st.sampled_from([4, 8]),
    "patch": st.sampled_from([2, 4]),
    "in_channels": st.integers(1, 3),
    "class_token": FLAG,
    "norm_first": FLAG,
    "embedding_norm": FLAG,
    "pooler": FLAG,
    "head": st.sampled_from(["mlm", "classify"]),
    "classes": st.integers(2, 5),
    "tied": FLAG,
    "lora_rank": st.integers(0, 2),
    "lora_targets": TARGETS,
}
MLP: dict[str, st.SearchStrategy[Any]] = {
    "inputs": SMALL,
    "hidden": st.lists(SMALL, max_size=3),
    "outputs": SMALL,
    "bias": FLAG,
    "norm": st.sampled_from(["none", "batch", "layer"]),
    "activation": st.sampled_from(["relu", "gelu", "tanh"]),
}
CONVNET: dict[str, st.SearchStrategy[Any]] = {
    "channels": st.lists(st.sampled_from([4, 8, 12]), min_size=1, max_size=3),
    "depths": st.lists(st.integers(1, 2), min_size=1, max_size=3),
    "strides": st.lists(st.integers(1, 3), min_size=1, max_size=3),
    "block": st.sampled_from(["plain", "depthwise", "basic", "bottleneck", "inverted", "convnext"]),
    "in_channels": st.sampled_from([1, 3, 4]),
    "classes": st.integers(2, 5),
    "size": st.sampled_from([32, 64]),
    "kernel": st.sampled_from([1, 3, 5]),
    "groups": st.sampled_from([1, 2, 4]),
    "expansion": st.sampled_from([1, 2, 4, [1, 2], [2, 2, 4]]),
    "stem": st.sampled_from([0, 4, 8]),
    "stem_kernel": st.sampled_from([3, 4, 7]),
    "last": st.sampled_from([0, 5]),
    "norm": st.sampled_from(["batch", "group", "none"]),
    "norm_groups": st.sampled_from([1, 2]),
}
FAMILIES = {"decoder": DECODER, "encoder": ENCODER, "mlp": MLP, "convnet": CONVNET}


def _built(family: str, args: dict[str, Any]) -> dict[str, Any] | None:
    """The inventory of the family's own model; None when it refuses the arguments."""
    try:
        module, cfg = families.load(family, args)
        with torch.device("meta"):
            model = module.build(cfg)
    except TaskError:
        return None
    return {**inventory.take(model, module.GROUPS), "experts": families.routed(module, cfg)}


def _formula(family: str, args: dict[str, Any]) -> params.Formula | None:
    try:
        return params.formula(family, args)
    except ValueError:
        return None


def _nonzero(parts: dict[str, int]) -> dict[str, int]:
    return {name: size for name, size in parts.items() if size}


@pytest.mark.parametrize("family", FAMILIES)
def test_formula_and_model_know_the_same_arguments_and_defaults(family: str) -> None:
    module, _ = families.load(family, {})
    assert params.defaults(family) == module.DEFAULTS
    assert set(FAMILIES[family]) | {"dropout", "rope_base"} >= set(module.DEFAULTS) - {"attention"}


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_formula_equals_inventory(family: str, data: st.DataObject) -> None:
    args = data.draw(st.fixed_dictionaries({}, optional=FAMILIES[family]))
    made, found = _formula(family, args), _built(family, args)
    assert (made is None) == (found is None), "one of them refuses what the other takes"
    if made is None or found is None:
        return
    assert made.total == found["unique_parameters"]
    assert _nonzero(made.parts) == _nonzero(found["groups"])
    frozen = found["unique_parameters"] - found["trainable_parameters"]
    assert (frozen > 0) == bool(args.get("lora_rank"))
    if found["experts"] is None:
        assert made.active in (None, made.total)
