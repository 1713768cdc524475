"""Scratch of reductions: against recorded CUDA traces, and by hand from ATen's launch rules."""

import pytest
import torch
from memory_records import traces

from tui.probe import unpickle
from tui.probe.predict.semantics.reductions import Machine, buffers, shape_of

from .watching import A100, H100, cuda, weight

AMPERE, HOPPER = Machine(108, 2048), Machine(132, 2048)
RECORDED = pytest.mark.skipif(
    traces() is None, reason="the recorded traces are not here; PEAKMARK_TRACES names them"
)

# What the traces of a 3.4 B decoder (H100) and of a 423 M decoder (A100) show for a result of these sizes.
KNOWN = {
    "max over a strided vocabulary": (HOPPER, (512, 10000), (1, 512), [1], 16, (164_626_432, 16)),
    "sum over a strided vocabulary": (HOPPER, (512, 10000), (1, 512), [1], 4, (41_156_608, 16)),
    "sum over a strided width": (HOPPER, (512, 2560), (1, 512), [1], 4, (10_485_760, 16)),
    "gradient of a norm's weight": (AMPERE, (4, 512, 1024), (524288, 1024, 1), [0, 1], 4, (16_777_216, 32)),
}


@pytest.mark.parametrize(
    ("machine", "sizes", "strides", "dims", "itemsize", "wanted"), KNOWN.values(), ids=KNOWN
)
def test_partial_results_are_those_of_recorded_traces(machine, sizes, strides, dims, itemsize, wanted):
    assert buffers(shape_of(sizes, strides, dims), itemsize, machine) == wanted


def _allocations(file):
    taken = unpickle.load(traces() / file)
    (events,) = [one for one in taken["device_traces"] if one]
    return [one for one in events if one["action"] == "alloc"]


def _within(event, text):
    return any(text in frame["name"] for frame in event["frames"])


@RECORDED
def test_every_flag_that_a_recorded_run_looked_for_took_the_predicted_scratch():
    """``isnan().any()`` of tensors of many sizes; its GPU keeps 144 blocks busy: 72 processors of 1024 threads."""
    machine, compared, flags, taken = Machine(72, 1024), 0, None, []
    for event in _allocations("convnet_train.pickle"):
        if _within(event, "at::_ops::any::call"):
            if _within(event, "gpu_reduce_kernel"):
                taken.append(event["size"])
            continue
        if flags is not None and taken is not None:
            wanted = buffers(shape_of((flags,), (1,), None), 1, machine)
            assert taken == [size for size in wanted if size], flags
            compared += 1
        flags, taken = (event["size"], []) if _within(event, "at::_ops::ne_Tensor::call") else (None, [])
    assert compared > 200


@RECORDED
def test_the_known_sizes_are_in_the_traces():
    hopper = {
        one["size"] for one in _allocations("lm_3b_first_step_ctx128.pickle") if _within(one, "gpu_reduce")
    }
    assert hopper == {164_626_432, 41_156_608, 10_485_760, 16}
    ampere = {
        one["size"] for one in _allocations("lm_423m_train_ctx512.pickle") if _within(one, "gpu_reduce")
    }
    assert ampere == {16_777_216, 32}


def test_a_result_that_one_block_makes_takes_nothing():
    assert buffers(shape_of((512, 512), (512, 1), [1]), 4, AMPERE) == (0, 0)
    assert buffers(shape_of((4, 4), (4, 1), None), 4, AMPERE) == (0, 0)
    assert buffers(shape_of((), (), None), 4, AMPERE) == (0, 0)


def test_a_bias_gradient_takes_scratch_by_the_processors_of_the_gpu():
    """(8192, 3072) over rows: 4 outputs a load, 32 x 4 threads; ctas = min(max(target / 24, ...), 2048 / 16)."""
    taken = []
    for target in (A100, H100):
        with cuda(target) as watch:
            torch.empty(8192, 3072).sum(0)
        taken.append(watch.one("sum").after)
    # block 32 x 4 (512 / 4 threads), grid 3072 / 4 / 32 = 24, values 8192 / 4 = 2048, target SMs x 16
    a100, h100 = (min(-(-(sms * 16) // 24), 2048 // 16) for sms in (108, 132))
    assert taken == [[4 * 3072 * a100 * 32 * 4, 4 * 24], [4 * 3072 * h100 * 32 * 4, 4 * 24]]


def test_a_half_precision_sum_is_added_up_in_fp32_and_an_integer_one_is_converted_first():
    with cuda() as watch:
        torch.empty(2**20, dtype=torch.bfloat16).sum()
        torch.empty(2**20, dtype=torch.float32).sum()
        torch.empty(2**20, dtype=torch.bool).sum()
    half, single, flags = watch.named("sum")
    assert half.after == single.after
    assert flags.after[0] == 8 * 2**20  # as int64


def test_a_tensor_beyond_32_bit_offsets_is_reduced_in_halves():
    with cuda() as watch:
        torch.empty(2**20, 1024).sum(0)
        torch.empty(2**19, 1024).sum(0)
    whole, part = watch.named("sum")
    assert whole.after == part.after  # 4 GiB in parts of 2 GiB


def test_a_linear_layer_takes_its_bias_gradients_scratch_after_the_gradient():
    with cuda() as watch:
        layer = torch.nn.Linear(64, 3072)
        layer(weight(8192, 64)).sum().backward()
    (found,) = [one for one in watch.named("sum") if one.sizes == [4 * 3072]]
    assert found.after
