"""Parameters of which this process holds a part: their logical size, and what is here.

DeepSpeed stage 3 leaves an empty placeholder with ``ds_shape`` and ``ds_tensor``; a DTensor has a local shard; FSDP's
flat parameter is many parameters in one row, of which each rank holds a slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Dict, Optional, Tuple

import torch


@dataclass
class Part:
    """One parameter as this process holds it."""

    shape: Tuple[int, ...]
    """The logical one."""
    local: Optional[torch.Tensor]
    """What is held here; None: nothing."""
    by: str
    """Who divided it, in words."""


def of_parameter(parameter: torch.Tensor, originals: Dict[int, Tuple[int, ...]]) -> Optional[Part]:
    """The part of ``parameter`` that is here, None when it is whole; ``originals`` as the function of that name."""
    size, shape = getattr(parameter, "ds_numel", None), getattr(parameter, "ds_shape", None)
    if shape is not None or size is not None:
        logical: Tuple[int, ...] = (int(size),) if shape is None and size is not None else tuple(shape or ())
        local = getattr(parameter, "ds_tensor", None)
        whole = parameter.data if parameter.numel() else None
        return Part(logical, local if isinstance(local, torch.Tensor) else whole, "DeepSpeed stage 3")
    local = getattr(parameter, "_local_tensor", None)
    if isinstance(local, torch.Tensor):
        divided = any(not one.is_replicate() for one in getattr(parameter, "placements", ()))
        return Part(tuple(parameter.shape), local, "DTensor") if divided else None
    flat = getattr(parameter, "_unpadded_unsharded_size", None)
    shape = originals.get(id(parameter)) if flat is None else tuple(flat)
    # One that is not divided (NO_SHARD, a single rank) is here as a whole.
    if shape is None or tuple(parameter.shape) == shape:
        return None
    return Part(shape, parameter.data, "a flat parameter")


def originals(model: torch.nn.Module) -> Dict[int, Tuple[int, ...]]:
    """{id: logical shape} of parameters that are views of a flat one, as FSDP with ``use_orig_params`` leaves them."""
    found = {}
    for module in model.modules():
        flat: Any = getattr(getattr(module, "_handle", None), "flat_param", None)
        shapes = getattr(flat, "_shapes", None)
        for one, shape in zip(getattr(flat, "_params", None) or (), shapes or ()):
            found[id(one)] = tuple(shape)
    return {key: shape for key, shape in found.items() if prod(shape) > 0}
