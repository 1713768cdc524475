"""Attention: the kernel that CUDA's chooser takes, what it saves, and what its backward accumulates in."""

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from tui.probe.predict.semantics import Target

from .watching import A100, H100, T4, cuda, weight

HALF = torch.bfloat16
B, H, S, D = 2, 4, 128, 64


def _inputs(dtype=HALF, size=D, heads=H, positions=S):
    query = weight(B, S, H, size, dtype=dtype).transpose(1, 2)
    key, value = (weight(B, positions, heads, size, dtype=dtype).transpose(1, 2) for _ in range(2))
    return query, key, value


@pytest.fixture(autouse=True)
def _before_torch_2_14(monkeypatch):
    """Most of what is said here is so up to torch 2.13; a test of a newer rule says so itself."""
    from tui.probe.predict.semantics import target

    own = target.version()
    monkeypatch.setattr(target, "version", lambda: min(own, (2, 13)))


def _kernel(target=A100, dtype=HALF, size=D, heads=H, positions=S, mask=None, **more):
    with cuda(target) as watch:
        made = None if mask is None else torch.empty(mask[0], dtype=mask[1])
        F.scaled_dot_product_attention(*_inputs(dtype, size, heads, positions), attn_mask=made, **more)
    ((kernel, count),) = watch.notes("attention kernel")
    assert count == 1
    return kernel


def test_half_precision_without_a_mask_is_flash():
    assert _kernel() == "flash"
    assert _kernel(dtype=torch.float16, is_causal=True) == "flash"
    assert _kernel(size=256) == "flash"


@pytest.mark.parametrize(
    "call",
    [
        {"dtype": torch.float32},
        {"mask": ((S, S), torch.bool)},
        {"mask": ((B, H, S, S), HALF)},
        {"size": 264},
        {"positions": 64, "is_causal": True},
        {"target": T4, "dtype": torch.float16},
    ],
    ids=["fp32", "boolean mask", "added mask", "wide heads", "causal and not square", "before Ampere"],
)
def test_what_flash_cannot_do_is_efficient(call):
    assert _kernel(**call) == "efficient"


@pytest.mark.parametrize(
    "call",
    [
        {"dtype": torch.float64},
        {"dtype": torch.float32, "size": 6},
        {"dtype": HALF, "target": T4},
        {"dtype": torch.float32, "heads": 2, "enable_gqa": True},
    ],
    ids=["fp64", "odd heads", "bf16 before Ampere", "fewer heads of keys in fp32"],
)
def test_what_no_fused_kernel_can_do_is_math(call):
    assert _kernel(**call) == "math"


def test_inputs_without_a_batch_are_math_before_torch_2_14_and_one_batch_since(monkeypatch):
    from tui.probe.predict.semantics import target

    found = []
    for version in ((2, 13), (2, 14)):
        monkeypatch.setattr(target, "version", lambda version=version: version)
        with cuda() as watch:
            out = F.scaled_dot_product_attention(*(weight(H, S, D, dtype=HALF) for _ in range(3)))
        assert out.shape == (H, S, D)
        found += [kernel for kernel, _ in watch.notes("attention kernel")]
    assert found == ["math", "flash"]


def test_one_head_of_keys_and_groups_of_the_efficient_kernel_since_torch_2_14(monkeypatch):
    from tui.probe.predict.semantics import target

    monkeypatch.setattr(target, "version", lambda: (2, 14))
    assert _kernel(heads=1) == "flash"
    assert _kernel(dtype=torch.float32, heads=2, enable_gqa=True) == "efficient"


def test_switches_and_contexts_of_the_program_are_followed():
    with cuda() as watch:
        inputs = _inputs()
        for backend in (SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION):
            with sdpa_kernel(backend):
                F.scaled_dot_product_attention(*inputs)
        torch.backends.cuda.enable_flash_sdp(False)
        try:
            F.scaled_dot_product_attention(*inputs)
        finally:
            torch.backends.cuda.enable_flash_sdp(True)
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
            F.scaled_dot_product_attention(*inputs)
    assert watch.notes("attention kernel") == [("math", 1), ("efficient", 2), ("flash", 1), ("efficient", 1)]


def test_a_kernel_that_cannot_be_taken_alone_is_refused_as_torch_refuses_it():
    with (
        cuda(),
        sdpa_kernel(SDPBackend.FLASH_ATTENTION),
        pytest.raises(RuntimeError, match="No available kernel"),
    ):
        F.scaled_dot_product_attention(*_inputs(torch.float32))


def test_hopper_takes_cudnn_where_torch_prefers_it(monkeypatch):
    from tui.probe.predict.semantics import chooser, target

    monkeypatch.setattr(chooser, "cudnn_version", lambda: None)
    found = {}
    for version in ((2, 6), (2, 9), (2, 10), (2, 11)):
        monkeypatch.setattr(target, "version", lambda version=version: version)
        found[version] = _kernel(H100)
    # pull request 162073 for 2.9; from 2.10 on by cuDNN's version, which wheels pass with 2.11
    assert found == {(2, 6): "flash", (2, 9): "cuDNN", (2, 10): "flash", (2, 11): "cuDNN"}
    assert _kernel(Target("B200", None, (10, 0), 148, 2048)) == "cuDNN"
    monkeypatch.setenv("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")
    assert _kernel(H100) == "flash"


def test_the_version_of_cudnn_that_decides_is_told(monkeypatch):
    from tui.probe.predict.semantics import chooser, target

    monkeypatch.setattr(chooser, "cudnn_version", lambda: None)
    monkeypatch.setattr(target, "version", lambda: (2, 10))
    what = "cuDNN, for the order of attention kernels"
    for gpu, told in ((H100, [("9.10.2", 1)]), (A100, [])):
        with cuda(gpu) as watch:
            F.scaled_dot_product_attention(*_inputs())
        assert watch.notes(what) == told


