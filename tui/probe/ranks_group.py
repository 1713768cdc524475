"""The model as one of several real ranks holds it: ``DistributedDataParallel`` or torch's ``fully_shard``.

The process group is gloo's on the CPU and NCCL's on GPUs, one GPU a rank.  ``predict/distributed`` is the same rank
predicted.  Copies of gradients that are reduced, and whole weights that were gathered, are told to a trace by the
calls that make them (``Watch``).
"""

from __future__ import annotations

import contextlib
import datetime
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Optional, Sequence, Tuple

import torch

from . import named, ranks_freed, ranks_here, unsharded
from .faults import TaskError, is_out_of_memory, one_line
from .ranks_freed import GATHER, SCATTER

if TYPE_CHECKING:
    from .device.base import Device
    from .protocol import Plan

BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
STRATEGIES = ("ddp", "fsdp2")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
Register = Callable[[Sequence[torch.Tensor], str], Any]
"""Told tensors and the ledger row that their storages hold."""


class Group:
    """The ranks that this one trains with; ``count`` is 1 where the plan says nothing of them.

    Args:
        plan: its ``extra["ranks"]`` is what ``ranks_here`` says.
        device: where the model works.
    """

    def __init__(self, plan: Plan, device: Device) -> None:
        asked = ranks_here.asked(plan)
        self.count = int(asked.get("count") or 1)
        self.rank = ranks_here.rank(plan)
        self.strategy = str(asked.get("strategy") or "none")
        self.shard_each: Tuple[str, ...] = tuple(asked.get("shard_each") or ())
        self.options: Dict[str, Any] = asked.get("options") or {}
        self.timeout_s = float(asked.get("timeout_s") or ranks_here.TIMEOUT_S)
        self._device = device
        self.wrapped: Any = None
        """What is called instead of the model, where that is another module."""

    @property
    def sharding(self) -> bool:
        """Whether the weights themselves are divided."""
        return self.count > 1 and self.strategy == "fsdp2"

    def refuse(self, plan: Plan) -> None:
        """Raise where what is asked for is not measured with several ranks.

        Raises:
            TaskError: kind unsupported.
        """
        if self.count > 1 and plan.step.get("compile"):
            raise TaskError(
                "unsupported",
                "workload.step.compile and several ranks are not measured together",
                hint="set workload.step.compile to false, or placement.ranks to 1",
            )

    def place(self, model: torch.nn.Module, shard: Optional[Callable[..., Any]] = None) -> torch.nn.Module:
        """``model`` as this rank holds it, on the device.

        Args:
            model: on the host.
            shard: the workload's own ``shard(model, mesh)``, which fsdp2 leaves the dividing to.

        Raises:
            TaskError: shard_each names a class that the model has not, or torch cannot place the model so.
        """
        if self.strategy not in STRATEGIES:
            raise TaskError(
                "unsupported",
                "placement.strategy %r is not measured" % self.strategy,
                hint="use one of %s" % ", ".join(STRATEGIES),
            )
        self._open()
        try:
            return self._sharded(model, shard) if self.sharding else self._reduced(model)
        except TaskError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise TaskError(
                "unsupported",
                "torch cannot place this model on %d ranks with %s: %s"
                % (self.count, self.strategy, one_line(error, 200)),
                hint="name other classes in placement.shard_each, or use another strategy",
            ) from error

    def _open(self) -> None:
        import torch.distributed as dist

        if not dist.is_initialized():
            wait = datetime.timedelta(seconds=self.timeout_s)
            dist.init_process_group(BACKENDS[self._device.kind], timeout=wait)

    def _reduced(self, model: torch.nn.Module) -> torch.nn.Module:
        from torch.nn.parallel import DistributedDataParallel

        model = self._device.place(model)
        view = bool(self.options.get("gradient_as_bucket_view"))
        self.wrapped = DistributedDataParallel(model, gradient_as_bucket_view=view)
        return model

    def _sharded(self, model: torch.nn.Module, shard: Optional[Callable[..., Any]]) -> torch.nn.Module:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        mesh = init_device_mesh(self._device.kind, (self.count,))
        if shard is not None:
            made = shard(model=model, mesh=mesh)
            return made if isinstance(made, torch.nn.Module) else model
        told: Dict[str, Any] = {
            name: DTYPES[self.options[name]]
            for name in ("param_dtype", "reduce_dtype")
            if self.options.get(name)
        }
        options: Dict[str, Any] = {"mp_policy": MixedPrecisionPolicy(**told)} if told else {}
        if self.options.get("reshard_after_forward") is False:
            options["reshard_after_forward"] = False  # else torch's default: all groups but the root's
        chosen = {id(one) for one in named.of_classes(model, self.shard_each, "placement.shard_each")}
        for module in reversed(list(model.modules())):  # inner ones first
            if id(module) in chosen and module is not model:
                fully_shard(module, mesh=mesh, **options)
        fully_shard(model, mesh=mesh, **options)
        return model

    def begin(self, last: bool) -> None:
        """A micro-batch begins; only the ``last`` one of an iteration reduces the gradients (``no_sync``)."""
        if self.wrapped is not None:
            self.wrapped.require_backward_grad_sync = last

    def rest(self, model: torch.nn.Module) -> None:
        """After a forward without a backward: whole weights that FSDP2 would keep for that leave."""
        if self.sharding:
            for module in model.modules():
                reshard = getattr(module, "reshard", None)
                if callable(reshard):
                    reshard()

    @contextlib.contextmanager
    def watched(self, model: torch.nn.Module, register: Register) -> Iterator[None]:
        """A context in which ``register`` is told of reduction buckets and of gathered weights as they are used."""
        if self.count == 1:
            yield
            return
        if self.wrapped is not None:
            _watch_buckets(self.wrapped, self.count, register)
            yield
            return
        unsharded.watch(model, lambda whole: register(whole, "unsharded_weights"))
        with _watched_collectives(register):
            yield


def _watch_buckets(wrapped: Any, count: int, register: Register) -> None:
    """Reduce as torch does by itself, and tell of the buckets; views of them are gradients."""
    viewed = wrapped.gradient_as_bucket_view

    def reduce(state, bucket):  # type: ignore[no-untyped-def]  # torch takes its own annotation alone
        buffer = bucket.buffer()
        register([buffer], "gradients" if viewed else "reduction_buckets")
        buffer.div_(count)
        return ranks_freed.reduced(buffer)

    wrapped.register_comm_hook(None, reduce)


@contextlib.contextmanager
def _watched_collectives(register: Register) -> Iterator[None]:
    """Tell of what FSDP2 gathers weights into and reduces gradients from."""
    import torch.distributed as dist

    room: Any = dist
    before = {name: getattr(room, name) for name in (*GATHER, *SCATTER) if hasattr(room, name)}

    def told(name: str) -> Callable[..., Any]:
        place, row = (0, "unsharded_weights") if name in GATHER else (1, "reduction_buckets")

        def call(*args: Any, **more: Any) -> Any:
            named = ("output", "output_tensor") if place == 0 else ("input", "input_tensor")
            tensor = args[place] if len(args) > place else next(more[one] for one in named if one in more)
            register([tensor], row)
            return before[name](*args, **more)

        return call

    for name in before:
        setattr(room, name, told(name))
    try:
        yield
    finally:
        for name, one in before.items():
            setattr(room, name, one)


def close() -> None:
    """Leave the process group of several ranks; a failed one is not waited for."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        dist.destroy_process_group()
