"""A model, its optimizer and its data, built as the plan says and ready to iterate."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Optional, Tuple

import torch
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

from . import adapt, iteration, named, optimizers, workload
from . import device as devices
from .compiling import Compiling
from .faults import TaskError
from .offload import Offload
from .ranks_group import Group
from .setting import Setting
from .tracker import storages

if TYPE_CHECKING:
    from .device.base import Device
    from .iteration import Enter
    from .protocol import Plan
    from .reporter import Reporter


class Session:
    """What every task works with.  Building enters the phases ``build`` and ``optimizer`` of ``report``."""

    def __init__(
        self,
        plan: Plan,
        report: Reporter,
        observe: Optional[Enter] = None,
        device: Optional[Device] = None,
    ) -> None:
        self.plan = plan
        self.report = report
        self.device = devices.open_device(plan.device) if device is None else device
        self.setting = Setting(plan.precision, self.device.kind)
        self.micro = plan.batch["micro"]
        self.accumulate = plan.batch.get("accumulate", 1)
        self.length = plan.batch.get("length")
        self.clip_norm = plan.optimizer.get("clip_norm")
        self.by_tokens = plan.batch.get("weight_by") == "tokens"
        """Whether the losses of micro-batches are weighted by their counted labels."""
        with self.device.on_host():
            self.workload = workload.load(
                plan.workload["source"], plan.workload.get("args") or {}, plan.folder
            )
        self._enter = observe or (lambda phase, micro=None: None)
        torch.manual_seed(plan.seed)
        report.enter("build")
        self._enter("build", None)
        self.offload = Offload(plan.extra.get("placement"), self.device.torch_device)
        self.group = Group(plan, self.device)
        """The ranks that this process is one of."""
        self.model = self._placed_model()
        self.model.train()
        report.enter("optimizer")
        self._enter("optimizer", None)
        scheduler = plan.extra.get("scheduler")
        self.optimizer, self.scheduler = optimizers.build(
            plan.optimizer, self.workload, self.model, scheduler, plan.folder
        )
        self.scheduler_steps: int = (scheduler or {}).get("steps") or 1
        """Scheduler steps after an optimizer step that was not skipped."""
        self._phase: Tuple[str, Optional[int]] = ("optimizer", None)
        self.compiling: Optional[Compiling] = None
        """What is known of the compiler, None: the model is not compiled."""
        if plan.step.get("compile"):
            report.enter("compile")
            self._enter("compile", None)  # the compiler's own code is loaded now
            self.compiling = Compiling(self.model, lambda: self._phase)
            self.compiling.enter = lambda phase, micro: self._enter(phase, micro)
        torch.manual_seed(plan.seed + 1 + self.group.rank)
        self.run = iteration.Run(self, self._on_phase)
        self.index = 0
        """Index of the next micro-batch of the training stream: the data position."""
        self.tokens: Optional[int] = None
        self.placed: Callable[[Any], None] = lambda batch: None
        """Told every batch as it stands on the device."""

    def _placed_model(self) -> torch.nn.Module:
        """The workload's model, frozen, set and recomputing as the plan says, where the placement has it."""
        plan, shard = self.plan, None
        built = self.device.build(self.workload.build)
        refuse_unfinished(built)
        frozen = plan.workload.get("frozen") or ()
        adapt.freeze(built, frozen)
        adapt.refuse_untrained(built, frozen)
        self.offload.refuse(self)
        self.group.refuse(plan)
        built = self.setting.prepare(built)
        recompute(built, plan.step.get("checkpoint") or ())  # by class names, which sharding changes
        if self.offload.weights != "device":
            return self.offload.place(built)
        if self.workload.has("shard"):
            shard = partial(self.workload.call, "shard")
        if self.group.count > 1:
            return self.group.place(built, shard)
        return self.device.place(built, shard)

    def _on_phase(self, phase: str, micro: Optional[int]) -> None:
        self._phase = (phase, micro)
        self._enter(phase, micro)

    @property
    def called(self) -> torch.nn.Module:
        """What is called in an iteration: the model, or what reduces its gradients over the ranks."""
        return self.model if self.group.wrapped is None else self.group.wrapped

    @property
    def samples(self) -> int:
        """Samples of an iteration, those of all ranks."""
        return self.micro * self.accumulate * self.group.count

    @property
    def optimizers(self) -> List[Any]:
        """The optimizer, those that one of the workload's own holds, and those that its step has applied."""
        found = optimizers.all_of(self.optimizer)
        return found + [one for one in self.run.applied if all(one is not other for other in found)]

    def observe(self, enter: Enter) -> None:
        """Tell phases of the coming iterations to ``enter(phase, micro)``."""
        self._enter = enter

    def step_refused(self, optimizer: Any, error: BaseException) -> Optional[TaskError]:
        """The sentence for an optimizer of the spec that cannot step; None for one of the workload's own."""
        if optimizer is not self.optimizer or self.workload.has("optimizer"):
            return None
        return optimizers.step_refused(self.plan.optimizer["name"], error)

    def host_batches(self) -> Iterator[Any]:
        """The next ``accumulate`` micro-batches on the host, made one at a time; counts tokens as it goes.

        Of several ranks each takes every so manieth batch of the stream.
        """
        self.tokens = None
        for _ in range(self.accumulate):
            place = self.index * self.group.count + self.group.rank
            batch = self.workload.batch(self.micro, place, "train", self.length, self.plan.seed)
            self.index += 1
            counted = iteration.count_tokens(batch, self.plan.batch.get("tokens"))
            if counted is not None:
                self.tokens = (self.tokens or 0) + counted
            yield self.setting.batch(batch)
            del batch

    def to_device(self, batch: Any) -> Any:
        """``batch`` with its tensors on the device; nothing is copied where they already are."""
        moved = pytree.tree_map_only(torch.Tensor, self.device.bring, batch)
        self.placed(moved)
        return moved

    def iterate(self, batches: Optional[Iterable[Any]] = None) -> Optional[torch.Tensor]:
        """One complete iteration; returns the mean loss as a tensor, still on the device.

        Raises:
            TaskError: torch's compiler refuses the model.
        """
        try:
            return self._iterate(batches)
        except Exception as error:
            refused = None if self.compiling is None else self.compiling.refusal(error)
            if refused is None:
                raise
            raise refused from error

    def _iterate(self, batches: Optional[Iterable[Any]]) -> Optional[torch.Tensor]:
        run = self.run
        run.start(self.host_batches() if batches is None else batches)
        if self.workload.has("step"):
            value = self.workload.call("step", run=run)
            if isinstance(value, torch.Tensor) and not run.losses:
                run.losses.append(value.detach().mean())
        else:
            iteration.default_step(run)
        return run.mean_loss()

    def iterate_for_loss(self, batches: Optional[Iterable[Any]] = None) -> float:
        """One complete iteration; returns its mean loss, waiting for it.

        Raises:
            TaskError: the workload's own ``step(run)`` made no loss.
        """
        loss = self.iterate(batches)
        if loss is None:
            raise TaskError(
                "workload", "the iteration made no loss: its step(run) never called run.backward(loss)"
            )
        return float(loss)

    def known_bytes(self) -> int:
        """Bytes of the tensors that are alive between iterations: weights, buffers, gradients, optimizer state."""
        tensors = [*self.model.parameters(), *self.model.buffers()]
        tensors += [one.grad for one in self.model.parameters() if one.grad is not None]
        tensors += [one for made in self.optimizers for _, _, one in optimizers.state_tensors(made)]
        return sum(one.untyped_storage().nbytes() for _, one in storages(tensors))

    def validate(self) -> float:
        """The workload's metric over the validation batches: a float."""
        count = (self.plan.quality or {}).get("batches") or 8
        batches = (self.to_device(self._validation_batch(place)) for place in range(count))
        self.model.eval()
        self._phase = ("validate", None)
        try:
            with torch.no_grad(), self.setting.context():
                if self.workload.has("metric"):
                    return float(self.workload.call("metric", model=self.model, batches=batches))
                total = 0.0
                for batch in batches:
                    total += float(self.workload.loss(self.model, batch).detach().double())
                return total / count
        finally:
            self.model.train()
            self.group.rest(self.model)

    def _validation_batch(self, place: int) -> Any:
        with self.device.on_host():
            return self.setting.batch(
                self.workload.batch(self.micro, place, "valid", self.length, self.plan.seed)
            )


def refuse_unfinished(model: torch.nn.Module) -> None:
    """Raise when a parameter has no values yet.

    Raises:
        TaskError: it is lazy, or on the meta device.
    """
    for name, one in model.named_parameters():
        if torch.nn.parameter.is_lazy(one):
            raise TaskError(
                "workload",
                "parameter %s is not initialised (lazy)" % name,
                hint="run one batch through the model in build()",
            )
        if one.is_meta:
            raise TaskError(
                "workload",
                "parameter %s is on the meta device, without values" % name,
                hint="build() must give a model that can run: to_empty() and initialise it",
            )


def recompute(model: torch.nn.Module, class_names: Iterable[str]) -> None:
    """Wrap the forward of every module of these classes so that its activations are recomputed.

    Raises:
        TaskError: a class that the model does not have.
    """
    for module in named.of_classes(model, class_names, "workload.step.checkpoint"):
        module.forward = _recomputed(module.forward)


def _recomputed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return wrapped
