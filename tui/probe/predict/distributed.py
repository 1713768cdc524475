"""One rank of many, predicted alone: its process group is torch's fake one, whose collectives reach nobody.

``fsdp2`` (and ``zero3``, the same algorithm) is torch's own ``fully_shard`` on the tensors without values, for any
number of ranks.  ``ddp`` and ``zero1`` hold reduction buckets as ``DistributedDataParallel`` makes them; what
``zero1`` and ``zero2`` divide is divided in the record (``divided``).  Rank 0 is the fullest one of them all.
Saved tensors that the placement keeps on the host leave the device here too (``offload``).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .. import named
from ..faults import TaskError, one_line
from . import collectives, divided, offload
from .buckets import Buckets

if TYPE_CHECKING:
    from ..labels import Labelled
    from .recorder import Recorder
    from .semantics import Assumptions

SHARDED = ("fsdp2", "zero3")
STRATEGIES = ("none", "ddp", "zero1", "zero2", *SHARDED)
Shard = Callable[..., Any]
"""``shard(model, mesh)`` of a workload."""


class Group:
    """The ranks that the predicted one trains with.  A context: what it changes of torch ends with it.

    Args:
        placement: {"ranks", "strategy", "shard_each", "options"}; options: "gradient_as_bucket_view",
            "reshard_after_forward", "reduce_bucket" (elements), "param_dtype" and "reduce_dtype" ("bf16", "fp16").
        recorder: of the trace.
        assumptions: are told what the figures stand on.
        to_device: whether the model is built on the host, so that sharding brings it to the device group by group.

    Raises:
        TaskError: kind prediction: the strategy is none of ``STRATEGIES``.
    """

    def __init__(
        self, placement: Dict[str, Any], recorder: Recorder, assumptions: Assumptions, to_device: bool = True
    ) -> None:
        self.ranks = int(placement.get("ranks") or 1)
        self.strategy = str(placement.get("strategy") or "none")
        self.shard_each = tuple(placement.get("shard_each") or ())
        self.options: Dict[str, Any] = placement.get("options") or {}
        self._recorder = recorder
        self._assumptions = assumptions
        self._to_device = to_device
        self._stack = contextlib.ExitStack()
        self._mesh: Any = None
        self.buckets: Optional[Buckets] = None
        if self.strategy not in STRATEGIES:
            raise TaskError(
                "prediction",
                "cannot predict: placement.strategy %r is not known here" % self.strategy,
                hint="use one of %s" % ", ".join(STRATEGIES),
            )

    @property
    def sharding(self) -> bool:
        """Whether the weights themselves are divided: then ``place`` brings the model to the device."""
        return self.ranks > 1 and self.strategy in SHARDED

    def __enter__(self) -> Group:
        if self._to_device:
            self._stack.enter_context(offload.saved_on_host())
        if self.sharding:
            _refuse_old_torch()
            with _disable_current_modes():  # a mesh asks its tensors for values
                self._mesh = _mesh(self.ranks)
            self._stack.callback(_close)
            self._stack.enter_context(collectives.rules_unseen())
            self._stack.enter_context(collectives.resizes(self._recorder))
            if self._to_device:
                self._stack.enter_context(_moved(self._recorder))
        return self

    def __exit__(self, *exc: Any) -> None:
        self.buckets = None
        self._stack.close()

    def watching(self) -> contextlib.AbstractContextManager:  # type: ignore[type-arg]
        """A context around the iterations, inside of the recorder: collectives have names there."""
        return collectives.Collectives(self._recorder) if self.sharding else contextlib.nullcontext()

    def place(self, model: torch.nn.Module, shard: Optional[Shard] = None) -> torch.nn.Module:
        """``model`` as this rank holds it; called where the fake mode and the recorder are active.

        Args:
            model: on fakes, on the device; on the host where ``sharding`` and ``to_device``.
            shard: the workload's own ``shard(model, mesh)``.

        Raises:
            TaskError: shard_each names a class that the model has not, or torch cannot shard the model.
        """
        if self.ranks == 1:
            return model
        if self.sharding:
            self._say_sharded(shard)
            try:
                return self._own(model, shard) if shard is not None else self._sharded(model)
            except TaskError:
                raise
            except Exception as error:
                raise TaskError(
                    "prediction",
                    "cannot predict: torch cannot shard this model over %d ranks: %s"
                    % (self.ranks, one_line(error, 200)),
                    hint='name other classes in placement.shard_each, or set placement.strategy = "ddp"',
                ) from error
        if self.strategy in ("ddp", "zero1"):
            view = bool(self.options.get("gradient_as_bucket_view"))
            self.buckets = Buckets(model, self._recorder, view)
            self._assumptions.note(
                "reduction buckets",
                "gradients are views of them" if view else "beside the gradients",
                "DistributedDataParallel, 25 MiB each, the first one 1 MiB",
            )
        divided.say(self.strategy, self.ranks, self.options, self._assumptions)
        return model

    def divide(self, labelled: Labelled) -> None:
        """Divide in ``labelled.record`` what ``zero1`` and ``zero2`` divide over the ranks."""
        divided.divide(labelled, self.strategy, self.ranks)

    def _say_sharded(self, shard: Optional[Shard]) -> None:
        self._assumptions.note(
            "sharding",
            "fully_shard over %d ranks" % self.ranks,
            "the workload's own shard(model, mesh)"
            if shard is not None
            else "each of %s, then the root" % ", ".join(self.shard_each)
            if self.shard_each
            else "the root alone: every weight is gathered at once",
        )
        self._assumptions.approximate(
            "FSDP2 on a GPU: its copies run on streams of their own, whose free blocks are not shared: "
            "allocated is exact, reserved is at least what is said"
        )
        if self.strategy == "zero3":
            self._assumptions.approximate(
                "ZeRO-3 traced as torch's fully_shard: DeepSpeed flattens its partitions, keeps small "
                "parameters whole and gathers by live-parameter limits"
            )

    def _own(self, model: torch.nn.Module, shard: Shard) -> torch.nn.Module:
        made = shard(model=model, mesh=self._mesh)
        return made if isinstance(made, torch.nn.Module) else model

    def _sharded(self, model: torch.nn.Module) -> torch.nn.Module:
        from torch.distributed.fsdp import fully_shard

        options = self._fsdp_options()
        chosen = {id(one) for one in named.of_classes(model, self.shard_each, "placement.shard_each")}
        for module in reversed(list(model.modules())):  # inner ones first
            if id(module) in chosen and module is not model:
                fully_shard(module, mesh=self._mesh, **options)
        fully_shard(model, mesh=self._mesh, **options)
        return model

    def _fsdp_options(self) -> Dict[str, Any]:
        from torch.distributed.fsdp import MixedPrecisionPolicy

        dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
        told: Dict[str, Any] = {
            name: dtypes[self.options[name]]
            for name in ("param_dtype", "reduce_dtype")
            if self.options.get(name)
        }
        found: Dict[str, Any] = {"mp_policy": MixedPrecisionPolicy(**told)} if told else {}
        if self.options.get("reshard_after_forward") is False:
            found["reshard_after_forward"] = False  # else torch's default: all groups but the root's
        return found


def _refuse_old_torch() -> None:
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401
        from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: F401
    except ImportError as error:
        raise TaskError(
            "prediction",
            "cannot predict: torch %s has no fully_shard here" % torch.__version__,
            hint='use torch 2.6 or newer with torch.distributed, or placement.strategy = "ddp"',
        ) from error


def _mesh(ranks: int) -> Any:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        raise TaskError(
            "prediction",
            "cannot predict: the workload has made a process group of its own",
            hint="make it in shard(model, mesh) or not at all: the placement says how many ranks there are",
        )
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    return init_device_mesh("cpu", (ranks,))


def _close() -> None:
    import torch.distributed as dist

    with _disable_current_modes():
        if dist.is_initialized():
            dist.destroy_process_group()


@contextlib.contextmanager
def _moved(recorder: Recorder) -> Any:
    """A context in which ``fully_shard`` brings a group from the host to the device, as it does on a GPU.

    All fakes are on the CPU, so its own check would find nothing to move.
    """
    name = "_move_states_to_device"
    from torch.distributed.fsdp._fully_shard import _fsdp_init, _fully_shard

    rooms = [room for room in (_fsdp_init, _fully_shard) if hasattr(room, name)]
    before = [getattr(room, name) for room in rooms]

    def move(parameters: Any, buffers: Any, device: Any) -> None:
        for tensor in [*parameters, *buffers]:
            if not recorder.address(tensor):
                tensor.data = torch.empty_like(tensor.data)

    for room in rooms:
        setattr(room, name, move)
    try:
        yield
    finally:
        for room, own in zip(rooms, before):
            setattr(room, name, own)
