"""Labels for storages as they are made: operator, module, shape, dtype, and what kind of bytes they hold.

A dispatch mode sees the results of every operator but not the scratch inside them, and it makes autograd take
some out-of-place branches; so it labels one iteration, and the totals come from the allocator's record of others.
The tracker keeps no reference to a tensor and does not follow frees: the record knows those.

Births are (time_ns, address, Label); joining them to allocations is in ``labels``.
"""

from __future__ import annotations

import time
from typing import Any, Dict, Iterable, List, Optional, Tuple

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from .label import Label

LOSS_OPERATORS = (
    "_log_softmax",
    "log_softmax",
    "nll_loss",
    "cross_entropy",
    "binary_cross_entropy",
    "mse_loss",
    "smooth_l1_loss",
    "huber_loss",
    "l1_loss",
    "_ctc_loss",
    "kl_div",
)
"""Their results and their first argument are loss and logits, which are step temporaries by definition."""

CASTS = ("_to_copy",)


class Tracker(TorchDispatchMode):
    """Active over one iteration.  ``births``: (time_ns, address, Label) in order; ``phase``: set by the caller.

    ``spans``: (begun_ns, ended_ns) of every operator.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.births = []
        self.spans = []
        self.phase = ""
        self._names = {id(module): name or type(module).__name__ for name, module in model.named_modules()}
        self._weights = {address for address, _ in storages(model.parameters())}
        self._stack = []
        self._module_of_sequence = {}
        self._hooks = []
        self._aliases = {}

    def __enter__(self) -> Any:
        self._hooks = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, always_call=True),
        ]
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        return super().__exit__(*exc)

    def _enter_module(self, module: torch.nn.Module, args: Any) -> None:
        self._stack.append(self._names.get(id(module)) or type(module).__name__)

    def _leave_module(self, module: torch.nn.Module, args: Any, out: Any) -> None:
        if self._stack:
            self._stack.pop()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        if self._stack:
            # Here the operator's own node has been made: the next number is one more than its.
            self._module_of_sequence.setdefault(_sequence() - 1, self._stack[-1])
        begun = time.time_ns()
        out = func(*args, **(kwargs or {}))
        self.spans.append((begun, time.time_ns()))
        self._see(func, args, out)
        return out

    def _see(self, func: Any, args: Any, out: Any) -> None:
        fresh = self._aliases.get(func)
        if fresh is None:
            fresh = self._aliases[func] = not any(one.alias_info is not None for one in func._schema.returns)
        name = func._schema.name.partition("::")[2]
        row = self._row(name, args)
        # A view of a sparse tensor, such as its transpose, has components of its own.
        if fresh or (isinstance(out, torch.Tensor) and out.layout != torch.strided):
            for tensor in _tensors(out):
                for part in parts(tensor):
                    self._born(part, row, name)
        if row == "step_temporaries" and name.startswith(LOSS_OPERATORS) and args:
            # The logits were made before it was known what they are for: say it again, the surer label wins.
            for tensor in _tensors(args[0]):
                self._born(tensor, row, name)

    def _row(self, name: str, args: Any) -> Optional[str]:
        if name.startswith(LOSS_OPERATORS):
            return "step_temporaries"
        if (
            name in CASTS
            and args
            and isinstance(args[0], torch.Tensor)
            and _address(args[0]) in self._weights
        ):
            return "step_temporaries"  # a low-precision copy of a weight
        return None

    def _born(self, tensor: torch.Tensor, row: Optional[str], name: str) -> None:
        address = _address(tensor)
        if address:
            label = Label(row, name, self._module(), self.phase, tensor.shape, str(tensor.dtype)[6:])
            self.births.append((time.time_ns(), address, label))

    def _module(self) -> str:
        if self._stack:
            return self._stack[-1]  # in a backward too, where a forward is done again
        node = _node()
        return "" if node is None else self._module_of_sequence.get(node, "")


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return (value,)
    if isinstance(value, (tuple, list)):
        return [one for inner in value for one in _tensors(inner)]
    return ()


def _address(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError, AttributeError):
        return 0  # sparse, nested or wrapper tensors have no storage of their own


PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


def parts(tensor: torch.Tensor) -> List[torch.Tensor]:
    """The dense tensors that hold what it holds: itself, a sparse one's components, a wrapper's inner ones.

    A DTensor's is its local part.
    """
    if tensor.layout != torch.strided:
        return [getattr(tensor, name)() for name in PARTS.get(tensor.layout, ())]
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return [tensor]
    if (local := getattr(tensor, "_local_tensor", None)) is not None:
        return [local]
    flat = getattr(tensor, "__tensor_flatten__", None)
    if flat is not None and not _address(tensor):
        return [part for name in flat()[0] for part in parts(getattr(tensor, name))]
    return [tensor]


def _sequence() -> int:
    try:
        return torch._C._autograd._get_sequence_nr()  # type: ignore[attr-defined]
    except AttributeError:
        return -1


def _node() -> Optional[int]:
    try:
        node = torch._C._current_autograd_node()
        return None if node is None else node._sequence_nr()
    except (AttributeError, RuntimeError):
        return None


def storages(tensors: Iterable[torch.Tensor]) -> List[Tuple[int, torch.Tensor]]:
    """(address, dense tensor) of each different storage among the ``parts`` of ``tensors``."""
    seen = {}
    for tensor in tensors:
        for part in parts(tensor):
            address = _address(part)
            if address:
                seen.setdefault(address, part)
    return list(seen.items())
