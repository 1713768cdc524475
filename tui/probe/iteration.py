"""One complete iteration: zero_grad, every micro-batch's forward, loss and backward, then the optimizer step.

``Run`` is also what a workload's own ``step(run)`` is given.  Phases are told to ``enter(phase, micro)``; what is
done there is the caller's matter (timing does next to nothing, tracing marks the timeline).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Optional

import torch
from torch.utils import _pytree as pytree

from . import schedulers, weighting
from .faults import TaskError

if TYPE_CHECKING:
    from .session import Session


Enter = Callable[[str, Optional[int]], None]
"""Told ``(phase, micro-batch or None)`` as a phase begins."""


class Run:
    """What an iteration works on.

    ``model``, ``optimizer``, ``scheduler``, ``micro_batches`` (an iterator that moves each one to the device as it
    is asked for), ``loss(batch)``, ``backward(loss)``, ``apply(optimizer)``, ``zero_grad()``.

    With ``workload.batch.weight_by = "tokens"`` every micro-batch of an iteration is made on the host before its
    first forward, because the weight of each depends on all of them.
    """

    def __init__(self, session: Session, enter: Enter) -> None:
        self.session = session
        self.model = session.called
        self.optimizer = session.optimizer
        self.scheduler = session.scheduler
        self.device = session.device.torch_device
        self.losses: List[torch.Tensor] = []
        self.steps = 0
        self.skipped = 0
        self.applied: List[Any] = []
        """Every optimizer that was stepped, once."""
        self.check: Optional[Callable[[torch.Tensor, int], None]] = None
        """Told every loss with its micro-batch before the backward, where waiting for it does no harm."""
        self._enter = enter
        self._batches = ()
        self._micro = 0
        self._shares: Optional[List[float]] = None
        self._weights: List[float] = []

    def start(self, batches: Iterable[Any]) -> None:
        """Begin an iteration over ``batches``, an iterable of host batches."""
        self.losses = []
        self._weights = []
        self._shares = None
        self._batches = batches
        self._micro = 0

    @property
    def micro_batches(self) -> Iterator[Any]:
        """The micro-batches of this iteration, each on the device."""
        batches = self._weighed() if self.session.by_tokens else self._batches
        for micro, batch in enumerate(batches):
            self._micro = micro
            self._enter("forward", micro)
            self.session.group.begin(micro == self.session.accumulate - 1)
            yield self.session.to_device(batch)
            del batch

    def _weighed(self) -> Iterator[Any]:
        """The host batches, made all at once, with the share of the loss that each of them has."""
        waiting = deque(self._batches)
        with self.session.device.on_host():
            self._shares = weighting.shares(waiting, self.session)
        if self.session.device.kind == "cpu":
            for batch in waiting:
                self.session.placed(batch)  # there the batch on the host is the one on the device
        while waiting:
            yield waiting.popleft()

    @property
    def share(self) -> float:
        """What the mean loss of the current micro-batch counts in that of the iteration: a fraction of 1."""
        return 1 / self.session.accumulate if self._shares is None else self._shares[self._micro]

    def zero_grad(self) -> None:
        """Drop the gradients (set to None, torch's default)."""
        self.optimizer.zero_grad(set_to_none=True)

    def loss(self, batch: Any) -> torch.Tensor:
        """The workload's loss under the precision setting, with what it saves where the placement says."""
        with self.session.setting.context(), self.session.offload.context():
            return self.session.workload.loss(self.model, batch)

    def backward(self, loss: torch.Tensor) -> None:
        """Backward of this micro-batch's share of the loss; one without a counted label adds nothing."""
        self._enter("backward", self._micro)
        if self.share == 0:
            return  # its mean is that of no label, which is not a number
        self.losses.append(loss.detach())
        self._weights.append(self.share)
        if self.check is not None:
            self.check(self.losses[-1], self._micro)
        if self.session.accumulate > 1:
            loss = loss / self.session.accumulate if self._shares is None else loss * self.share
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
            torch.nn.utils.clip_grad_norm_(self.session.model.parameters(), clip)
        if all(optimizer is not one for one in self.applied):
            self.applied.append(optimizer)
        stepped = self._step(optimizer)
        self.steps += stepped
        self.skipped += not stepped
        if stepped and self._is_followed(optimizer):
            schedulers.follow(self.scheduler, self.session.scheduler_steps)

    def _step(self, optimizer: Any) -> bool:
        """Step ``optimizer``; returns False when the scaler skipped that."""
        scaler = self.session.setting.scaler
        before = 0.0 if scaler is None else scaler.get_scale()
        try:
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            refused = self.session.step_refused(optimizer, error)
            if refused is None:
                raise
            raise refused from error
        if scaler is None:
            return True
        scaler.update()
        return scaler.get_scale() >= before

    def _is_followed(self, optimizer: Any) -> bool:
        """Whether the scheduler steps after ``optimizer``: of several, it follows its own."""
        if self.scheduler is None:
            return False
        own = getattr(self.scheduler, "optimizer", None)
        return own is None or own is optimizer or optimizer is self.optimizer

    def _refuse_sparse(self) -> None:
        for name, one in self.session.model.named_parameters():
            if one.grad is not None and one.grad.is_sparse:
                raise TaskError(
                    "workload",
                    "the gradient of %s is sparse, which torch cannot clip" % name,
                    hint="delete workload.optimizer.clip_norm",
                )

    def mean_loss(self) -> Optional[torch.Tensor]:
        """Mean of the micro-batches' losses, weighted as they are trained; a tensor on the device, or None."""
        if not self.losses:
            return None
        if len(self.losses) == 1:
            return self.losses[0]
        if self._shares is None or len(self._weights) != len(self.losses):
            return torch.stack(self.losses).mean()
        whole = sum(self._weights)  # 1, or more where a step of the workload's own has several losses a batch
        return torch.stack([loss * (share / whole) for loss, share in zip(self.losses, self._weights)]).sum()


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
    value = weighting.entry_of(batch, entry)
    return int((value != weighting.IGNORED).sum()) if isinstance(value, torch.Tensor) else None


def tensors_of(batch: Any) -> List[torch.Tensor]:
    """The tensors of a batch."""
    return [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor)]
