"""Collectives whose tensors this thread frees, so that the allocator's record on the CPU sees it.

gloo works in threads of its own and holds what it works on; whoever lets go last frees it, and torch's profiler sees
this thread alone.  A traced run is not timed: here each collective is waited for until gloo's thread has let go.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Iterator, List, Sequence

import torch
from torch import _utils

from . import ranks_here

if TYPE_CHECKING:
    from .protocol import Plan

LETS_GO_S = 0.01
"""Within this gloo's thread drops the work that it has finished."""

GATHER = ("all_gather_into_tensor", "all_gather_single")
SCATTER = ("reduce_scatter_tensor", "reduce_scatter_single")
"""Functions of ``torch.distributed`` that FSDP2 calls, by older and newer names."""


class Settled:
    """A collective that is going on; ``wait`` also waits until nobody else holds its tensors."""

    def __init__(self, work: Any) -> None:
        self._work = work

    def wait(self, *args: Any) -> bool:
        """As torch's."""
        if self._work is not None:
            self._work.wait(*args)
            time.sleep(LETS_GO_S)
            self._work = None
        return True

    def is_completed(self) -> bool:
        """As torch's."""
        return self._work is None or self._work.is_completed()


def reduced(buffer: torch.Tensor) -> Any:
    """A future of ``buffer`` summed over the ranks: there already, where it is on the CPU."""
    import torch.distributed as dist

    work: Any = dist.all_reduce(buffer, async_op=True)
    if buffer.device.type != "cpu":
        return work.get_future().then(lambda done: done.value()[0])
    Settled(work).wait()
    done: Any = torch.futures.Future()
    done.set_result(buffer)
    return done


@contextlib.contextmanager
def here(plan: Plan) -> Iterator[None]:
    """A context in which collectives on the CPU leave what they work on to this thread; elsewhere nothing is done."""
    if not ranks_here.asked(plan) or plan.device != "cpu":
        yield
        return
    import torch.distributed as dist

    room: Any = dist
    own = {name: _settling(getattr(room, name)) for name in (*GATHER, *SCATTER) if hasattr(room, name)}
    own["_broadcast_coalesced"] = _broadcast
    before = {name: getattr(room, name) for name in own}
    for name, one in own.items():
        setattr(room, name, one)
    try:
        yield
    finally:
        for name, one in before.items():
            setattr(room, name, one)


def _settling(collective: Any) -> Any:
    def begun(*args: Any, async_op: bool = False, **more: Any) -> Any:
        work = Settled(collective(*args, async_op=True, **more))
        if async_op:
            return work
        work.wait()
        return None

    return begun


def _broadcast(group: Any, tensors: Sequence[torch.Tensor], buffer_size: int, src: int = 0) -> None:
    """``torch.distributed._broadcast_coalesced``: flat copies of at most ``buffer_size`` bytes, one dtype each."""
    import torch.distributed as dist

    waiting: "dict[Any, List[torch.Tensor]]" = {}

    def send(some: List[torch.Tensor]) -> None:
        flat = _utils._flatten_dense_tensors(some)
        Settled(dist.broadcast(flat, src, group=group, async_op=True)).wait()
        for one, part in zip(some, _utils._unflatten_dense_tensors(flat, some)):
            one.copy_(part)

    for tensor in tensors:
        held = waiting.setdefault(tensor.dtype, [])
        if held and sum(one.numel() * one.element_size() for one in [*held, tensor]) > buffer_size:
            send(held)
            held = waiting[tensor.dtype] = []
        held.append(tensor)
    for held in waiting.values():
        send(held)
