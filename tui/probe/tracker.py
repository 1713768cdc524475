"""Labels for storages as they are made: operator, module, shape, dtype, and what kind of bytes they hold.

A dispatch mode sees the results of every operator but not the scratch inside them, and it makes autograd take
some out-of-place branches; so it labels one iteration, and the totals come from the allocator's record of others.
The tracker keeps no reference to a tensor and does not follow frees: the record knows those.

Births are (time_ns, address, Label); joining them to allocations is in ``labels``.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

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


class Operator:
    """What the tracker must know of one operator each time it is called."""

    __slots__ = ("casts", "fresh", "func", "loses", "name")

    def __init__(self, func: Any) -> None:
        self.func = func  # kept, so that no other operator can have its id
        self.name = func._schema.name.partition("::")[2]
        self.fresh = not any(one.alias_info is not None for one in func._schema.returns)
        """Whether its results are storages of their own, and no views of or writes to an argument."""
        self.loses = self.name.startswith(LOSS_OPERATORS)
        self.casts = self.name in CASTS


class Tracker(TorchDispatchMode):
    """Active over one iteration.  ``births``: (time_ns, address, Label) in order; ``phase``: set by the caller.

    ``spans``: (begun_ns, ended_ns) of every operator, where they are asked for.

    Most of what a dispatch mode costs is torch's own call of it, some 6 us an operator; what is done here must be
    little beside that.
    """

    def __init__(self, model: torch.nn.Module, timed: bool = True) -> None:
        super().__init__()
        self.births = []
        self.spans = []
        self.phase = ""
        self._timed = timed
        self._names = {id(module): name or type(module).__name__ for name, module in model.named_modules()}
        self._weights = {address for address, _ in storages(model.parameters())}
        self._stack = []
        self._module_of_sequence = {}
        self._hooks = []
        self._operators: Dict[int, Operator] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return (
            False  # else torch wraps every call in one that turns its compiler off, which costs as much again
        )

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

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Not to see what is done meanwhile; it goes on seeing it where another mode was begun within this one."""
        if _get_current_dispatch_mode() is not self:
            yield
            return
        super().__exit__(None, None, None)
        try:
            yield
        finally:
            super().__enter__()

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
        if self._timed:
            begun = time.time_ns()
            out = func(*args, **(kwargs or {}))
            self.spans.append((begun, time.time_ns()))
        else:
            out = func(*args, **kwargs) if kwargs else func(*args)
        op = self._operators.get(id(func))
        if op is None:
            op = self._operators[id(func)] = Operator(func)
        if op.fresh:
            self._see(op, args, out)
        elif isinstance(out, torch.Tensor) and out.layout is not torch.strided:
            # A view of a sparse tensor, such as its transpose, has components of its own.
            self._born(out, None, op.name)
        return out

    def _see(self, op: Operator, args: Any, out: Any) -> None:
        row = None
        if op.loses or (op.casts and self._of_weight(args)):
            row = "step_temporaries"
        if isinstance(out, torch.Tensor):
            self._born(out, row, op.name)
        else:
            for tensor in _tensors(out):
                self._born(tensor, row, op.name)
        if op.loses and args:
            # The logits were made before it was known what they are for: say it again, the surer label wins.
            for tensor in _tensors(args[0]):
                self._born(tensor, row, op.name)

    def _of_weight(self, args: Any) -> bool:
        """Whether a cast is a low-precision copy of a weight."""
        return bool(args) and isinstance(args[0], torch.Tensor) and address_of(args[0]) in self._weights

    def _born(self, tensor: torch.Tensor, row: Optional[str], name: str) -> None:
        now, module = time.time_ns(), self._module()
        for part in parts(tensor):
            address = address_of(part)
            if address:
                label = Label(row, name, module, self.phase, part.shape, _dtype(part.dtype))
                self.births.append((now, address, label))

    def _module(self) -> str:
        if self._stack:
            return self._stack[-1]  # in a backward too, where a forward is done again
        node = _node()
        return "" if node is None else self._module_of_sequence.get(node, "")


_DTYPES: Dict[torch.dtype, str] = {}


def _dtype(dtype: torch.dtype) -> str:
    name = _DTYPES.get(dtype)
    if name is None:
        name = _DTYPES[dtype] = str(dtype)[6:]
    return name


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return (value,)
    if isinstance(value, (tuple, list)):
        return [one for inner in value for one in _tensors(inner)]
    return ()


def address_of(tensor: torch.Tensor) -> int:
    """Where its storage lies; 0 for what has none of its own."""
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
    names = PARTS.get(tensor.layout)
    if names is not None:
        return [getattr(tensor, name)() for name in names]
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return [tensor]
    if (local := getattr(tensor, "_local_tensor", None)) is not None:
        return [local]
    flat = getattr(tensor, "__tensor_flatten__", None)
    if flat is not None and not address_of(tensor):
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


def storages(
    tensors: Iterable[torch.Tensor], address_of: Callable[[torch.Tensor], int] = address_of
) -> List[Tuple[int, torch.Tensor]]:
    """(address, dense tensor) of each different storage among the ``parts`` of ``tensors``; those at 0 are left out."""
    seen = {}
    for tensor in tensors:
        for part in parts(tensor):
            address = address_of(part)
            if address:
                seen.setdefault(address, part)
    return list(seen.items())