def test_the_version_of_cudnn_is_told_only_where_another_one_would_have_another_kernel():
    what = "cuDNN, for the order of attention kernels"
    for more in ({"dtype": torch.float32}, {"size": 264}):
        with cuda(H100) as watch:
            F.scaled_dot_product_attention(*_inputs(**more))
        assert watch.notes(what) == []


def test_plain_operators_say_why_every_other_kernel_was_passed_over():
    with cuda(T4) as watch:
        F.scaled_dot_product_attention(*_inputs(HALF, 60))
    (note,) = [one for one in watch.semantics.assumptions.table() if one["what"] == "attention kernel"]
    assert note["value"] == "math"
    assert "; not flash: capability 7.5; not efficient: heads of 60, not a multiple of" in note["because"]


def test_flash_saves_row_sums_and_pads_heads_to_eight():
    with cuda() as watch:
        out = F.scaled_dot_product_attention(*_inputs(size=60))
        assert out.shape == (B, H, S, 60)
    found = watch.one("_scaled_dot_product_flash_attention")
    assert found.sizes[:2] == [B * H * S * 64 * 2, B * H * S * 4]


def test_flash_backward_accumulates_in_fp32():
    """``mha_bwd``: row sums B x H x S and gradients of queries B x S x H x D, S to 128 and D to 32 or 64."""
    with cuda() as watch:
        out = F.scaled_dot_product_attention(*_inputs(size=48), is_causal=True)
        out.transpose(1, 2).reshape(B, S, -1).backward(torch.empty(B, S, H * 48, dtype=HALF))
    found = watch.one("_scaled_dot_product_flash_attention_backward")
    assert found.after == [B * H * 128 * 4, B * 128 * H * 64 * 4]
    assert found.before == []


def test_flash_backward_of_grouped_queries_makes_keys_of_every_head_first():
    with cuda() as watch:
        out = F.scaled_dot_product_attention(*_inputs(heads=2), enable_gqa=True)
        out.transpose(1, 2).reshape(B, S, -1).backward(torch.empty(B, S, H * D, dtype=HALF))
    found = watch.one("_scaled_dot_product_flash_attention_backward")
    assert found.after[2:] == [B * S * H * D * 2] * 2
    assert found.sizes == [B * H * S * D * 2, B * 2 * S * D * 2, B * 2 * S * D * 2]


def test_few_heads_on_many_processors_are_split_over_keys():
    """1 head of 64 queries and 8192 keys: 32 blocks of 256 keys, all of them splits."""
    with cuda() as watch, torch.no_grad():
        query = torch.empty(1, 1, 64, 64, dtype=HALF)
        F.scaled_dot_product_attention(query, *(torch.empty(1, 1, 8192, 64, dtype=HALF) for _ in range(2)))
    found = watch.one("_scaled_dot_product_flash_attention")
    assert found.after == [32 * 64 * 4, 32 * 64 * 64 * 4]


def test_efficient_saves_aligned_row_sums_and_no_random_state_on_the_device():
    with cuda() as watch:
        query, key, value = (weight(B, 100, H, D).transpose(1, 2) for _ in range(3))
        F.scaled_dot_product_attention(query, key, value)
    found = watch.one("_scaled_dot_product_efficient_attention")
    assert found.sizes == [B * H * 100 * D * 4, B * H * 128 * 4, 0, 0]


def test_efficient_backward_keeps_fp32_gradients_by_tile():
    """``Params::workspace_size``: tiles of 64 x 64 and a lock of 4, one for every 64 queries of every head."""
    with cuda() as watch:
        out = F.scaled_dot_product_attention(*_inputs(), attn_mask=torch.empty(S, S, dtype=HALF))
        out.transpose(1, 2).reshape(B, S, -1).backward(torch.empty(B, S, H * D, dtype=HALF))
    found = watch.one("_scaled_dot_product_efficient_attention_backward")
    assert found.after == [B * H * S * 4, B * H * 2 * (64 * 64 + 4) * 4]


def test_a_boolean_mask_becomes_an_added_one_with_aligned_rows():
    with cuda() as watch:
        F.scaled_dot_product_attention(
            *_inputs(positions=100), attn_mask=torch.empty(S, 100, dtype=torch.bool)
        )
    assert watch.one("where").sizes == [S * 100 * 2]
    assert watch.one("constant_pad_nd").sizes == [S * 104 * 2]


def test_math_adds_the_mask_in_place_and_guards_rows_without_any_score():
    with cuda() as watch, sdpa_kernel(SDPBackend.MATH):
        F.scaled_dot_product_attention(*_inputs(torch.float32), attn_mask=torch.empty(S, S))
    scores = B * H * S * S
    assert watch.one("add_").sizes == [scores * 4]
    assert not watch.named("add")
    found = watch.one("_safe_softmax")  # the softmax, its mask, the masked rows and a zero, then the result
    assert (found.before, found.sizes) == ([scores * 4, scores, B * H * S, 4], [scores * 4])


def test_attention_of_the_cpu_is_back_once_the_semantics_are_closed():
    with cuda():
        pass
    from torch._subclasses.fake_tensor import FakeTensorMode

    from .watching import Watch

    with cuda() as watch:
        semantics = watch.semantics
    with FakeTensorMode(), Watch(semantics) as after:
        F.scaled_dot_product_attention(*_inputs())
    assert after.named("_scaled_dot_product_flash_attention_for_cpu")
