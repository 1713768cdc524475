"""Tensors without values: a fake mode that models, optimizers and copies of either can live in.

torch's own ``FakeTensorMode`` on the device "cpu", which every build of torch has.  A fake tensor has shape, strides,
dtype and a storage with a size, and no bytes.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


class FakeMode(FakeTensorMode):
    """A fake mode of one prediction.  Copies of what holds its tensors stay in it."""

    def __init__(self) -> None:
        # Constants that the workload's modules made while they were imported have values: they become fakes as they
        # are used.
        super().__init__(allow_non_fake_inputs=True)

    def __deepcopy__(self, memo: Dict[int, Any]) -> FakeMode:
        return self


@contextlib.contextmanager
def convertible() -> Iterator[None]:
    """A context in which ``Module.to`` and its kin work on fakes as they do on tensors with values.

    For fakes torch swaps whole tensors, which loses hooks and attributes and is refused where a weak reference exists.
    With values it gives the parameter another storage and lets it be the same parameter.
    """
    apply = torch.nn.Module._apply
    torch.nn.Module._apply = _apply  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.Module._apply = apply  # type: ignore[method-assign]


def _apply(self: torch.nn.Module, fn: Callable[[Any], Any], recurse: bool = True) -> torch.nn.Module:
    """``torch.nn.Module._apply``, with its order: children, then parameters with their gradients, then buffers."""
    if recurse:
        for child in self.children():
            child._apply(fn)
    for parameter in self._parameters.values():
        if parameter is None:
            continue
        with torch.no_grad():
            applied = fn(parameter)
            if applied is not parameter:
                parameter.data = applied
            if parameter.grad is not None:
                gradient = fn(parameter.grad)
                if gradient is not parameter.grad:
                    parameter.grad.data = gradient
    for name, buffer in self._buffers.items():
        if buffer is not None:
            self._buffers[name] = fn(buffer)
    return self


def is_fake(tensor: Any) -> bool:
    """Whether it is a tensor without values."""
    return isinstance(tensor, FakeTensor)
