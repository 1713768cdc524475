"""Dropout as CUDA keeps it: the mask is a tensor of booleans, where a CPU keeps one of the input's type."""

from __future__ import annotations

from typing import Any

import torch


def install(library: Any) -> None:
    """Register the operator with ``library``, one of ``torch.library`` for "aten".

    Feature and alpha dropout draw the same masks on either device and stay as they are.
    """
    library.impl("dropout", dropout, "AutogradCPU")


def dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """``aten/src/ATen/native/Dropout.cpp``: fused where something is drawn and something is left of it."""
    if not train or p == 0 or not input.numel():
        return input
    if p == 1:
        return input.mul(torch.zeros((), dtype=input.dtype, device=input.device))
    return torch.native_dropout(input, p, train)[0]
