"""How many samples of a micro-batch the model really gets: what its first forwards are called with.

A batch that was asked for and never reached the model was not measured, whatever the figures say.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

import torch
from torch.utils import _pytree as pytree

NOT_CALLED = "the model itself is not called"


class Observed:
    """Looks at the first micro-batch from ``start`` to ``stop``; ``placed`` is told every batch on the device."""

    def __init__(
        self, model: torch.nn.Module, micro: int, register: Optional[Callable[..., Any]] = None
    ) -> None:
        self._micro = micro
        self._batches = 0
        self.batch_bytes = 0
        """Bytes of the tensors of the first micro-batch."""
        self._leaves: List[int] = []
        self._calls: List[List[Tuple[Tuple[int, ...], int]]] = []
        self._hook = (register or model.register_forward_pre_hook)(self._called, with_kwargs=True)

    def placed(self, batch: Any) -> None:
        """A micro-batch is on the device; only the first one is looked at."""
        self._batches += 1
        if self._batches == 1:
            tensors = _tensors(batch)
            self._leaves = [one.numel() for one in tensors]
            self.batch_bytes = sum(one.numel() * one.element_size() for one in tensors)

    def _called(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        if self._batches <= 1:
            self._calls.append(
                [(tuple(one.shape), one.numel()) for one in _tensors((args, kwargs)) if one.dim()]
            )

    def stop(self) -> Tuple[Optional[int], str]:
        """(samples that the model got of the first micro-batch, why that is not known)."""
        self._hook.remove()
        calls = [one for one in self._calls if one]
        if not calls:
            return None, NOT_CALLED
        shapes = [shape for call in calls for shape, _ in call]
        if any(shape[0] == self._micro or shape[1:2] == (self._micro,) for shape in shapes):
            return self._micro, ""
        rows = sum(call[0][0][0] for call in calls)
        elements = sum(call[0][1] for call in calls)
        if rows == self._micro or elements in self._leaves:
            return self._micro, ""  # in parts, or in another shape
        if rows < self._micro:
            return rows, ""
        return None, "the model gets %d rows for %d samples" % (rows, self._micro)


def _tensors(value: Any) -> List[torch.Tensor]:
    return [one for one in pytree.tree_leaves(value) if isinstance(one, torch.Tensor)]
