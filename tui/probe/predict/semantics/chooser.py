"""Which attention kernel CUDA takes: the checks of ``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp``.

# B batch, H heads, S positions, D size of a head: queries, keys and values are BHSD.
"""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from .target import Gpu, cudnn_version, enabled

MATH, FLASH, EFFICIENT, CUDNN = "math", "flash", "efficient", "cuDNN"
_BY_NUMBER = {0: MATH, 1: FLASH, 2: EFFICIENT, 3: CUDNN}
"""torch.nn.attention.SDPBackend."""

_HALVES = (torch.float16, torch.bfloat16)
_HOPPERS = ((9, 0), (10, 0), (10, 3))
_CUDNN_PREFERRED = 91500  # a newer one is taken first since torch 2.10
_CUDNN_TRIED = (91002, 91200, 91600, 92300)
"""One on each side of every version that a check here compares with."""
_CUDNN_OF_WHEELS = {(2, 6): 90100, (2, 7): 90501, (2, 8): 91002, (2, 9): 91002, (2, 10): 91002}
"""cuDNN that torch's CUDA wheels bring, by version; newer ones are beyond 9.15.1 (issue 48163 of transformers)."""


class Call(NamedTuple):
    """One call of ``scaled_dot_product_attention``."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: Optional[torch.Tensor]
    dropout: float
    causal: bool
    grouped: bool

    @property
    def trains(self) -> bool:
        """Whether a backward will come."""
        tensors = (self.query, self.key, self.value)
        return torch.is_grad_enabled() and any(one.requires_grad for one in tensors)


Refused = Optional[str]
"""Why a kernel cannot be taken; None: it can."""


class Chooser:
    """The kernels in CUDA's order, and whether each can be taken."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._initial: Optional[List[int]] = _order()
        self.broad = gpu.torch >= (2, 14)
        """Whether fused kernels take inputs without a batch and one head of keys for all queries, and the efficient
        one groups of heads."""
        own = cudnn_version()
        self.cudnn = own or _CUDNN_OF_WHEELS.get(gpu.torch, 91600)
        self.cudnn_source = "this torch's own" if own else "as torch %d.%d's CUDA wheels bring it" % gpu.torch
        self._checks: Dict[str, Callable[[Call], Refused]] = {
            FLASH: self.flash,
            EFFICIENT: self.efficient,
            CUDNN: self.cudnn_fits,
        }

    def choose(self, call: Call) -> Tuple[str, str]:
        """(kernel, why it).

        Raises:
            RuntimeError: none of those that are switched on can be taken, as torch raises.
        """
        refused: List[Tuple[str, str]] = []
        for kernel in self.order():
            if kernel == MATH:
                why = None if torch.backends.cuda.math_sdp_enabled() else "math is switched off"
            else:
                why = self._checks[kernel](call)
            if why is None:
                return kernel, because(kernel, call, refused)
            refused.append((kernel, why))
        raise RuntimeError(
            "No available kernel. Aborting execution. (%s)" % "; ".join("%s: %s" % one for one in refused)
        )

    def order(self) -> List[str]:
        """Kernels by priority; an order that the program set itself goes first."""
        now = _order()
        if now is not None and now != self._initial:
            return [_BY_NUMBER[number] for number in now if number in _BY_NUMBER]
        if self.prefers_cudnn():
            return [CUDNN, FLASH, EFFICIENT, MATH]
        return [FLASH, EFFICIENT, MATH, CUDNN]

    def told(self) -> Tuple[str, str]:
        """cuDNN's version and where it is known from."""
        return "%d.%d.%d" % (
            self.cudnn // 10000,
            self.cudnn // 100 % 100,
            self.cudnn % 100,
        ), self.cudnn_source

    def decides_by_cudnn(self, call: Call) -> bool:
        """Whether another version of cuDNN would have another kernel for this call on this GPU."""
        if self._gpu.capability not in _HOPPERS or self._gpu.torch < (2, 10):
            return False
        own, found = self.cudnn, set()
        try:
            for self.cudnn in (own, *_CUDNN_TRIED):
                found.add(self.choose(call)[0])
        finally:
            self.cudnn = own
        return len(found) > 1

    def prefers_cudnn(self) -> bool:
        """Whether cuDNN comes first: on Hopper and the first Blackwell, by torch's version."""
        if self._gpu.capability not in _HOPPERS:
            return False
        if self._gpu.torch < (2, 9):
            return enabled("TORCH_CUDNN_SDPA_PREFERRED") is True
        if enabled("TORCH_CUDNN_SDPA_DEPRIORITIZED"):
            return False
        return self._gpu.torch == (2, 9) or self.cudnn > _CUDNN_PREFERRED

    def flash(self, call: Call) -> Refused:
        """``can_use_flash_attention``."""
        size = call.query.shape[-1]
        if not torch.backends.cuda.flash_sdp_enabled():
            return "it is switched off"
        if call.query.dim() != 4:
            return "inputs have %d dimensions" % call.query.dim()
        if call.mask is not None:
            return "a mask"
        if not size == call.key.shape[-1] == call.value.shape[-1] or size > 256:
            return "heads of %d" % size
        if self._gpu.major < 8:
            return "capability %d.%d" % self._gpu.capability
        small = (8, 6) <= self._gpu.capability <= (8, 9) or self._gpu.major == 12
        if call.trains and small and not (size <= 192 or (not call.dropout and size > 224)):
            return "training heads of %d on this GPU" % size
        if call.causal and call.query.shape[-2] != call.key.shape[-2]:
            return "causal, and queries and keys differ in length"
        if call.query.dtype not in _HALVES or not _alike(call):
            return _dtype(call)
        return self._dense(call, grouped=True, singleton=True)

    def efficient(self, call: Call) -> Refused:
        """``can_use_mem_efficient_attention``."""
        if not torch.backends.cuda.mem_efficient_sdp_enabled():
            return "it is switched off"
        if call.query.dim() != 4:
            return "inputs have %d dimensions" % call.query.dim()
        size, alignment = call.query.shape[-1], self._alignment(call)
        if size != call.key.shape[-1] or size % alignment or call.value.shape[-1] % alignment or not size:
            return "heads of %d, not a multiple of %d" % (size, alignment)
        kinds = (torch.float16, torch.float32) + ((torch.bfloat16,) if self._gpu.major >= 8 else ())
        if call.query.dtype not in kinds or not _alike(call):
            return _dtype(call)
        return self._dense(call, grouped=self.broad, singleton=False)

    def _alignment(self, call: Call) -> int:
        half = call.query.dtype in _HALVES
        tensor_cores = self._gpu.major >= 8 or (self._gpu.major == 7 and half)
        alignment = 4 if self._gpu.major >= 8 else 1
        return max(alignment, 128 // (16 if half else 32)) if tensor_cores else alignment

    def cudnn_fits(self, call: Call) -> Refused:
        """``can_use_cudnn_attention``."""
        if not _switch("cudnn_sdp_enabled"):
            return "it is switched off"
        if call.query.dim() != 4:
            return "inputs have %d dimensions" % call.query.dim()
        if torch.are_deterministic_algorithms_enabled() and not (
            torch.is_deterministic_algorithms_warn_only_enabled()
        ):
            return "deterministic algorithms were asked for"
        if self._gpu.major < 8:
            return "capability %d.%d" % self._gpu.capability
        if call.query.dtype not in _HALVES or not _alike(call):
            return _dtype(call)
        if call.mask is not None and (call.mask.requires_grad or not _fits_mask(call)):
            return "the mask"
        if call.dropout and (call.dropout * 16 % 1 or 91100 < self.cudnn < 91400):
            return "dropout of %g" % call.dropout
        sizes = (call.query.shape[-1], call.value.shape[-1])
        limit = 256 if self.cudnn > 92200 and self._gpu.capability in _HOPPERS else 128
        if max(sizes) > limit or sizes[0] % 8 or sizes[1] % 8:
            return "heads of %d" % max(sizes)
        if call.key.shape[-2] == 1 or (call.dropout and call.query.shape[-2] == 1):
            return "a single position"
        return self._dense(call, grouped=True, singleton=True)

    def _dense(self, call: Call, grouped: bool, singleton: bool) -> Refused:
        heads = [one.shape[-3] for one in (call.query, call.key, call.value)]
        shared = self.broad and heads[0] > 0 and heads[1] == heads[2] == 1  # broadcast without being told
        return _dense(call, grouped, singleton, shared and not call.grouped)


def _order() -> Optional[List[int]]:
    """The program's order of kernels, by number; None where this torch has none."""
    read = getattr(torch._C, "_get_sdp_priority_order", None)
    return None if read is None else list(read())


def _switch(name: str) -> bool:
    read = getattr(torch.backends.cuda, name, None)
    return bool(read()) if read is not None else False


def _alike(call: Call) -> bool:
    return call.query.dtype == call.key.dtype == call.value.dtype


def _dtype(call: Call) -> str:
    names = [_short(one.dtype) for one in (call.query, call.key, call.value)]
    return names[0] if len(set(names)) == 1 else "inputs of %s" % ", ".join(names)


def _short(dtype: torch.dtype) -> str:
    return str(dtype)[len("torch.") :].replace("bfloat16", "bf16").replace("float", "fp")


def _dense(call: Call, grouped: bool, singleton: bool, shared: bool) -> Refused:
    batches = {one.shape[0] for one in (call.query, call.key, call.value)}
    if len(batches) > 1:
        return "batches differ"
    heads = [one.shape[-3] for one in (call.query, call.key, call.value)]
    if len(set(heads)) > 1 and not shared:
        if not (grouped and call.grouped):
            return "keys have fewer heads"
        if heads[1] != heads[2] or not heads[1] or heads[0] % heads[1]:
            return "heads of keys do not divide those of queries"
    if not call.query.shape[-2] or not call.key.shape[-2]:
        return "no positions"
    strides = all(one.stride(-1) == 1 for one in (call.query, call.key, call.value))
    if not strides and not (singleton and call.query.shape[-1] == 1):
        return "the last dimension is not contiguous"
    if call.mask is not None and call.mask.stride(-1) != 1:
        return "the mask's last dimension is not contiguous"
    return None


def _fits_mask(call: Call) -> bool:
    """``check_attn_mask_shape``: every dimension is 1 or the scores' own."""
    assert call.mask is not None
    scores = (*call.query.shape[:3], call.key.shape[2])
    sizes = call.mask.shape
    return 2 <= len(sizes) <= 4 and all(
        size in (1, whole) for size, whole in zip(reversed(sizes), reversed(scores))
    )


def because(kernel: str, call: Call, refused: List[Tuple[str, str]]) -> str:
    """Why ``kernel``: what the call is like, and why those before it were passed over."""
    traits = [_dtype(call), "heads of %d" % call.query.shape[-1]]
    if call.causal:
        traits.append("causal")
    traits.append("no mask" if call.mask is None else "a mask")
    if call.dropout:
        traits.append("dropout")
    text = ", ".join(traits)
    return "; ".join([text, *("not %s: %s" % one for one in refused)])
