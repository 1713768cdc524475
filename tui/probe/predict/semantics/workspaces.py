"""Workspaces of cuBLAS and cuBLASLt, which torch takes from the caching allocator.

One workspace belongs to one handle on one stream, and every thread has handles of its own: a training step has two,
that of the forward and the optimizer, and that of autograd.  Up to a change after torch 2.13 a workspace is kept once
it was made; after it, each call takes one and gives it back.  ``aten/src/ATen/cuda/CublasHandlePool.cpp`` and
``CUDABlas.cpp``; pull requests of pytorch are named where they changed a rule.  Sizes are bytes.
"""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, List, Mapping, Sequence, Set

import torch

from .base import Assumptions, Scratch
from .target import Gpu, enabled, header

_ATEN = torch.ops.aten
_KIB, _MIB = 1024, 1024**2
_DEFAULT = 2 * 4096 * _KIB + 8 * 16 * _KIB  # ":4096:2:16:8"
_HOPPER = 32 * _MIB

_GEMMS = """mm.default mm.dtype bmm.default bmm.dtype addmm.default addmm.dtype addmm_.default baddbmm.default
baddbmm_.default baddbmm.dtype addbmm.default addmv.default mv.default dot.default vdot.default
_addmm_activation.default _scaled_mm.default _grouped_mm.default linalg_vecdot.default"""


class Workspaces:
    """Which workspaces an operator makes or takes.

    Args:
        sizes: measured ones, by ``cublas_bytes`` and ``cublaslt_bytes``; rules stand in for what is not there.
    """

    def __init__(self, gpu: Gpu, assumptions: Assumptions, sizes: Mapping[str, int]) -> None:
        self._gpu = gpu
        self.transient = _transient(gpu)
        self.cublas = cublas_bytes(gpu) if "cublas_bytes" not in sizes else int(sizes["cublas_bytes"])
        self.cublaslt = cublaslt_bytes(gpu) if "cublaslt_bytes" not in sizes else int(sizes["cublaslt_bytes"])
        self.unified = _unified(gpu)
        self._made: Set[Any] = set()
        self._bias = False
        """Whether the operator that is running adds a bias, and so runs on cuBLASLt."""
        self.gemms: Set[Any] = set(_operators(_GEMMS))
        self._biased = set(_operators("addmm.default addmm_.default _addmm_activation.default"))
        assumptions.note("cuBLAS workspace", "%d B" % self.cublas, self._because(sizes))

    def _because(self, sizes: Mapping[str, int]) -> str:
        if "cublas_bytes" in sizes:
            return "measured"
        if os.environ.get("CUBLAS_WORKSPACE_CONFIG"):
            return "CUBLAS_WORKSPACE_CONFIG"
        kept = "taken at every call" if self.transient else "one for each of two threads"
        return "capability %d.%d, torch %d.%d, %s" % (*self._gpu.capability, *self._gpu.torch, kept)

    def looking(self, func: Any) -> Callable[..., Sequence[Scratch]]:
        """A rule that takes nothing and sees that the matrix product ``func`` begins."""
        biased = func in self._biased

        def look(gpu: Gpu, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> Sequence[Scratch]:
            self._bias = biased and fuses_bias(args, kwargs)
            return ()

        return look

    def taken(self) -> List[Scratch]:
        """What the matrix product that has begun takes and gives back."""
        if self.transient:
            size, what = (self.cublaslt, "cuBLASLt") if self._bias else (self.cublas, "cuBLAS")
            return [(size, "%s workspace" % what)] if size else []
        if self._bias and self._gpu.torch < (2, 9) and self.cublaslt:
            return [(self.cublaslt, "cuBLASLt workspace")]
        return []

    def kept(self, in_backward: bool) -> List[Scratch]:
        """What the matrix product makes and keeps: at the first of each thread."""
        if self.transient:
            return []
        wanted = [("cuBLAS workspace", self.cublas)]
        if self._bias and self._gpu.torch >= (2, 9) and not self.unified:
            wanted.append(("cuBLASLt workspace", self.cublaslt))
        found = []
        for what, size in wanted:
            if size and (what, in_backward) not in self._made:
                self._made.add((what, in_backward))
                found.append((size, what))
        return found


def _operators(names: str) -> List[Any]:
    found = []
    for name in names.split():
        packet, overload = name.split(".")
        func = getattr(getattr(_ATEN, packet, None), overload, None)
        if func is not None:
            found.append(func)
    return found


def cublas_bytes(gpu: Gpu) -> int:
    """cuBLAS's by ``CUBLAS_WORKSPACE_CONFIG`` or, without one, by the generation of the GPU."""
    config = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "")
    pairs = re.findall(r":(\d+):(\d+)", config)
    if pairs:
        return sum(int(size) * _KIB * int(count) for size, count in pairs)
    if gpu.major == 9:
        return _HOPPER
    return _HOPPER if gpu.major > 9 and gpu.torch >= (2, 12) else _DEFAULT  # pull request 175344


def cublaslt_bytes(gpu: Gpu) -> int:
    """cuBLASLt's own, by ``CUBLASLT_WORKSPACE_SIZE`` in KiB or by the GPU (pull request 120925)."""
    given = os.environ.get("CUBLASLT_WORKSPACE_SIZE", "")
    if given.isdigit():
        return int(given) * _KIB
    if gpu.torch >= (2, 11):
        return _MIB  # pull request 183923
    if gpu.major >= 9:
        return _HOPPER
    large = gpu.total_bytes is None or gpu.total_bytes >= 24 * 1024**3
    return 4 * _MIB if gpu.major == 8 and large else _MIB


def _transient(gpu: Gpu) -> bool:
    """Whether this torch takes workspaces call by call; its headers tell, or its version where there are none."""
    text = header("ATen/cuda/CUDAContextLight.h")
    can = "WorkspaceCachingEnabled" in text if text else gpu.torch >= (2, 15)
    return can and enabled("TORCH_CUBLAS_WORKSPACE_CACHE") is not True


def _unified(gpu: Gpu) -> bool:
    """Whether cuBLASLt uses cuBLAS's workspace: by default since torch 2.11 (pull request 168175)."""
    asked = enabled("TORCH_CUBLASLT_UNIFIED_WORKSPACE")
    return gpu.torch >= (2, 11) if asked is None else asked


def fuses_bias(args: Sequence[Any], kwargs: Dict[str, Any]) -> bool:
    """Whether ``addmm`` adds a vector in cuBLASLt's epilogue (``addmm_out_cuda_impl``)."""
    if len(args) < 3 or kwargs.get("beta", 1) != 1:
        return False
    bias, _, matrix = args[:3]
    return (
        bias.dim() == 1
        and bias.is_contiguous()
        and bias.shape[0] == matrix.shape[1]
        and matrix.shape[0] > 1
        and matrix.shape[1] > 1
    )
