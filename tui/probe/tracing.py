"""What a traced run says beside the allocator's record: when phases began, and which storages hold what."""

from __future__ import annotations

import contextlib
import gc
import time
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Iterable, Iterator, List, Optional, Tuple

import torch

from . import compiling, optimizers
from .iteration import tensors_of
from .labels import MAKING, Registration
from .tracker import Tracker, address_of, storages

if TYPE_CHECKING:
    from .device.base import Recorder
    from .labels import Birth, Mark
    from .reporter import Reporter
    from .session import Session


class Trace:
    """Marks and registrations of one run; ``session`` and ``recorder`` as soon as there are any.

    Args:
        clock: what events of the record are dated by.
        address: what they know a tensor's storage by.
    """

    def __init__(
        self,
        clock: Callable[[], int] = time.time_ns,
        address: Callable[[torch.Tensor], int] = address_of,
    ) -> None:
        self.clock = clock
        self._address = address
        self.marks: List[Mark] = []
        self.registered: List[Registration] = []
        self.iteration: Optional[int] = None
        self.tracker: Optional[Tracker] = None
        self.session: Optional[Session] = None
        self.recorder: Optional[Recorder] = None
        self.limit_bytes: Optional[int] = None
        """What this process is held to, the recorder's slack included."""

    @property
    def spans(self) -> List[Tuple[int, int]]:
        """(begun_ns, ended_ns) of every operator of the tracked iteration."""
        return [] if self.tracker is None else self.tracker.spans

    @property
    def births(self) -> List[Birth]:
        """What the tracker saw, empty before the tracked iteration."""
        return [] if self.tracker is None else self.tracker.births

    def mark(self, phase: str, micro: Optional[int] = None) -> None:
        """A phase of the current iteration begins."""
        self.marks.append((self.clock(), phase, self.iteration, micro))
        if self.tracker is not None:
            self.tracker.phase = phase

    def unseen(self) -> ContextManager[None]:
        """A context in which the tracker, if there is one, is not active."""
        return contextlib.nullcontext() if self.tracker is None else self.tracker.paused()

    def register(self, tensors: Iterable[torch.Tensor], row: str) -> None:
        """These tensors' storages hold ``row`` now."""
        self._register((("", one) for one in tensors), row)

    def _register(self, named: Iterable[Tuple[str, torch.Tensor]], row: str) -> None:
        now, seen = self.clock(), set()
        for name, tensor in named:
            module = name.rpartition(".")[0] or (self._root if name else "")
            for address, part in storages([tensor], self._address):
                if address not in seen:
                    seen.add(address)
                    shape, dtype = tuple(part.shape), str(part.dtype)[6:]
                    self.registered.append(Registration(now, address, row, name, module, shape, dtype))

    @property
    def _root(self) -> str:
        return "" if self.session is None else type(self.session.model).__name__

    def register_gradients(self) -> None:
        """The gradients as they are now."""
        if self.session is not None:
            named = self.session.model.named_parameters()
            self._register([(name, one.grad) for name, one in named if one.grad is not None], "gradients")

    def register_all(self) -> None:
        """Weights, buffers, gradients and optimizer state as they are now."""
        if self.session is None:
            return
        model = self.session.model
        names = {id(one): name for name, one in model.named_parameters()}
        for optimizer in self.session.optimizers:
            owners = [names.get(id(one), "") for one in optimizer.state]
            state = optimizers.state_tensors(optimizer)
            self._register([(owners[place], tensor) for place, _, tensor in state], "optimizer_state")
        self.register_gradients()
        self._register(model.named_buffers(), "buffers")
        self._register(model.named_parameters(), "weights")

    def validating(self, batch: Any) -> None:
        """A validation batch is on the device, so that what follows is validation and not its making."""
        self.mark("validate")
        self.register(tensors_of(batch), "input_batch")


def begin(trace: Trace, index: int) -> None:
    """The iteration of this index begins now.

    A cycle of references keeps its storages until Python happens to collect it, which tracing moves about.
    Collecting between iterations makes their peaks repeatable; inside one, Python does what it always does.
    """
    trace.iteration = index
    trace.mark("collect")
    gc.collect()
    trace.mark("start")


def iterate(session: Session, report: Reporter, trace: Trace, index: int, prefix: str) -> float:
    """One complete iteration with its phases marked and its storages registered; returns its loss."""

    def enter(phase: str, micro: Optional[int]) -> None:
        report.enter(phase if phase == compiling.PHASE else prefix + phase, index, micro)
        # What micro-batches that reduce nothing have gathered is gone by the step where gradients become views.
        if phase == "step" or (micro and session.group.count > 1):
            trace.register_gradients()
        trace.mark(phase, micro)

    def watched() -> Iterator[Any]:
        batches = session.host_batches()
        while True:
            trace.mark(MAKING)
            with trace.unseen():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch
            del batch

    session.observe(enter)
    session.placed = lambda batch: trace.register(tensors_of(batch), "input_batch")
    loss = session.iterate_for_loss(watched())
    session.device.sync()
    trace.register_all()
    trace.mark("idle")
    return loss


def validate(session: Session, report: Reporter, trace: Trace) -> None:
    """One validation batch after the iterations, with its making and its validation marked."""
    trace.iteration = None
    trace.mark(MAKING)
    session.placed = trace.validating
    report.enter("validate")
    session.plan.quality["batches"] = 1
    session.validate()
