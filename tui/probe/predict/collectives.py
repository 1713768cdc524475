"""What a rank's collectives and gathered weights are called in the record of a trace without values.

FSDP2 gathers a group of layers into one flat buffer, copies it into the parameters, whose storages it gives their
size for as long as the group works (``UntypedStorage.resize_``), and flattens the gradients of a group into one
buffer before they are reduced.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, Optional

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ..label import Label
from .recorder import Live, Recorder

GATHERED = "unsharded_weights"
REDUCED = "reduction_buckets"
_ROWS = {
    "c10d::_allgather_base_": (0, GATHERED),
    "c10d::_reduce_scatter_base_": (1, REDUCED),
}
"""By operator: which of its arguments is named, and the row."""


class Collectives(TorchDispatchMode):
    """Names the buffers of the collectives that pass through it."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._known: Dict[Any, Any] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # see tracker.Tracker

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        if func not in self._known:
            self._known[func] = _ROWS.get(func._schema.name)
        named = self._known[func]
        if named is not None:
            place, row = named
            live = self._recorder._of(args[place])
            if live is not None:
                _name(self._recorder, live, row)
        return func(*args, **kwargs) if kwargs else func(*args)


def _name(recorder: Recorder, live: Live, row: str) -> None:
    """Say what a living storage is; it stays so when it is given another size."""
    label = live.label
    if label.row != row and live.nbytes:
        live.label = Label(row, label.op, label.module, label.phase, label.shape, label.dtype)
        recorder.births.append((recorder._now, live.id, live.label))


@contextlib.contextmanager
def resizes(recorder: Recorder) -> Iterator[None]:
    """Tell ``recorder`` of storages that are given another size: whole weights that come and go."""
    resize = torch.UntypedStorage.resize_

    def told(storage: Any, *args: Any) -> Any:
        live = recorder._live.get(storage._cdata)
        if live is not None:
            _name(recorder, live, GATHERED)
        out = resize(storage, *args)
        recorder.resized(storage)
        return out

    torch.UntypedStorage.resize_ = told  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign]


@contextlib.contextmanager
def rules_unseen() -> Iterator[None]:
    """A context in which DTensor finds the shapes of results on tensors of its own, which nobody counts.

    Its rules would take them from the fake mode that is active: tensors of the whole model's size, at the first call
    of each operator.
    """
    try:
        from torch.distributed.tensor._sharding_prop import ShardingPropagator
    except ImportError:
        yield
        return
    name = "_propagate_tensor_meta_non_cached"
    propagate = getattr(ShardingPropagator, name, None)
    if propagate is None:
        yield
        return

    def unseen(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return propagate(self, *args, **kwargs)

    setattr(ShardingPropagator, name, unseen)
    try:
        yield
    finally:
        setattr(ShardingPropagator, name, propagate)
