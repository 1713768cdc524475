"""Copies that kernels make of operands in another layout than theirs.

Sizes are bytes.
"""

from __future__ import annotations

from typing import Iterable, List

import torch

from .base import Scratch


def copied(
    tensors: Iterable[torch.Tensor], what: str, layout: torch.memory_format = torch.contiguous_format
) -> List[Scratch]:
    """A copy of every tensor that is not laid out so; ``what`` they are for."""
    return [
        (one.numel() * one.element_size(), what)
        for one in tensors
        if not one.is_contiguous(memory_format=layout)
    ]
