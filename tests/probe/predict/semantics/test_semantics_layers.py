"""Dropout, normalisation, embeddings, convolutions, recurrent layers and optimizers as CUDA keeps them."""

import importlib

import pytest
import torch
import torch.nn.functional as F
from memory_records import traces
from torch import nn

from tui.probe import unpickle
from tui.probe.predict.semantics import losses
from tui.probe.predict.semantics.sorting import radix_sort

from .watching import cuda, weight

HALF = torch.bfloat16


def test_dropout_keeps_a_mask_of_one_byte_an_element():
    with cuda() as watch:
        F.dropout(weight(64, 64), 0.1).sum().backward()
    assert watch.one("native_dropout").sizes == [64 * 64 * 4, 64 * 64]
    assert watch.named("native_dropout_backward")
    with cuda() as watch:
        x = weight(4, 4)
        assert F.dropout(x, 0.0) is x
        assert F.dropout(x, 0.5, training=False) is x
    assert not watch.named("native_dropout")


def test_layer_norm_keeps_statistics_in_fp32():
    with cuda() as watch:
        out = F.layer_norm(weight(8, 32, 64, dtype=HALF), (64,), weight(64, dtype=HALF))
        out.backward(torch.empty_like(out))
    assert watch.one("native_layer_norm").sizes == [8 * 32 * 64 * 2, 8 * 32 * 4, 8 * 32 * 4]
    assert watch.one("native_layer_norm_backward").after == []


def test_layer_norm_of_very_many_short_rows_sums_parts_of_its_gradients():
    """65,568 rows of 64: 2 columns of blocks, so 16,384 rows of them at most, and 2,049 are needed."""
    with cuda() as watch:
        out = F.layer_norm(weight(65568, 64), (64,), weight(64), weight(64))
        out.backward(torch.empty_like(out))
    assert watch.one("native_layer_norm_backward").after[:2] == [2049 * 64 * 4] * 2


@pytest.mark.skipif(
    not hasattr(torch.ops.aten, "_fused_rms_norm_backward"), reason="this torch composes RMS norm on CUDA too"
)
def test_rms_norm_is_one_operator_with_fp32_deviations():
    with cuda() as watch:
        out = F.rms_norm(weight(8, 32, 64, dtype=HALF), (64,), weight(64, dtype=HALF))
        out.backward(torch.empty_like(out))
    assert watch.one("_fused_rms_norm").sizes == [8 * 32 * 64 * 2, 8 * 32 * 4]
    assert watch.one("_fused_rms_norm_backward").sizes == [8 * 32 * 64 * 2, 64 * 2]
    assert not watch.named("rsqrt")


def test_batch_norm_keeps_statistics_in_fp32_and_names_what_cudnn_hides():
    with cuda() as watch:
        layer = nn.BatchNorm2d(16)
        layer(weight(4, 16, 8, 8, dtype=HALF))
        assert watch.semantics.assumptions.uncovered == []
        layer(weight(4, 16, 8, 8).to(memory_format=torch.channels_last))
    first, _ = watch.named("native_batch_norm")
    assert first.sizes == [4 * 16 * 64 * 2, 16 * 4, 16 * 4]
    assert ["reserve space" in one for one in watch.semantics.assumptions.uncovered] == [True]


def test_group_norm_makes_scales_and_sums_by_channel():
    """``GroupNormKernelImplInternal``: two of N x C; its backward two of N x C, one more, and two of N x G."""
    with cuda() as watch:
        out = F.group_norm(weight(4, 16, 8, 8), 2, weight(16), weight(16))
        out.backward(torch.empty_like(out))
    assert watch.one("native_group_norm").after == [4 * 16 * 4] * 2
    assert watch.one("native_group_norm_backward").after == [4 * 16 * 4] * 3 + [4 * 2 * 4] * 2


RECORDED = pytest.mark.skipif(
    traces() is None, reason="the recorded traces are not here; PEAKMARK_TRACES names them"
)


