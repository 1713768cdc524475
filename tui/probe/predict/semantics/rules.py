"""Which operators take something beside their results on CUDA, and by which rule.

A rule is asked with (gpu, args, kwargs, out) and answers [(bytes, what for)]; ``out`` is None before the operator.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

from . import accumulators, convolution, lists, losses, reductions, softmax, sorting, statistics
from .autocast import operator
from .base import Scratch
from .target import Gpu

Rule = Callable[[Gpu, Sequence[Any], Dict[str, Any], Any], Sequence[Scratch]]

_BEFORE: Dict[str, Rule] = {
    "native_layer_norm": statistics.copies,
    "native_layer_norm_backward": statistics.copies_backward,
    "native_group_norm": statistics.copies,
    "_fused_rms_norm": statistics.copies,
    "_fused_rms_norm_backward": statistics.copies_backward,
    "native_group_norm_backward": statistics.copies_backward,
    "embedding_dense_backward": sorting.embedding_before,
    "_safe_softmax": softmax.safe,
    "binary_cross_entropy_with_logits": losses.with_logits,
    "huber_loss": losses.plain,
    "binary_cross_entropy": losses.weighted,
    "convolution": convolution.copies,
    "convolution_backward": convolution.copies_backward,
    "_scaled_dot_product_flash_attention_backward": accumulators.copies_flash,
    "_scaled_dot_product_efficient_attention_backward": accumulators.copies_efficient,
}

_AFTER: Dict[str, Rule] = {
    "native_layer_norm_backward": statistics.layer_norm_backward,
    "_fused_rms_norm_backward": statistics.rms_norm_backward,
    "native_group_norm": statistics.group_norm,
    "native_group_norm_backward": statistics.group_norm_backward,
    "embedding_dense_backward": sorting.embedding_after,
    "index_put": sorting.index_put,
    "index_put_": sorting.index_put,
    "_index_put_impl_": sorting.index_put,
    "_unsafe_index_put": sorting.index_put,
    "logsumexp": softmax.logsumexp,
    "_softmax": softmax.forward,
    "_log_softmax": softmax.forward,
    "_softmax_backward_data": softmax.backward,
    "_log_softmax_backward_data": softmax.log_backward,
    "mse_loss": losses.plain,
    "smooth_l1_loss": losses.plain,
    "sort": sorting.sort,
    "sort.stable": sorting.sort,
    "cumsum": sorting.scan,
    "cumprod": sorting.scan,
    "convolution_backward": convolution.bias_gradient,
    "_foreach_norm.Scalar": lists.foreach_norm,
    "_scaled_dot_product_flash_attention": accumulators.flash_forward,
    "_scaled_dot_product_flash_attention_backward": accumulators.flash_backward,
    "_scaled_dot_product_efficient_attention": accumulators.efficient_forward,
    "_scaled_dot_product_efficient_attention_backward": accumulators.efficient_backward,
}


def before() -> Dict[Any, Rule]:
    """Rules of what is taken before the results, by operator."""
    return _by_operator(_BEFORE)


def after() -> Dict[Any, Rule]:
    """Rules of what is taken once the results are there, by operator."""
    found = _by_operator(_AFTER)
    for func, reduction in reductions.table().items():
        found[func] = _reducing(reduction, func)
    return found


def _reducing(reduction: reductions.Reduction, func: Any) -> Rule:
    def rule(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
        return reductions.of_operator(reduction, func, args, kwargs, out, gpu.machine)

    return rule


def _by_operator(rules: Dict[str, Rule]) -> Dict[Any, Rule]:
    found = {operator(name): rule for name, rule in rules.items()}
    found.pop(None, None)
    return found
