"""What a CUDA device does otherwise than the fake tensors of a CPU.

Operators are looked up by identity; those that differ in nothing cost a look-up.
"""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from torch.library import Library

from . import (
    autocast,
    convolution,
    dropout,
    lists,
    normalisation,
    recurrent,
    rules,
    softmax,
    statistics,
)
from .attention import Attention
from .autocast import operator
from .base import Scratch, Semantics, Target
from .optimizing import ListKernels
from .target import Gpu
from .workspaces import Workspaces

_FEW = 2**20
"""Bytes below which it is not worth a sentence that scratch is not exact."""


_OF_OTHER_LIBRARIES = """
_fft_c2c _fft_c2r _fft_r2c _linalg_svd linalg_qr linalg_inv_ex linalg_lu_factor_ex linalg_lu linalg_cholesky_ex
_linalg_det _linalg_slogdet _linalg_eigh _linalg_solve_ex linalg_eig linalg_lstsq cholesky_solve linalg_ldl_factor_ex
"""
"""Operators of cuFFT and cuSOLVER, whose workspaces only they know."""


class CudaSemantics(Semantics):
    """See ``Semantics``.

    Args:
        target: None: an A100's processors are assumed, and it is said.
        workspaces: measured sizes, by ``cublas_bytes`` and ``cublaslt_bytes``, that go before the rules.
    """

    kind = "cuda"

    def __init__(
        self, target: Optional[Target] = None, workspaces: Optional[Mapping[str, int]] = None
    ) -> None:
        super().__init__(target)
        self.gpu = Gpu(target, self.assumptions)
        self._workspaces = Workspaces(self.gpu, self.assumptions, workspaces or {})
        self._gemms = self._workspaces.gemms
        self._before: Dict[Any, rules.Rule] = rules.before()
        self._before.update((func, self._workspaces.looking(func)) for func in self._gemms)
        self._after: Dict[Any, rules.Rule] = rules.after()
        self._after.update(dict.fromkeys(self._gemms, self._of_gemm))
        self._after[operator("convolution")] = self._of_convolution
        self._after[operator("native_batch_norm")] = self._of_batch_norm
        for name in ("_transformer_encoder_layer_fwd", "_native_multi_head_attention"):
            self._after[operator(name)] = self._of_fast_path
        for name in _OF_OTHER_LIBRARIES.split():
            self._after[operator(name)] = self._of_other_library
        self._tuned = {operator(name) for name in ("sort", "sort.stable", "cumsum", "cumprod")}
        self._wide = statistics.wide()
        self._sizes = _on_host(self.gpu)
        self._reserve = recurrent.Reserve()
        self._recurrent = operator("_cudnn_rnn")
        self._library: Any = None
        self._cache = autocast.Cache()
        self._lists = ListKernels(self.assumptions)

    def open(self) -> None:
        """Replace the operators that CUDA has otherwise; process global until ``close``."""
        self._library = library = Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that kernels are overridden is what is wanted
            Attention(self.gpu, self.assumptions).install(library)
            dropout.install(library)
            softmax.install(library)
            normalisation.install(library)
            recurrent.install(library, self.assumptions, self._reserve)
            autocast.install(library, self._cache, self.assumptions)
        self._cache.install()
        self._lists.install()

    def close(self) -> None:
        """Give torch its own kernels back."""
        self._lists.uninstall()
        self._cache.uninstall()
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def before(self, func: Any, args: Sequence[Any], kwargs: Dict[str, Any]) -> Sequence[Scratch]:
        """Copies of operands, and what composed operators make on their way."""
        rule = self._before.get(func)
        return () if rule is None else rule(self.gpu, args, kwargs, None)

    def after(self, func: Any, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> Sequence[Scratch]:
        """Partial results, accumulators and workspaces of kernels, which run once their results are there."""
        rule = self._after.get(func)
        if rule is None:
            return ()
        found = rule(self.gpu, args, kwargs, out)
        if found and func in self._tuned and max(size for size, _ in found) > _FEW:
            self.assumptions.approximate(
                "sorts and scans: their temporary storage depends on CUB's tuning and is that of capability 8.0"
            )
        return found

    def kept(self, func: Any, in_backward: bool) -> Sequence[Scratch]:
        """cuBLAS's workspace of the thread, at its first matrix product."""
        return self._workspaces.kept(in_backward) if func in self._gemms else ()

    def nbytes(self, func: Any, position: int, tensor: Any) -> Optional[int]:
        """fp32 for the statistics of normalisation layers, nothing for what CUDA keeps on the host."""
        if func in self._wide:
            return statistics.nbytes(position, tensor)
        if func is self._recurrent and position == 3:
            return self._reserve.nbytes
        places = self._sizes.get(func)
        return 0 if places is not None and position in places else None

    def _of_gemm(self, gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Scratch]:
        return lists.copied_matrices(args) + self._workspaces.taken()

    def _of_other_library(
        self, gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any
    ) -> Sequence[Scratch]:
        self.assumptions.not_covered("workspaces of cuSOLVER and cuFFT")
        return ()

    def _of_convolution(
        self, gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any
    ) -> Sequence[Scratch]:
        convolution.declare(args, out, self.assumptions)
        return ()

    def _of_batch_norm(
        self, gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any
    ) -> Sequence[Scratch]:
        if statistics.batch_norm_on_cudnn(args) and statistics.channels_last(args[0]):
            self.assumptions.not_covered(
                "cuDNN batch norm with channels last: its reserve space and workspace are not known"
            )
        return ()

    def _of_fast_path(
        self, gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any
    ) -> Sequence[Scratch]:
        self.assumptions.approximate(
            "the fast path of nn.TransformerEncoderLayer and nn.MultiheadAttention without gradients: what its "
            "operator makes on the way is left out"
        )
        return ()


def _on_host(gpu: Gpu) -> Dict[Any, Tuple[int, ...]]:
    """Results that CUDA keeps in main memory, by operator: the random state of attention kernels."""
    found = {"_scaled_dot_product_efficient_attention": (2, 3)}
    if gpu.torch < (2, 7):
        found["_scaled_dot_product_flash_attention"] = (2, 3)
    return {operator(name): places for name, places in found.items()}
