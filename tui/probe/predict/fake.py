"""Tensors without values: a fake mode that models, optimizers and copies of either can live in.

torch's own ``FakeTensorMode`` on the device "cpu", which every build of torch has.  A fake tensor has shape, strides,
dtype and a storage with a size, and no bytes.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator

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
def convertible(mode: FakeMode) -> Iterator[None]:
    """A context in which ``Module.to`` and its kin work on fakes of ``mode``.

    They swap tensors, which torch refuses where a weak reference to one exists; the mode's own memo holds such.
    """
    swap = torch.utils.swap_tensors

    def forgetful(one: torch.Tensor, other: torch.Tensor) -> None:
        memo = mode.fake_tensor_converter.meta_converter
        memo.tensor_memo.clear()
        memo.describer.lookup_tensor.clear()
        swap(one, other)

    torch.utils.swap_tensors = forgetful
    try:
        yield
    finally:
        torch.utils.swap_tensors = swap


def is_fake(tensor: Any) -> bool:
    """Whether it is a tensor without values."""
    return isinstance(tensor, FakeTensor)
