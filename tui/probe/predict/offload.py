"""Saved tensors that go to the host, where all tensors are fakes of the CPU.

``torch.autograd.graph.save_on_cpu`` would find nothing to move: here what is saved leaves the device as it is saved
and is made anew, with the strides that a copy has, each time a backward asks for it.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Tuple

import torch
from torch.utils._python_dispatch import _disable_current_modes

Packed = Tuple[Any, Any, torch.dtype]
"""Sizes, strides and dtype of what is on the host."""


class SavedOnHost(torch.autograd.graph.saved_tensors_hooks):
    """Stands for ``save_on_cpu``: no byte of what is saved stays on the device."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: torch.Tensor) -> Packed:
            # Copies to pinned memory are contiguous; others keep the order of dimensions where there are no holes.
            like = torch.contiguous_format if pin_memory else torch.preserve_format
            with _disable_current_modes():
                bare = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
                strides = torch.empty_like(bare, memory_format=like).stride()
            return tensor.size(), strides, tensor.dtype

        def unpack(packed: Packed) -> torch.Tensor:
            sizes, strides, dtype = packed
            return torch.empty_strided(sizes, strides, dtype=dtype)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def saved_on_host() -> Iterator[None]:
    """A context in which ``save_on_cpu`` is ``SavedOnHost``."""
    before = torch.autograd.graph.save_on_cpu
    torch.autograd.graph.save_on_cpu = SavedOnHost  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        torch.autograd.graph.save_on_cpu = before  # type: ignore[misc]