@RECORDED
@pytest.mark.parametrize(("file", "count"), [("lm_423m_train_ctx128", 512), ("lm_423m_train_ctx512", 2048)])
def test_adding_into_rows_takes_the_indices_of_a_recorded_trace(file, count):
    """Of an embedding written as ``weight[ids]``: offsets, sorted, order and range of the ids, and a sort's 1 B."""
    taken = unpickle.load(traces() / (file + ".pickle"))
    (events,) = [one for one in taken["device_traces"] if one]
    sizes = [
        event["size"]
        for event in events
        if event["action"] == "alloc"
        and any(
            "index_put_with_sort_kernel" in f["name"] or "_index_put_impl_" in f["name"]
            for f in event["frames"]
        )
    ]
    with cuda() as watch:
        table = weight(10000, 8)
        table[torch.zeros(4, count // 4, dtype=torch.int64)].sum().backward()
    found = watch.one("index_put").after
    assert sorted(found)[1:5] == [8 * count] * 4
    assert found[-1] == 1
    # the first temporary of the offsets is gone before the sort begins, so one more is in the trace
    assert sorted(sizes) == sorted([8 * count, *[size for size in found if size in (8 * count, 1)]])


def test_an_embedding_of_few_indices_takes_nothing_and_of_many_it_sorts_them():
    """``embedding_backward_cuda_kernel``: segments by index, partial sums of 10 rows each in fp32."""
    count, rows, width = 8192, 50257, 64
    with cuda() as watch:
        few, many = torch.zeros(3072, dtype=torch.int64), torch.zeros(count, dtype=torch.int64)
        for ids in (few, many):
            out = F.embedding(ids, weight(rows, width))
            out.backward(torch.empty_like(out))
    small, large = watch.named("embedding_dense_backward")
    assert (small.before, small.after) == ([], [])
    assert large.before == [8 * count] * 2
    parts = count // 10 + count
    assert large.after == [8 * count, 8, 8 * count, 8 * count, 8, 8 * parts, parts * width * 4]


def test_a_sort_of_many_pairs_needs_room_for_both():
    assert radix_sort(2048, 8, 8, 14) == 1
    assert radix_sort(100_000, 8, 8, 17) > 2 * 8 * 100_000
    assert radix_sort(100_000, 8, 8, 7) < 100_000  # one pass writes straight to the result


def test_a_convolution_is_copied_into_one_memory_format_and_its_workspace_is_a_range():
    with cuda() as watch:
        conv = nn.Conv2d(3, 8, 3, padding=1)
        x = torch.empty(2, 3, 16, 16)
        conv(x)
        conv(x.to(memory_format=torch.channels_last))
    plain, last = watch.named("convolution")
    assert plain.before == []
    assert last.before == [8 * 3 * 9 * 4]
    assert watch.semantics.assumptions.ranges["cuDNN convolution workspace"] == [0, 2 * 16 * 16 * 3 * 9 * 4]
    assert any("cuDNN convolution workspaces" in one for one in watch.semantics.assumptions.uncovered)


def test_the_bias_of_a_convolution_is_reduced_on_its_own():
    """64 images of 64 x 64 to 32 channels: 512 values a thread, 432 blocks wanted of 32 outputs: 14 each."""
    with cuda() as watch:
        conv = nn.Conv2d(4, 32, 1)
        out = conv(torch.empty(64, 4, 64, 64))
        out.backward(torch.empty_like(out))
    assert watch.one("convolution_backward").after == [4 * 32 * 14, 4 * 32]


@pytest.mark.parametrize(("kind", "kept"), [(nn.LSTM, 6), (nn.GRU, 5), (nn.RNN, 2)])
def test_recurrent_layers_run_as_cudnns_and_are_marked_approximate(kind, kept):
    with cuda() as watch:
        layer = kind(8, 16, num_layers=2, batch_first=True)
        out, _ = layer(weight(3, 5, 8))
        out.sum().backward()
        assert out.shape == (3, 5, 16)
        assert all(one.grad.shape == one.shape for one in layer.parameters())
    found = watch.one("_cudnn_rnn")
    assert found.sizes[0] == 5 * 3 * 16 * 4
    assert found.sizes[3] == 2 * kept * 5 * 3 * 16 * 4
    (sentence,) = watch.semantics.assumptions.approximations
    assert "reserve space" in sentence


def _updated(make):
    with cuda() as watch:
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        optimizer = make(model.parameters())
        model(torch.empty(4, 8)).sum().backward()
        optimizer.step()
    return watch


def test_optimizers_update_lists_by_default_as_they_do_on_a_gpu():
    watch = _updated(lambda parameters: torch.optim.AdamW(parameters))
    assert watch.one("_foreach_sqrt").sizes == [8 * 8 * 4, 8 * 4] * 2
    assert watch.notes("optimizer kernels") == [("foreach", 1)]


def test_optimizers_do_otherwise_when_they_are_told_to():
    watch = _updated(lambda parameters: torch.optim.AdamW(parameters, foreach=False))
    assert not watch.named("_foreach_sqrt")
    watch = _updated(lambda parameters: torch.optim.AdamW(parameters, fused=True))
    assert watch.named("_fused_adamw_")
    watch = _updated(lambda parameters: torch.optim.AdamW(parameters, capturable=True))
    assert watch.named("_foreach_sqrt")
    watch = _updated(lambda parameters: torch.optim.SGD(parameters, differentiable=False, weight_decay=0.1))
    assert watch.named("_foreach_add")


def test_clipping_measures_lists_and_their_chunks():
    with cuda() as watch:
        model = nn.Linear(300, 300)
        model(torch.empty(4, 300)).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert watch.one("_foreach_norm").after[0] == 2 * 2 * 4  # two tensors, 90,000 elements are two chunks
    assert watch.named("_foreach_mul_")


def test_list_kernels_are_torchs_own_choice_again_after_closing():
    adam = importlib.import_module("torch.optim.adam")
    before = adam._default_to_fused_or_foreach
    with cuda():
        assert adam._default_to_fused_or_foreach is not before
    assert adam._default_to_fused_or_foreach is before


def test_without_a_gpu_the_assumed_one_is_named():
    with cuda(None) as watch:
        torch.empty(8192, 3072).sum(0)
    ((value, _),) = watch.notes("GPU")
    assert "108 processors" in value


def test_a_softmax_of_fp16_is_not_converted_first_and_one_of_bf16_is():
    """``softmax`` and ``log_softmax`` of SoftMax.cpp: CUDA reads half precision and writes fp32 in one kernel."""
    for dtype, copies in ((torch.float16, 0), (HALF, 1)):
        with cuda() as watch:
            x = weight(4, 64, dtype=dtype)
            torch.softmax(x, -1, dtype=torch.float32).backward(torch.empty(4, 64))
            torch.log_softmax(x, -1, dtype=torch.float32)
        assert len([one for one in watch.named("_to_copy") if one.sizes == [4 * 64 * 4]]) == 2 * copies
    assert watch.one("_softmax").sizes == [4 * 64 * 4]


def test_the_backward_of_softmax_makes_a_product_as_large_as_its_result():
    """``Tensor tmp = grad * output`` of softmax_backward_cuda_out; log_softmax has none."""
    with cuda() as watch:
        torch.softmax(weight(4, 64), -1).backward(torch.empty(4, 64))
        torch.log_softmax(weight(4, 64), -1).backward(torch.empty(4, 64))
    assert watch.one("_softmax_backward_data").after == [4 * 64 * 4]
    assert watch.one("_log_softmax_backward_data").after == []


@pytest.mark.parametrize(("reduction", "made"), [("mean", True), ("sum", True), ("none", False)])
def test_losses_make_one_value_an_element_before_they_reduce_them(reduction, made):
    x, y = torch.empty(64, 16), torch.empty(64, 16)
    elements = [64 * 16 * 4] * made
    with cuda() as watch:
        F.mse_loss(x, y, reduction=reduction)
        F.smooth_l1_loss(x, y, reduction=reduction)
        F.huber_loss(x, y, reduction=reduction)
        F.binary_cross_entropy_with_logits(x, y, reduction=reduction)
    assert watch.one("mse_loss").after == watch.one("smooth_l1_loss").after == elements
    assert watch.one("huber_loss").before == elements
    assert watch.one("binary_cross_entropy_with_logits").before == [64 * 16 * 4, *elements]


def test_logsumexp_makes_the_exponentials_of_its_input():
    with cuda() as watch:
        torch.logsumexp(torch.empty(64, 16), -1)
    assert watch.one("logsumexp").after == [64 * 4, 64 * 16 * 4]


def test_the_fast_path_of_a_transformer_layer_is_marked_approximate():
    with cuda() as watch:
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        layer(weight(2, 4, 16)).sum().backward()
        assert watch.semantics.assumptions.approximations == []
        with torch.no_grad():
            layer.eval()(torch.empty(2, 4, 16))
    (sentence,) = watch.semantics.assumptions.approximations
    assert "fast path" in sentence


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("loss", ["mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"])
def test_a_reduced_loss_is_said_to_keep_the_storage_that_it_really_keeps(loss, reduction):
    x, y = torch.full((64, 16), 0.5), torch.full((1, 16), 0.5).expand(64, 16)
    real = getattr(F, loss)(x, y, reduction=reduction)
    said = losses.result_bytes(
        getattr(torch.ops.aten, loss).default,
        (x, y),
        {"reduction": {"none": 0, "mean": 1, "sum": 2}[reduction]},
    )
    assert real.untyped_storage().nbytes() == (real.numel() * 4 if said is None else said)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_recurrent_layer_is_marked_approximate_in_any_dtype(dtype):
    with cuda() as watch:
        layer = nn.LSTM(8, 8, dtype=dtype)
        layer(torch.empty(3, 2, 8, dtype=dtype))[0].sum().backward()
    (sentence,) = watch.semantics.assumptions.approximations
    assert sentence.startswith("LSTM ")


@pytest.mark.parametrize(
    "run", [torch.fft.rfft, torch.linalg.svdvals, torch.linalg.qr, torch.linalg.inv, torch.logdet]
)
def test_workspaces_of_other_libraries_are_said_not_to_be_covered(run):
    with cuda() as watch:
        run(torch.empty(8, 8))
    assert "workspaces of cuSOLVER and cuFFT" in watch.semantics.assumptions.uncovered
