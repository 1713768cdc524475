"""What a traced run says beside the allocator's record: when phases began, and which storages hold what."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Iterable, Iterator, List, Optional, Tuple

import torch

from . import optimizers
from .iteration import tensors_of
from .tracker import Tracker, storages

if TYPE_CHECKING:
    from .device.base import Recorder
    from .labels import Birth, Mark, Registration
    from .reporter import Reporter
    from .session import Session

MAKING = "batch"
"""A mark, not a phase: a batch is being made on the host, which belongs to no phase of the iteration."""


class Trace:
    """Marks and registrations of one run; ``session`` and ``recorder`` as soon as there are any."""

    def __init__(self) -> None:
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
        self.marks.append((time.time_ns(), phase, self.iteration, micro))
        if self.tracker is not None:
            self.tracker.phase = phase

    def register(self, tensors: Iterable[torch.Tensor], row: str, name: str = "") -> None:
        """These tensors' storages hold ``row`` now."""
        now = time.time_ns()
        self.registered += [(now, address, row, name) for address, _ in storages(tensors)]

    def register_gradients(self) -> None:
        """The gradients as they are now."""
        if self.session is not None:
            parameters = self.session.model.parameters()
            self.register([one.grad for one in parameters if one.grad is not None], "gradients")

    def register_all(self) -> None:
        """Weights, buffers, gradients and optimizer state as they are now."""
        if self.session is None:
            return
        state = optimizers.state_tensors(self.session.optimizer)
        self.register([tensor for _, _, tensor in state], "optimizer_state")
        self.register_gradients()
        self.register(self.session.model.buffers(), "buffers")
        self.register(self.session.model.parameters(), "weights")

    def validating(self, batch: Any) -> None:
        """A validation batch is on the device, so that what follows is validation and not its making."""
        self.mark("validate")
        self.register(tensors_of(batch), "input_batch")


def iterate(session: Session, report: Reporter, trace: Trace, index: int, prefix: str) -> float:
    """One complete iteration with its phases marked and its storages registered; returns its loss."""

    def enter(phase: str, micro: Optional[int]) -> None:
        report.enter(prefix + phase, index, micro)
        if phase == "step":
            trace.register_gradients()
        trace.mark(phase, micro)

    def watched() -> Iterator[Any]:
        batches = session.host_batches()
        while True:
            trace.mark(MAKING)
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
