"""The reduction buckets of ``DistributedDataParallel``, in a trace without values.

One bucket a dtype when the model is wrapped; from the first forward after a backward on, buckets in the order in
which the gradients came: a first one of at least 1 MiB, then of at least 25 MiB, closed by the parameter that fills
them.  They hold a copy of every gradient and survive ``zero_grad``; with ``gradient_as_bucket_view`` the gradients
are views of them.  Source: torch/csrc/distributed/c10d/reducer.cpp (compute_bucket_assignment_by_size,
rebuild_buckets) and ``DistributedDataParallel._ddp_init_helper``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Tuple

import torch

if TYPE_CHECKING:
    from .recorder import Recorder

FIRST_BYTES = 1 << 20
CAP_BYTES = 25 << 20


def assignment(sizes: Sequence[Tuple[Any, int]]) -> List[List[int]]:
    """Indices of the parameters in each bucket, of (dtype, bytes) in the order in which gradients come.

    >>> assignment([("float32", 2 << 20), ("float32", 20 << 20), ("float32", 10 << 20), ("float32", 4)])
    [[0], [1, 2], [3]]
    """
    found: List[List[int]] = []
    filling: Dict[Any, Tuple[List[int], int]] = {}
    begun = set()
    for index, (kind, nbytes) in enumerate(sizes):
        held, filled = filling.get(kind, ([], 0))
        held, filled = [*held, index], filled + nbytes
        if filled >= (CAP_BYTES if kind in begun else FIRST_BYTES):
            found.append(held)
            begun.add(kind)
            held, filled = [], 0
        filling[kind] = (held, filled)
    return found + [held for held, _ in filling.values() if held]


class Buckets:
    """Those of one model; they live as long as this object, and its hooks as long as the model."""

    def __init__(self, model: torch.nn.Module, recorder: Recorder, view: bool) -> None:
        self._recorder = recorder
        self._view = view
        self._parameters = [one for one in model.parameters() if one.requires_grad]
        self._arrived: List[torch.nn.Parameter] = []
        self._rebuilt = False
        self._held: List[torch.Tensor] = []
        self._views: Dict[int, torch.Tensor] = {}
        kinds: Dict[Any, List[int]] = {}
        for index, one in enumerate(self._parameters):
            kinds.setdefault(one.dtype, []).append(index)
        self._make(self._parameters, list(kinds.values()))
        for one in self._parameters:
            one.register_post_accumulate_grad_hook(self._arrive)
        model.register_forward_pre_hook(self._before_forward)

    @property
    def sizes(self) -> List[int]:
        """Bytes of each bucket, as they are now."""
        return [one.numel() * one.element_size() for one in self._held]

    def _make(self, parameters: Sequence[torch.nn.Parameter], groups: List[List[int]]) -> None:
        self._views.clear()
        self._held = []  # freed before the new ones are made, as the reducer does
        for group in groups:
            held = [parameters[index] for index in group]
            with self._recorder.seen(False):
                bucket = torch.empty(sum(one.numel() for one in held), dtype=held[0].dtype)
            row = "gradients" if self._view else "reduction_buckets"
            self._recorder.take(bucket, row, "reduction bucket")
            self._held.append(bucket)
            place = 0
            with self._recorder.seen(False):
                for one in held:
                    self._views[id(one)] = bucket[place : place + one.numel()].view(one.shape)
                    place += one.numel()

    def _arrive(self, parameter: torch.nn.Parameter) -> None:
        if not self._rebuilt and all(parameter is not one for one in self._arrived[-1:]):
            self._arrived.append(parameter)
        if self._view:
            parameter.grad = self._views[id(parameter)]

    def _before_forward(self, module: torch.nn.Module, args: Any) -> None:
        if self._rebuilt or not torch.is_grad_enabled() or not self._arrived:
            return
        self._rebuilt = True
        seen: Dict[int, torch.nn.Parameter] = {id(one): one for one in self._arrived}
        # Those without a gradient stay out of nothing: the reducer waits for all of them.
        ordered = list(seen.values()) + [one for one in self._parameters if id(one) not in seen]
        kept = {id(one): one.grad is not None for one in ordered} if self._view else {}
        for one in ordered if self._view else ():
            one.grad = None
        sizes = [(one.dtype, one.numel() * one.element_size()) for one in ordered]
        self._make(ordered, assignment(sizes))
        for one in ordered if self._view else ():
            if kept[id(one)]:
                one.grad = self._views[id(one)]
