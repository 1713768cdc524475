"""The device of a trace without values: tensors are fakes of the CPU, whatever device they stand for."""

from __future__ import annotations

from typing import Any, Callable, ContextManager, Dict, List, Optional, Set

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .. import confined
from ..device.base import Device
from ..faults import TaskError, is_out_of_memory, one_line
from ..protocol import ReadingTaken
from .distributed import Group
from .fake import FakeMode, is_fake
from .items import Items
from .placing import Placing
from .recorder import Recorder


class FakeDevice(Device):
    """See ``device.base.Device``.  Nothing can be read of it.

    ``stands_for``: "cpu" or "cuda".  Where that is the CPU, building the model takes of the same memory and is
    recorded; a GPU gets the model once it is built, and its batches as copies.  ``group``: the ranks.
    """

    kind = "cpu"
    allocated_source = "predicted"

    def __init__(
        self,
        mode: FakeMode,
        items: Items,
        recorder: Recorder,
        stands_for: str,
        group: Group,
        placing: Placing,
    ) -> None:
        self.torch_device = torch.device("cpu")
        self._group = group
        self._placing = placing
        recorder.seeing = stands_for == "cpu"
        self.stands_for = stands_for
        self._mode = mode
        self._items = items
        self._recorder = recorder

    def on_host(self) -> ContextManager[Any]:
        """A context without the modes of the trace."""
        return self._recorder.paused()

    def build(self, make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
        """The model on fakes; where its making asks for values, it is built for real and its values dropped.

        Raises:
            TaskError: kind prediction: it needs values, and more memory than is free here.
        """
        try:
            with self._items.refusing():
                return make()
        except Exception as error:
            # Also the sentences that were made of it: only the build for real can tell what is wrong.
            return self._built_for_real(make, error)

    def _built_for_real(self, make: Callable[[], torch.nn.Module], first: Exception) -> torch.nn.Module:
        self._recorder.forget()
        free = confined.available_bytes()
        growth = None if free is None else free * 4 // 5
        try:
            with self.on_host(), confined.held_to(growth):
                model = make()
        except Exception as error:
            if is_out_of_memory(error) and growth is not None:
                raise TaskError(
                    "prediction",
                    "cannot predict: build() needs values (%s), and building it for real needs more than the "
                    "%s B of memory that are free here" % (one_line(first, 120), format(growth, ",")),
                    hint="let build() make its layers without reading values, or predict on a larger machine",
                ) from error
            raise
        return self._without_values(model)

    def _without_values(self, model: torch.nn.Module) -> torch.nn.Module:
        """Replace what ``model`` holds, also outside of its parameters and buffers, by fakes of the same storages."""
        with self._recorder.seen(False):
            for module in model.modules():
                tables: List[Dict[str, Any]] = [
                    module._parameters,
                    module._buffers,
                    module.__dict__,
                ]
                for held in tables:
                    for name, value in list(held.items()):
                        if isinstance(value, torch.Tensor) and not is_fake(value):
                            held[name] = self._without_value(value)
        if self.stands_for == "cpu":
            for tensor in [*model.parameters(), *model.buffers()]:
                self._recorder.take(tensor, None, "build")
        return model

    def _without_value(self, real: torch.Tensor) -> torch.Tensor:
        if getattr(real, "_post_accumulate_grad_hooks", None) or real._backward_hooks:
            raise TaskError(
                "prediction",
                "cannot predict: build() needs values and registers hooks on parameters, which may hold what was built",
                hint="register them in optimizer(model), or let build() make its layers without reading values",
            )
        made = self._mode.from_tensor(real, static_shapes=True)
        for name, value in vars(real).items():
            if not name.startswith("_"):
                setattr(made, name, value)
        return made

    def place(
        self, model: torch.nn.Module, shard: Optional[Callable[..., torch.nn.Module]] = None
    ) -> torch.nn.Module:
        """The model on the device, as this rank of the group holds it."""
        self._recorder.seeing = True
        if self.stands_for != "cpu" and not self._group.sharding:
            self._move(model)
        return self._group.place(model, shard)

    def _move(self, model: torch.nn.Module) -> None:
        """Give each storage of ``model`` one of the device's, in the order of ``Module.to``."""
        moved: Set[int] = set()

        def move(tensor: torch.Tensor) -> torch.Tensor:
            if self._recorder.address(tensor) in moved:
                return tensor  # tied: it is there already
            made = torch.empty_strided(
                tensor.shape, _strides(tensor), dtype=tensor.dtype, requires_grad=tensor.requires_grad
            )
            moved.add(self._recorder.address(made))
            return made

        with torch.no_grad(), self._placing.trusted():
            model._apply(move)

    def bring(self, tensor: torch.Tensor) -> torch.Tensor:
        """A fake of a batch's tensor: of its own storage on the CPU, a copy on a GPU."""
        if is_fake(tensor):
            return tensor
        if self.stands_for == "cpu":
            made = self._mode.from_tensor(tensor, static_shapes=True)
            self._recorder.take(made, "input_batch", "batch")
            return made
        with self._placing.trusted():
            return torch.empty_strided(
                tensor.shape, _strides(tensor), dtype=tensor.dtype, requires_grad=tensor.requires_grad
            )

    def sync(self) -> None:
        """Nothing is queued."""

    def reset_peaks(self) -> None:
        """There are none."""

    def readings(self, phase: str) -> List[ReadingTaken]:
        """Nothing can be read."""
        return []


def _strides(tensor: torch.Tensor) -> List[int]:
    """Strides of a copy that keeps the order of dimensions where there are no holes, as ``Tensor.to`` does."""
    with _disable_current_modes():
        return list(torch.empty_like(tensor, device="meta").stride())
