"""Weights that FSDP2 brings to the device for as long as a layer works, told while they are there.

While a module runs its parameters are the whole ones, and their storage is a new one each time; what a module holds
between iterations says nothing of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Sequence

import torch

from .tracker import storages

Told = Callable[[Sequence[torch.Tensor]], Any]


def watch(model: torch.nn.Module, told: Told) -> None:
    """Tell the whole parameters of each module as its forward and its backward begin, as long as ``model`` lives.

    Hooks of the model's own, so that those of FSDP2, which were there first, have brought the weights before.
    """
    for module in model.modules():
        if module._parameters:
            module.register_forward_pre_hook(partial(_before, told))
            module.register_forward_hook(partial(_after, told))


def _before(told: Told, module: torch.nn.Module, args: Any) -> None:
    # Whole ones are plain tensors with a storage; those at rest are parts of a DTensor.
    whole = [
        one
        for one in module._parameters.values()
        if one is not None and getattr(one, "_local_tensor", None) is None and storages([one])
    ]
    if whole:
        told(whole)


def _after(told: Told, module: torch.nn.Module, args: Any, out: Any) -> None:
    first = next(iter(out), None) if isinstance(out, (tuple, list)) else out
    if isinstance(first, torch.Tensor) and first.requires_grad:
        first.register_hook(lambda gradient: _before(told, module, None))
