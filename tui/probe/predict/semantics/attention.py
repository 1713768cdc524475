"""``scaled_dot_product_attention`` as a GPU runs it: the kernel that CUDA's chooser takes, with what it saves.

# B batch, H heads, S positions, D size of a head, T positions of keys: BHSD and BHTD.
"""

from __future__ import annotations

import math
from typing import Any, Optional

import torch

from .base import Assumptions
from .chooser import CUDNN, EFFICIENT, FLASH, Call, Chooser
from .target import Gpu

_ATEN = torch.ops.aten
RANGE = "cuDNN attention workspace"
_MASK_ALIGNMENT = 8  # elements, of the efficient kernel


class Attention:
    """Replaces torch's own choice, which on a CPU knows nothing of CUDA's kernels."""

    def __init__(self, gpu: Gpu, assumptions: Assumptions) -> None:
        self._chooser = Chooser(gpu)
        self._assumptions = assumptions

    def install(self, library: Any) -> None:
        """Register the operator with ``library``, one of ``torch.library`` for "aten"."""
        library.impl("scaled_dot_product_attention", self.attend, "AutogradCPU")

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: Optional[torch.Tensor] = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: Optional[float] = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        """The operator; queries BHSD or with other leading dimensions, keys and values BHTD."""
        call = Call(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
        if self._chooser.broad:
            call = _batched(call)
        kernel, why = self._chooser.choose(call)
        self._assumptions.note("attention kernel", kernel, why)
        if self._chooser.decides_by_cudnn(call):
            self._assumptions.note("cuDNN, for the order of attention kernels", *self._chooser.told())
        if kernel in (FLASH, CUDNN, EFFICIENT):
            found = self._fused(kernel, call, scale)
            return found if query.dim() == call.query.dim() else found.squeeze(0)
        return math_attention(
            query,
            key,
            value,
            additive(attn_mask, query.dtype),
            dropout_p,
            is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
        )[0]

    def _fused(self, kernel: str, call: Call, scale: Optional[float]) -> torch.Tensor:
        if kernel == FLASH:
            return _flash(call, scale)
        query, key, value = call.query, call.key, call.value
        mask = additive(call.mask, query.dtype)
        if kernel == CUDNN:
            self._declare(call)
            return _ATEN._scaled_dot_product_cudnn_attention(
                query, key, value, mask, call.trains, call.dropout, call.causal, False, scale=scale
            )[0]
        return _ATEN._scaled_dot_product_efficient_attention(
            query, key, value, _aligned(mask, call), call.trains, call.dropout, call.causal, scale=scale
        )[0]

    def _declare(self, call: Call) -> None:
        """Widen the range of cuDNN's workspace: to an fp32 gradient of the queries and their row sums."""
        B, H, S, D = call.query.shape
        highest = B * H * S * (D + 2) * 4 if call.trains else 0
        known = self._assumptions.ranges.setdefault(RANGE, [0, 0])
        known[1] = max(known[1], highest)
        self._assumptions.not_covered(
            "cuDNN attention workspaces: 0 to the fp32 gradients of the queries of the largest attention"
        )


def _batched(call: Call) -> Call:
    """Inputs HSD as a batch of one (``normalize_unbatched_input``)."""
    if any(one.dim() != 3 for one in (call.query, call.key, call.value)):
        return call
    mask = call.mask
    while mask is not None and mask.dim() < 4:
        mask = mask.unsqueeze(0)
    query, key, value = (one.unsqueeze(0) for one in (call.query, call.key, call.value))
    return call._replace(query=query, key=key, value=value, mask=mask)


def _flash(call: Call, scale: Optional[float]) -> torch.Tensor:
    """Heads are padded to a multiple of 8; the scale is that of the unpadded ones."""
    size = call.query.shape[-1]
    query, key, value = (_padded(one) for one in (call.query, call.key, call.value))
    scale = 1 / math.sqrt(size) if scale is None else scale
    found = _ATEN._scaled_dot_product_flash_attention(
        query, key, value, call.dropout, call.causal, False, scale=scale
    )[0]
    return found if found.shape[-1] == size else found[..., :size]


def _padded(tensor: torch.Tensor) -> torch.Tensor:
    beyond = tensor.shape[-1] % 8
    return torch.nn.functional.pad(tensor, (0, 8 - beyond)) if beyond else tensor


def additive(mask: Optional[torch.Tensor], dtype: torch.dtype) -> Optional[torch.Tensor]:
    """A boolean mask as what is added to the scores: 0 or minus infinity."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    masked = torch.scalar_tensor(-math.inf, dtype=dtype, device=mask.device)
    return torch.where(mask, 0.0, masked)


def _aligned(mask: Optional[torch.Tensor], call: Call) -> Optional[torch.Tensor]:
    """The mask with rows that start at multiples of 8 elements, broadcast to BHST (``preprocess_mask``)."""
    if mask is None:
        return None
    outer = [mask.stride(dim) for dim in range(mask.dim() - 1)]
    if mask.stride(-1) != 1 or any(stride % _MASK_ALIGNMENT for stride in outer):
        width = mask.shape[-1]
        mask = torch.nn.functional.pad(mask, (0, _MASK_ALIGNMENT - width % _MASK_ALIGNMENT))[..., :width]
    return mask.expand(call.query.shape[0], call.query.shape[1], call.query.shape[2], call.key.shape[2])


def math_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Optional[torch.Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Optional[torch.Tensor] = None,
    *,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention from plain operators, as ``aten/src/ATen/native/transformers/attention.cpp`` writes it.

    Written out because torch adds the mask out of place as soon as a tensor is a fake; a GPU adds it in place.
    """
    origin = query.dtype
    if origin in (torch.float16, torch.bfloat16) and not _reduced_math():
        query, key, value = query.float(), key.float(), value.float()
    factor = math.sqrt(abs(scale) if scale is not None else 1 / math.sqrt(query.shape[-1]))
    query = query * (-factor if scale is not None and scale < 0 else factor)
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )
        length = (query.shape[-2], key.shape[-2])
        attn_mask = additive(torch.ones(length, dtype=torch.bool, device=query.device).tril(), query.dtype)
    if enable_gqa:
        key = _repeated(key, query)
        value = _repeated(value, query)
    scores = torch.matmul(query, key.transpose(-2, -1) * factor)
    if attn_mask is not None:
        scores = scores.add_(attn_mask)
    weights = _ATEN._safe_softmax(scores, -1)
    if dropout_p > 0.0:
        weights = torch.dropout(weights, dropout_p, True)
    return torch.matmul(weights, value).to(origin), weights.to(origin)


def _repeated(tensor: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    times = query.shape[-3] // tensor.shape[-3]
    return tensor if times == 1 else tensor.repeat_interleave(times, -3)


def _reduced_math() -> bool:
    allowed = getattr(torch.backends.cuda, "fp16_bf16_reduction_math_sdp_allowed", None)
    return bool(allowed()) if allowed is not None else True
