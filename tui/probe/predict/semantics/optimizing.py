"""Optimizers and gradient clipping as they are on a GPU: in lists of tensors by default.

torch takes the list kernels only where every parameter is a plain tensor or parameter on a device that has them; a
fake on the CPU is neither.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch.utils import _foreach_utils

from .base import Assumptions

_WHERE = "torch.optim.", "torch.nn.utils.", "torch.utils._foreach_utils"


class ListKernels:
    """Changes what torch's optimizers ask about devices, and takes it back."""

    def __init__(self, assumptions: Assumptions) -> None:
        self._assumptions = assumptions
        self._replaced: List[Tuple[Any, str, Any]] = []

    def install(self) -> None:
        """Replace the questions wherever they were imported to."""
        answers: Dict[str, Callable[..., Any]] = {
            "_default_to_fused_or_foreach": self._default,
            "_has_foreach_support": _supported,
            "_device_has_foreach_support": _supported,
            "_get_foreach_kernels_supported_devices": _with_cpu(
                _foreach_utils, "_get_foreach_kernels_supported_devices"
            ),
            "_get_capturable_supported_devices": _with_cpu(
                importlib.import_module("torch.optim.optimizer"), "_get_capturable_supported_devices"
            ),
        }
        for name, module in list(sys.modules.items()):
            if not name.startswith(_WHERE):
                continue
            for asked, answer in answers.items():
                if answer is not None and asked in vars(module):
                    self._replaced.append((module, asked, vars(module)[asked]))
                    setattr(module, asked, answer)

    def uninstall(self) -> None:
        """Undo of ``install``."""
        while self._replaced:
            module, name, before = self._replaced.pop()
            setattr(module, name, before)

    def _default(self, params: List[Any], differentiable: bool, use_fused: bool = False) -> Tuple[bool, bool]:
        """(fused, foreach) of an optimizer that was told neither (``_default_to_fused_or_foreach``)."""
        if differentiable:
            return False, False
        plain = all(one is None or one.layout == torch.strided for one in params)
        fused = use_fused and plain and all(one is None or torch.is_floating_point(one) for one in params)
        if not fused:
            self._assumptions.note("optimizer kernels", "foreach", "torch's default on CUDA")
        return fused, not fused


def _supported(*args: Any, **kwargs: Any) -> bool:
    return True


def _with_cpu(module: Any, name: str) -> Any:
    """The function ``name`` of ``module`` with "cpu" among its devices; None where this torch has none."""
    before = getattr(module, name, None)
    if before is None:
        return None

    def devices(*args: Any, **kwargs: Any) -> List[str]:
        return [*before(*args, **kwargs), "cpu"]

    return devices
