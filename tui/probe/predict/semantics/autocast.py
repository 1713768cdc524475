"""Autocast as CUDA does it, on tensors that are fakes of the CPU.

The two devices cast for different operators.  Which ones CUDA has is asked of the running torch, whose dispatcher
knows them on every build; what it does to each is the table below (``aten/src/ATen/autocast_mode.h`` and
``autocast_mode.cpp``).  Where the CPU has the same lower-precision rule its own kernel stays: it is the same C++
template with the same order of casts and the same cache of weights.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch

from .base import Assumptions

_ATEN = torch.ops.aten
_KEY = "AutocastCPU"

_LOWER = """_convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input
conv_transpose3d.input convolution cudnn_convolution cudnn_convolution_transpose prelu addmm addmv addr matmul einsum
mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell
_thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell _scaled_dot_product_flash_attention
scaled_dot_product_attention"""
_FP32 = """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm
nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss
kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp
upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d
upsample_bicubic2d _upsample_bicubic2d_aa frobenius_norm linalg_matrix_sqrth"""
_SET_DTYPE = """prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
linalg_matrix_norm.str_ord sum sum.dim_IntList prod.dim_Dimname softmax.Dimname log_softmax.Dimname cumprod.dimname
cumsum.dimname sum.dim_DimnameList"""
_APPEND_DTYPE = "norm.Scalar norm.ScalarOpt_dim norm.names_ScalarOpt_dim"
_PROMOTE = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add"
_BANNED = "binary_cross_entropy"
_ELSEWHERE = "_cudnn_rnn"  # by ``recurrent``

POLICIES: Dict[str, str] = {
    name: policy
    for policy, names in (
        ("lower", _LOWER),
        ("fp32", _FP32),
        ("set dtype", _SET_DTYPE),
        ("append dtype", _APPEND_DTYPE),
        ("promote", _PROMOTE),
        ("banned", _BANNED),
        ("elsewhere", _ELSEWHERE),
    )
    for name in names.split()
}
"""What CUDA's autocast does to an operator, by its name and overload."""

_APPENDED = {
    "norm.Scalar": "ScalarOpt_dtype",
    "norm.ScalarOpt_dim": "ScalarOpt_dim_dtype",
    "norm.names_ScalarOpt_dim": "names_ScalarOpt_dim_dtype",
}

Kernel = Callable[..., Any]


class Cache:
    """Casts of weights, each kept to the end of the outermost autocast region, as torch's own cache keeps them."""

    def __init__(self) -> None:
        self._casts: Dict[int, Tuple[Any, torch.Tensor]] = {}
        self._clear: Optional[Callable[[], Any]] = None

    def cast(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """``tensor`` as ``dtype``; a weight's is made once."""
        if not self._keeps(tensor, dtype):
            return tensor.to(dtype)
        found = self._casts.get(id(tensor))
        if found is not None and found[0]() is tensor and found[1].dtype == dtype:
            return found[1]
        made = tensor.to(dtype)
        self._casts[id(tensor)] = (weakref.ref(tensor), made)
        return made

    @staticmethod
    def _keeps(tensor: torch.Tensor, dtype: torch.dtype) -> bool:
        return (
            dtype == torch.get_autocast_dtype("cpu")
            and tensor.dtype == torch.float32
            and tensor.requires_grad
            and tensor.is_leaf
            and not tensor._is_view()
            and torch.is_autocast_cache_enabled()
        )

    def install(self) -> None:
        """Clear this cache whenever torch clears its own."""
        self._clear = clear = torch.clear_autocast_cache

        def both() -> Any:
            self._casts.clear()
            return clear()

        torch.clear_autocast_cache = both

    def uninstall(self) -> None:
        """Undo of ``install``."""
        self._casts.clear()
        if self._clear is not None:
            torch.clear_autocast_cache = self._clear
            self._clear = None


def install(library: Any, cache: Cache, assumptions: Assumptions) -> None:
    """Register what differs from the CPU's autocast with ``library``, one of ``torch.library`` for "aten"."""
    cuda, cpu = _registered("AutocastCUDA"), _registered(_KEY)
    for name in sorted(cuda - set(POLICIES)):
        func = operator(name)
        if func is not None:
            library.impl(name, _unknown(name, func, assumptions), _KEY)
    for name in sorted(cuda & set(POLICIES)):
        policy = POLICIES[name]
        func = operator(name)
        if func is None or policy == "elsewhere" or (policy == "lower" and name in cpu):
            continue
        library.impl(name, _kernel(policy, name, func, cache), _KEY)
    for name in sorted(cpu - cuda):
        if operator(name) is not None:
            library.impl(name, torch.library.fallthrough_kernel, _KEY)


def _registered(key: str) -> Set[str]:
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name[len("aten::") :] for name in names if name.startswith("aten::")}


