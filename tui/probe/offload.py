"""What is kept in the host's main memory instead of on the device, with what torch offers for that.

``activations``: every tensor that the forward and the loss save for the backward goes to the host as it is saved and
comes back when the backward asks for it (``torch.autograd.graph.save_on_cpu``).  That is all of them: weights that
autograd saves are copied too.  ``weights``, ``gradients`` and ``optimizer`` together: FSDP2's ``CPUOffloadPolicy`` on
a process group of this process alone, so that a layer's weights are on the device while it works, its gradients
leave as they are made, and the optimizer steps on the host.

Neither has been run on a GPU: what the tests run is the same code with the CPU as the device, where nothing is moved
and nothing can be pinned.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, ContextManager, Dict, Iterable, List, Optional, Tuple

import torch

from . import elapsed, named, optimizers
from .faults import TaskError, is_out_of_memory, one_line
from .protocol import ReadingTaken
from .tracker import storages

if TYPE_CHECKING:
    from .session import Session

PINNED = "host-pinned"
KINDS = {
    "weights": "weights that rest in main memory and are on the device only while their layer works",
    "gradients": "gradients that are kept in main memory",
    "optimizer": "optimizer state that is kept in main memory, where the optimizer steps",
    "activations": "tensors that one micro-batch's forward and loss save for the backward, kept in main memory; "
    "as torch counts them, weights and repeated saves included",
}
"""What can be kept on the host, and what its reading means."""

UNSEEN = (
    "nothing was saved for a backward by run.loss(batch): a step(run) of the workload's own went another way"
)
_BACKENDS = {"cuda": "cpu:gloo,cuda:nccl", "cpu": "gloo"}
"""Clipping adds up norms of gradients that are on the host, which NCCL cannot."""
_folder: Optional[str] = None
"""Where the process group of this process keeps its file; None: it has none that was made here."""


class Offload:
    """What one session keeps on the host; nothing where ``placement`` is None.

    Args:
        placement: {"weights", "activations": "device", "host" or "host-pinned", "shard_each": names of classes}.
        device: where the model works.
    """

    def __init__(self, placement: Optional[Dict[str, Any]], device: torch.device) -> None:
        asked = placement or {}
        self.device = device
        self.weights = asked.get("weights", "device")
        """Where weights, gradients and optimizer state are, which FSDP2 keeps in one place."""
        self.activations = asked.get("activations", "device")
        self.shard_each: Tuple[str, ...] = tuple(asked.get("shard_each") or ())
        self.saved_bytes: Optional[int] = None
        """The most bytes that one forward and loss have saved on the host; None: none has yet."""

    @property
    def home(self) -> str:
        """The device type of weights, gradients and optimizer state between iterations."""
        return self.device.type if self.weights == "device" else "cpu"

    def refuse(self, session: Session) -> None:
        """Raise where what is asked for goes with something that torch was never seen to combine it with.

        Raises:
            TaskError: kind unsupported.
        """
        if self.weights == "device" and self.activations == "device":
            return
        if session.plan.step.get("compile"):
            raise TaskError(
                "unsupported",
                "workload.step.compile and a placement on the host are not measured together",
                hint='set workload.step.compile to false, or the placement to "device"',
            )
        if self.weights == "device":
            return
        if session.setting.name == "fp16-autocast":
            raise TaskError(
                "unsupported",
                "fp16-autocast scales gradients, which is not measured with gradients on the host",
                hint="use bf16-autocast, bf16 or fp32, or keep weights, gradients and optimizer on the device",
            )
        if session.workload.has("shard"):
            raise TaskError(
                "unsupported",
                "the workload's own shard(model, mesh) is not run with weights on the host",
                hint="delete shard() and name the classes in placement.shard_each",
            )

    def place(self, model: torch.nn.Module) -> torch.nn.Module:
        """``model`` with its weights on the host and fully sharded over one rank.

        Raises:
            TaskError: shard_each names a class that the model has not, or torch cannot shard the model.
        """
        chosen = named.of_classes(model, self.shard_each, "placement.shard_each")
        try:
            from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

            mesh = _mesh(self.device.type)
            policy = CPUOffloadPolicy(pin_memory=self.weights == PINNED)
            inner_first = [one for one in reversed(list(model.modules())) if one is not model]
            for module in [one for one in inner_first if any(one is other for other in chosen)]:
                fully_shard(module, mesh=mesh, offload_policy=policy)
            fully_shard(model, mesh=mesh, offload_policy=policy)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise TaskError(
                "unsupported",
                "torch cannot keep this model's weights on the host: fully_shard: %s" % one_line(error, 200),
                hint='set placement.weights, gradients and optimizer to "device" and strategy to "none"',
            ) from error
        return model

    @contextlib.contextmanager
    def _saved(self) -> Any:
        context = torch.autograd.graph.save_on_cpu(pin_memory=self.activations == PINNED)
        pack, total = context.pack_hook, 0

        def counted(tensor: torch.Tensor) -> Any:
            nonlocal total
            total += tensor.numel() * tensor.element_size()
            return pack(tensor)

        context.pack_hook = counted
        with context:
            yield
        if total:
            self.saved_bytes = max(total, self.saved_bytes or 0)

    def context(self) -> ContextManager[Any]:
        """Entered around every forward and loss whose backward follows."""
        return contextlib.nullcontext() if self.activations == "device" else self._saved()

    def readings(self, session: Session, phase: str) -> List[ReadingTaken]:
        """``host_weights``, ``host_gradients``, ``host_optimizer``, ``host_activations``: those kept on the host.

        Bytes as asked for; what pinning locks beyond them is in the reading ``pinned``.
        """
        found: List[ReadingTaken] = []
        if self.weights != "device":
            parameters = list(session.model.parameters())
            gradients = [one.grad for one in parameters if one.grad is not None]
            state = [one for made in session.optimizers for _, _, one in optimizers.state_tensors(made)]
            for name, tensors in (("weights", parameters), ("gradients", gradients), ("optimizer", state)):
                size, source = _on_host(tensors)
                found.append(_reading(name, phase, size, source))
        if self.activations != "device":
            source = "counted as torch.autograd.graph.save_on_cpu copied them"
            if self.activations == PINNED:
                source += ", pinned"
            found.append(_reading("activations", phase, self.saved_bytes, source))
        return found


def _reading(name: str, phase: str, size: Optional[int], source: str) -> ReadingTaken:
    unknown = UNSEEN if size is None else ""
    return ReadingTaken(
        "host_" + name, phase, size, source, KINDS[name], unknown, end=size, at_s=elapsed.seconds()
    )


def _on_host(tensors: Iterable[torch.Tensor]) -> Tuple[int, str]:
    """(bytes of the storages that are on the host, how they are kept there)."""
    size = pinned = 0
    for _, one in storages(tensors):
        if one.device.type == "cpu":
            nbytes = one.untyped_storage().nbytes()
            size += nbytes
            pinned += nbytes if one.is_pinned() else 0
    return size, "tensors after the last iteration, %s pinned" % (
        "all" if size and pinned == size else "{:,} B".format(pinned) if pinned else "none"
    )


def _mesh(device_type: str) -> Any:
    """A mesh of this process alone; its process group is made at the first call and reaches no network."""
    global _folder
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    if not dist.is_initialized():
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
        _folder = tempfile.mkdtemp(prefix="peakmark-group-")
        store = dist.FileStore(os.path.join(_folder, "store"), 1)  # type: ignore[attr-defined]
        dist.init_process_group(_BACKENDS[device_type], store=store, rank=0, world_size=1)
    return init_device_mesh(device_type, (1,))


def close() -> None:
    """Take down the process group that was made here, if there is one; the file of a failed one goes as well."""
    global _folder
    if _folder is None:
        return
    import torch.distributed as dist

    folder, _folder = _folder, None
    try:
        if dist.is_initialized():
            dist.destroy_process_group()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
