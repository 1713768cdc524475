"""Autocast: CUDA's lists on fakes of the CPU, the order of casts, and how long a weight's copy lives."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tui.probe.predict.semantics.autocast import POLICIES

from .watching import cuda, weight

HALF = torch.bfloat16
HEADER = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
MACROS = {
    "AT_FORALL_LOWER_PRECISION_FP": "lower",
    "AT_FORALL_FP32": "fp32",
    "AT_FORALL_FP32_SET_OPT_DTYPE": "set dtype",
    "AT_FORALL_PROMOTE": "promote",
}


@pytest.mark.skipif(not HEADER.exists(), reason="this torch comes without its C++ headers")
@pytest.mark.parametrize("macro", MACROS)
def test_the_table_has_every_operator_of_torchs_own_lists(macro):
    text = HEADER.read_text()
    (body,) = re.findall(rf"#define {macro}\(_\)\s*\\\n((?:.*\\\n)*.*\n)", text)
    names = [".".join(re.split(r",\s*", name.strip())) for name in re.findall(r"_\(([^()]*)\)", body)]
    assert len(names) >= 10
    assert {name: POLICIES.get(name) for name in names} == dict.fromkeys(names, MACROS[macro])


def test_every_operator_that_this_torch_casts_on_cuda_is_known():
    names = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    assert {name.removeprefix("aten::") for name in names if name.startswith("aten::")} <= set(POLICIES)
    with cuda() as watch:
        pass
    assert watch.semantics.assumptions.approximations == []


def _dtype(operator):
    with cuda() as watch, torch.autocast("cpu", HALF):
        operator()
    return [one for one in watch.seen if one.dtypes][-1].dtypes[0]


def test_normalisation_softmax_losses_and_powers_run_in_fp32():
    for operator in (
        lambda: F.layer_norm(torch.empty(4, 8, dtype=HALF), (8,)),
        lambda: F.softmax(torch.empty(4, 8, dtype=HALF), -1),
        lambda: F.mse_loss(torch.empty(4, dtype=HALF), torch.empty(4, dtype=HALF)),
        lambda: torch.empty(4, dtype=HALF).pow(2),
        lambda: torch.empty(4, dtype=HALF).exp(),
        lambda: torch.empty(4, dtype=HALF).sum(),
        lambda: torch.empty(4, dtype=HALF).norm(),
        lambda: torch.empty(4, dtype=HALF).cumsum(0),
    ):
        assert _dtype(operator) == torch.float32


def test_products_and_attention_run_in_half_precision():
    for operator in (
        lambda: F.linear(torch.empty(4, 8), torch.empty(4, 8), torch.empty(4)),
        lambda: torch.bmm(torch.empty(2, 4, 8), torch.empty(2, 8, 4)),
        lambda: torch.einsum("ab,cb->ac", torch.empty(4, 8), torch.empty(4, 8)),
        lambda: torch.mv(torch.empty(4, 8), torch.empty(8)),
        lambda: F.conv2d(torch.empty(1, 3, 8, 8), torch.empty(4, 3, 3, 3)),
    ):
        assert _dtype(operator) == HALF


def test_what_only_the_cpu_casts_is_left_alone():
    """CUDA has neither pooling nor padding on its lists; the CPU runs them in fp32."""
    assert _dtype(lambda: F.avg_pool3d(torch.empty(1, 1, 4, 4, 4, dtype=HALF), 2)) == HALF
    assert _dtype(lambda: F.pad(torch.empty(1, 1, 4, 4, dtype=HALF), (1, 1, 1, 1), "reflect")) == HALF


def test_mixed_operands_take_the_widest_type():
    index = torch.zeros(4, dtype=torch.int64)
    assert _dtype(lambda: torch.empty(4, dtype=HALF).scatter_add(0, index, torch.empty(4))) == torch.float32
    assert (
        _dtype(lambda: torch.addcmul(torch.empty(4, dtype=HALF), torch.empty(4), torch.empty(4, dtype=HALF)))
        == torch.float32
    )


def test_einsum_casts_its_operands_in_their_order_and_a_weight_once():
    """Recorded: a decoder of einsums under bf16 autocast casts the activation first, then the weight."""
    with cuda() as watch, torch.autocast("cpu", HALF):
        x, w = weight(4, 8, 16) * 1, weight(32, 16)
        torch.einsum("bti,oi->bto", x, w)
        torch.einsum("bti,oi->bto", x, w)
    assert watch.casts() == [[4 * 8 * 16 * 2], [32 * 16 * 2], [4 * 8 * 16 * 2]]


def test_a_weights_copy_lives_to_the_end_of_the_outermost_region():
    with cuda() as watch:
        w = weight(32, 16)
        with torch.autocast("cpu", HALF):
            with torch.autocast("cpu", HALF):
                torch.einsum("ti,oi->to", torch.empty(4, 16), w)
            assert len(watch.semantics._cache._casts) == 1
        assert not watch.semantics._cache._casts
        with torch.autocast("cpu", HALF, cache_enabled=False):
            torch.einsum("ti,oi->to", torch.empty(4, 16), w)
            assert not watch.semantics._cache._casts


def test_a_loss_that_cuda_bans_is_banned_with_its_own_words():
    with cuda(), torch.autocast("cpu", HALF), pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(torch.empty(4), torch.empty(4))


def test_gradients_flow_through_every_kind_of_cast():
    with cuda(), torch.autocast("cpu", torch.float16):
        x, w = weight(4, 16), weight(32, 16)
        out = torch.einsum("ti,oi->to", x, w)
        F.layer_norm(out, (32,)).sum().backward()
        assert x.grad.dtype == w.grad.dtype == torch.float32