def operator(name: str) -> Any:
    """The operator of a name such as ``pow.Tensor_Scalar``; None where this torch has no such overload."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(_ATEN, packet, None), overload or "default", None)


def _kernel(policy: str, name: str, func: Any, cache: Cache) -> Kernel:
    if policy == "banned":
        return _banned
    if policy == "set dtype":
        return _with_dtype(func)
    if policy == "append dtype":
        return _appending(getattr(_ATEN.norm, _APPENDED[name]))
    return _casting(func, policy, cache)


def _without_autocast() -> Any:
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU))


def _eligible(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64


def _casting(func: Any, policy: str, cache: Cache) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _without_autocast():
            dtype = torch.float32
            if policy == "lower":
                dtype = torch.get_autocast_dtype("cpu")
            elif policy == "promote":
                dtype = _widest([*args, *kwargs.values()])
            # C++ compilers of torch's wheels evaluate a call's arguments from the last to the first.
            named = {name: _cast(value, dtype, cache) for name, value in reversed(list(kwargs.items()))}
            return func(*reversed([_cast(value, dtype, cache) for value in reversed(args)]), **named)

    return kernel


def _cast(value: Any, dtype: torch.dtype, cache: Cache) -> Any:
    if isinstance(value, (list, tuple)):
        return [_cast(one, dtype, cache) for one in value]
    if _eligible(value) and value.dtype != dtype:
        return cache.cast(value, dtype)
    return value


def _widest(values: Sequence[Any]) -> torch.dtype:
    tensors: List[torch.Tensor] = []
    for value in values:
        tensors += [one for one in (value if isinstance(value, (list, tuple)) else [value]) if _eligible(one)]
    if any(one.dtype == torch.float32 for one in tensors):
        return torch.float32
    return torch.get_autocast_dtype("cpu")


def _with_dtype(func: Any) -> Kernel:
    places = [argument.name for argument in func._schema.arguments]
    place = places.index("dtype")
    by_name = func._schema.arguments[place].kwarg_only

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _without_autocast():
            if _eligible(args[0]):
                if len(args) > place and not by_name:
                    if args[place] is None:
                        args = (*args[:place], torch.float32, *args[place + 1 :])
                elif kwargs.get("dtype") is None:
                    kwargs["dtype"] = torch.float32
            return func(*args, **kwargs)

    return kernel


def _appending(func: Any) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _without_autocast():
            if not _eligible(args[0]):
                return torch.norm(*args, **kwargs)
            wanted = [argument.name for argument in func._schema.arguments if argument.name != "dtype"]
            given = dict(zip(wanted, args), **kwargs)
            given.setdefault("p", 2)
            if "keepdim" in wanted:
                given.setdefault("keepdim", False)
            return func(*(given[name] for name in wanted), dtype=torch.float32)

    return kernel


def _unknown(name: str, func: Any, assumptions: Assumptions) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        assumptions.approximate(
            "autocast: this torch casts for %s on CUDA in a way that is not known here; it ran uncast" % name
        )
        with _without_autocast():
            return func(*args, **kwargs)

    return kernel


def _banned(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. "
        "Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss."
    )
