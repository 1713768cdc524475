"""RMS norm as one operator, as CUDA has it since torch 2.9; a CPU composes it of others.

Results are those of ``_fused_rms_norm_cuda``: the normalised input and fp32 deviations.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from .autocast import operator

_LOW = (torch.float16, torch.bfloat16)


def install(library: Any) -> None:
    """Give the fused operators kernels of the CPU, so that autograd takes them whole."""
    if operator("_fused_rms_norm_backward") is None:
        return
    library.impl("_fused_rms_norm", fused, "CPU")
    library.impl("_fused_rms_norm_backward", fused_backward, "CPU")


def fused(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: Optional[torch.Tensor], eps: Optional[float]
) -> Tuple[torch.Tensor, torch.Tensor]:
    """(result of the input's shape, deviations with 1 for every normalised dimension)."""
    kept = input.dim() - len(normalized_shape)
    rows = [*input.shape[:kept], *[1] * len(normalized_shape)]
    wide = torch.float32 if input.dtype in _LOW else input.dtype
    result = torch.empty_like(input, memory_format=torch.contiguous_format)
    return result, torch.empty(rows, dtype=wide, device=input.device)


def fused_backward(
    grad_out: torch.Tensor,
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    rstd: torch.Tensor,
    weight: Optional[torch.Tensor],
    output_mask: List[bool],
) -> Tuple[Optional[torch.Tensor], Optional[torch.Tensor]]:
    """Gradients of the input and of the weight, those that ``output_mask`` asks for."""
    of_input = torch.empty_like(input, memory_format=torch.contiguous_format) if output_mask[0] else None
    if not output_mask[1] or weight is None:
        return of_input, None
    return of_input, torch.empty_like(weight, memory_format=torch.contiguous_format)
