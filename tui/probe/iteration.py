"""One complete iteration: zero_grad, every micro-batch's forward, loss and backward, then the optimizer step.

``Run`` is also what a workload's own ``step(run)`` is given.  Phases are told to ``enter(phase, micro)``; what is
done there is the caller's matter (timing does next to nothing, tracing marks the timeline).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Optional

import torch
from torch.utils import _pytree as pytree

from .faults import TaskError

if TYPE_CHECKING:
    from .session import Session


Enter = Callable[[str, Optional[int]], None]
"""Told ``(phase, micro-batch or None)`` as a phase begins."""


class Run:
    """What an iteration works on.

    ``model``, ``optimizer``, ``scheduler``, ``micro_batches`` (an iterator that moves each one to the device as it
    is asked for), ``loss(batch)``, ``backward(loss)``, ``apply(optimizer)``, ``zero_grad()``.
    """

    def __init__(self, session: Session, enter: Enter) -> None:
        self.session = session
        self.model = session.model
        self.optimizer = session.optimizer
        self.scheduler = session.scheduler
        self.device = session.device.torch_device
        self.losses: List[torch.Tensor] = []
        self.steps = 0
        self.skipped = 0
        self.check: Optional[Callable[[torch.Tensor, int], None]] = None
        """Told every loss with its micro-batch before the backward, where waiting for it does no harm."""
        self._enter = enter
        self._batches = ()
        self._micro = 0

    def start(self, batches: Iterable[Any]) -> None:
        """Begin an iteration over ``batches``, an iterable of host batches."""
        self.losses = []
        self._batches = batches
        self._micro = 0

    @property
    def micro_batches(self) -> Iterator[Any]:
        """The micro-batches of this iteration, each on the device."""
        for micro, batch in enumerate(self._batches):
            self._micro = micro
            self._enter("forward", micro)
            yield self.session.to_device(batch)
            del batch

    def zero_grad(self) -> None:
        """Drop the gradients (set to None, torch's default)."""
        self.optimizer.zero_grad(set_to_none=True)

    def loss(self, batch: Any) -> torch.Tensor:
        """The workload's loss under the precision setting."""
        with self.session.setting.context():
            return self.session.workload.loss(self.model, batch)

    def backward(self, loss: torch.Tensor) -> None:
        """Backward of this micro-batch's share of the loss."""
        self._enter("backward", self._micro)
        self.losses.append(loss.detach())
        if self.check is not None:
            self.check(self.losses[-1], self._micro)
        if self.session.accumulate > 1:
            loss = loss / self.session.accumulate
        if self.session.setting.scaler is not None:
            loss = self.session.setting.scaler.scale(loss)
        loss.backward()

    def apply(self, optimizer: Any) -> None:
        """Unscale, clip and step ``optimizer``; the scheduler follows unless the scaler skipped the step."""
        self._enter("step", None)
        scaler, clip = self.session.setting.scaler, self.session.clip_norm
        if scaler is not None and clip:
            scaler.unscale_(optimizer)  # clipping must see the true gradients
        if clip:
            self._refuse_sparse()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        if scaler is None:
            optimizer.step()
            stepped = True
        else:
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            stepped = scaler.get_scale() >= before
        self.steps += stepped
        self.skipped += not stepped
        if stepped and self.scheduler is not None:
            self.scheduler.step()

    def _refuse_sparse(self) -> None:
        for name, one in self.model.named_parameters():
            if one.grad is not None and one.grad.is_sparse:
                raise TaskError(
                    "workload",
                    "the gradient of %s is sparse, which torch cannot clip" % name,
                    hint="delete workload.optimizer.clip_norm",
                )

    def mean_loss(self) -> Optional[torch.Tensor]:
        """Mean of the micro-batches' losses, as a tensor on the device, or None."""
        if not self.losses:
            return None
        return self.losses[0] if len(self.losses) == 1 else torch.stack(self.losses).mean()


def default_step(run: Run) -> None:
    """The iteration of a workload that defines none of its own."""
    run.zero_grad()
    for batch in run.micro_batches:
        loss = run.loss(batch)
        run.backward(loss)
        del loss, batch
    run.apply(run.optimizer)


def count_tokens(batch: Any, entry: Optional[str]) -> Optional[int]:
    """Labels that count (not -100) in ``batch[entry]``, or None without such an entry."""
    if not entry:
        return None
    value = batch.get(entry) if isinstance(batch, dict) else getattr(batch, entry, None)
    return int((value != -100).sum()) if isinstance(value, torch.Tensor) else None


def tensors_of(batch: Any) -> List[torch.Tensor]:
    """The tensors of a batch."""
    return [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor)]
