"""Losses whose reduced result lies in a storage of the size of what was reduced.

Their kernels write every element's loss into the result and reduce it in place, and torch shrinks no storage
(``mse_loss`` and its kin in aten/src/ATen/native/BinaryOps.cpp and Loss.cpp; on the CPU and on CUDA alike).
"""

from __future__ import annotations

import math
from typing import Any, Dict, Optional, Sequence

import torch

_ATEN = torch.ops.aten
_NONE = 0
"""``reduction`` of ATen: 0 none, 1 mean, 2 sum."""
REDUCTION_AT = {
    _ATEN.mse_loss.default: 2,
    _ATEN.smooth_l1_loss.default: 2,
    _ATEN.binary_cross_entropy.default: 3,
}
"""Position of the argument ``reduction``."""


def nbytes(func: Any, args: Sequence[Any], kwargs: Dict[str, Any], out: torch.Tensor) -> Optional[int]:
    """Bytes of the storage of the loss ``out``; None: as it seems."""
    at = REDUCTION_AT.get(func)
    if at is None:
        return None
    reduction = args[at] if len(args) > at else kwargs.get("reduction", 1)
    if reduction == _NONE:
        return None
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    return math.prod(shape) * out.element_size()
