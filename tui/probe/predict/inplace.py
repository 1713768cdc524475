"""What autograd does in place when nobody looks, and out of place as soon as a dispatch mode does.

With a mode or a tensor subclass about, autograd takes the branches that can be differentiated again: gradients are
added up into a new tensor and ``scatter``, ``index_put`` and their kin copy what they write into.  A real run writes
into the buffer it holds.  Here the result takes over the record of the argument that it would have been written into.

The engine adds in place when nobody else holds its buffer or the buffer's storage (``InputBuffer::accumulate`` in
torch/csrc/autograd/input_buffer.cpp).  How many references there are then while a mode looks depends on torch's
version, so it is observed once on a graph where it must be so.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Optional, Tuple

import torch

_ATEN = torch.ops.aten
ADDED = _ATEN.add.Tensor
WRITTEN = frozenset(
    (
        _ATEN.scatter.src,
        _ATEN.scatter.value,
        _ATEN.scatter_add.default,
        _ATEN.index_put.default,
        _ATEN.index_add.default,
        _ATEN.masked_scatter.default,
    )
)
"""What a backward writes into zeros that it has just made, however many references there are."""


class InPlace:
    """Says whether an operator of a backward would have written into its first argument."""

    def __init__(self) -> None:
        self._alone: Optional[Tuple[int, int]] = None
        self._observing = False
        self._masking = False

    @contextlib.contextmanager
    def masking(self) -> Iterator[None]:
        """A context in which a forward adds in place, as attention does with its mask."""
        before, self._masking = self._masking, True
        try:
            yield
        finally:
            self._masking = before

    def observe(self) -> None:
        """Learn what a buffer that only the engine holds looks like; called with the modes of the trace active."""
        leaf = torch.ones(2, requires_grad=True)
        shared = leaf.sin()
        self._observing = True
        try:
            (shared * 2 + shared * 3).sum().backward()
        finally:
            self._observing = False

    def target(self, func: Any, args: Any) -> Optional[torch.Tensor]:
        """The argument that the result would have been written into; None: the result is a new one.

        Told before ``func`` is called.
        """
        if func is not ADDED and func not in WRITTEN:
            return None
        into = args[0]
        if not isinstance(into, torch.Tensor):
            return None
        if self._masking and func is ADDED:
            return into
        if torch._C._current_graph_task_id() == -1 or torch.is_grad_enabled():
            return None
        if func is not ADDED:
            return into
        counts = (_storage_references(into), into._use_count())  # type: ignore[attr-defined]
        if self._observing:
            self._alone = counts
            return None
        alone = self._alone
        if alone is None or counts[0] > alone[0] or counts[1] > alone[1]:
            return None
        other = args[1]
        if not isinstance(other, torch.Tensor) or other.shape != into.shape:
            return None
        return into if dense(into) else None


def _storage_references(tensor: torch.Tensor) -> int:
    # The storage object that is made for the question holds one itself, in both counts alike.
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)  # type: ignore[attr-defined]


def dense(tensor: torch.Tensor) -> bool:
    """Whether its elements lie one beside the other without holes or overlaps, in any order of dimensions."""
    expected = 1
    for stride, size in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape) if n != 1):
        if stride != expected:
            return False
        expected *= size
    return True
