"""The life of every storage of a trace without values: when it is made and freed, by which operator, in which module.

The tracker of measured runs with births and deaths of its own: fake storages have no address and no allocator, so
each gets a number for one, and events are counted instead of timed.  What the device's libraries and kernels take
beside the results comes from the semantics.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Set, Tuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import _pop_mode_temporarily
from torch.utils._python_dispatch import _disable_current_modes

from ..allocations import Record, Row
from ..faults import TaskError
from ..label import Label
from ..tracker import Operator, Tracker, _dtype, _sequence, _tensors, parts
from .fake import FakeMode
from .inplace import InPlace
from .semantics import Semantics, losses

_LIFTS = ("lift_fresh", "lift_fresh_copy")
"""A constant that Python code makes: by its schema a view, and yet a storage of its own."""


class Live:
    """One storage that is alive: ``own`` is what the fake has, ``nbytes`` what the device would."""

    __slots__ = ("host", "id", "key", "label", "nbytes", "own", "reference")

    def __init__(self, id: int, key: int, own: int, nbytes: int, label: Label) -> None:
        self.id = id
        self.key = key
        self.own = own
        self.nbytes = nbytes
        self.label = label
        self.reference: Any = None
        self.host = False
        """Whether it is in main memory while the device is another."""


class Recorder(Tracker):
    """Active over a whole trace.  ``record()`` gives what was seen; ``phase`` is set by the caller.

    Args:
        mode: the fake mode whose tensors count; those of others, such as DTensor's rules make, do not.
        semantics: of the device that is predicted for.
    """

    def __init__(self, mode: FakeMode, semantics: Semantics) -> None:
        super().__init__(torch.nn.Module(), timed=False)
        self.operators = 0
        self.failed_op = self.failed_in = ""
        """Operator that raised, and the module it ran in."""
        self._mode = mode
        self._semantics = semantics
        self.in_place = InPlace()
        self._rows: List[Row] = []
        self._live: Dict[int, Live] = {}
        self._now = 0
        self._id = 0
        self._host: Set[int] = set()
        self._hosts = 0  # of those that are alive
        self._to_host: Optional[bool] = None
        self._away: Tuple[type, ...] = _dtensors()
        self.seeing = True
        """Whether operators are recorded now."""

    # --- what the caller does ---

    def clock(self) -> int:
        """The number of the next event."""
        self._now += 1
        return self._now

    def know(self, model: torch.nn.Module) -> None:
        """Names of the model's modules, and which storages are its weights."""
        self._names = {id(module): name or type(module).__name__ for name, module in model.named_modules()}
        self._weights = {self.address(one) for one in model.parameters()}

    def observe_in_place(self) -> None:
        """Learn how in-place work of autograd looks here; leaves no trace in the record."""
        with self.seen(False):
            self.in_place.observe()

    @contextlib.contextmanager
    def seen(self, seen: bool) -> Iterator[None]:
        """A context in which operators are recorded or not."""
        before, self.seeing = self.seeing, seen
        try:
            yield
        finally:
            self.seeing = before

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A context without this mode or any other, in which tensors have values."""
        with _disable_current_modes(), _disable_function_mode():
            yield

    def address(self, tensor: torch.Tensor) -> int:
        """The number of its storage; 0 for what has none or has not been seen."""
        live = self._of(tensor)
        return 0 if live is None else live.id

    def take(self, tensor: torch.Tensor, row: Optional[str], op: str) -> None:
        """Count a storage that no operator made from now on; one that is known stays as it is."""
        for part in parts(tensor):
            storage = part.untyped_storage()
            if storage._cdata not in self._live:
                self._birth(storage, part, Label(row, op, "", self.phase, part.shape, _dtype(part.dtype)))

    def leave_out(self, tensor: torch.Tensor) -> None:
        """Its storage is on the host, so it never counted."""
        for part in parts(tensor):
            live = self._of(part)
            if live is not None and not live.host:
                self._is_on_host(live)

    def _is_on_host(self, live: Live) -> None:
        live.host = True
        self._host.add(live.id)
        self._hosts += 1

    def on_host(self, tensor: torch.Tensor) -> bool:
        """Whether its storage was left out."""
        live = self._of(tensor)
        return live is not None and live.host

    @contextlib.contextmanager
    def making(self, on_host: bool) -> Iterator[None]:
        """A context in which results are on the host, or on the device, whatever they are made of."""
        before, self._to_host = self._to_host, on_host
        try:
            yield
        finally:
            self._to_host = before

    def requested(self) -> int:
        """Bytes that are alive now."""
        return sum(live.nbytes for live in self._live.values() if not live.host)

    def resized(self, storage: torch.UntypedStorage) -> None:
        """A storage was given another size behind the operators' back, as FSDP does."""
        live = self._live.get(storage._cdata)
        if live is not None and live.own != storage.nbytes():
            self._resize(live, storage)

    def forget(self) -> None:
        """Begin anew: what was seen is none of the model's."""
        self._rows.clear()
        self.births.clear()
        self._live.clear()

    def record(self) -> Record:
        """Everything that was made and freed by now."""
        return Record(row for row in self._rows if row[1] not in self._host)

    # --- the mode ---

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        if self._away and any(issubclass(one, self._away) for one in types):
            return NotImplemented  # its own rules turn it into operators on the local parts
        kwargs = kwargs or {}
        if not self.seeing:
            self.in_place.target(func, args)
            return func(*args, **kwargs)
        self.operators += 1
        if self._stack:
            self._module_of_sequence.setdefault(_sequence() - 1, self._stack[-1])
        op = self._operators.get(id(func))
        if op is None:
            op = self._operators[id(func)] = _operator(func)
        semantics = self._semantics
        scratch = [self._scratch(*one) for one in semantics.before(func, args, kwargs)]
        into = self.in_place.target(func, args)
        try:
            out = func(*args, **kwargs)
        except Exception:
            if not self.failed_op:
                self.failed_op, self.failed_in = str(func).replace(".default", ""), self._module()
            raise
        if into is not None and self._hand_over(into, out):
            pass
        elif isinstance(out, torch.Tensor):
            self._result(op, func, args, kwargs, 0, out)
        else:
            for position, one in enumerate(_tensors(out)):
                self._result(op, func, args, kwargs, position, one)
        if op.loses and args:
            self._is_logits(args[0])
        for size, what in semantics.kept(func, torch._C._current_graph_task_id() != -1):
            self._made(size, Label("library_workspaces", what, "", self.phase))
        scratch += [self._scratch(*one) for one in semantics.after(func, args, kwargs, out)]
        for number, size in reversed(scratch):
            self._rows.append((self.clock(), number, -size, "", None))
        return out

    def _result(
        self, op: Operator, func: Any, args: Any, kwargs: Dict[str, Any], position: int, tensor: torch.Tensor
    ) -> None:
        if tensor.layout is not torch.strided:
            raise self._sparse(op, tensor)
        for part in parts(tensor):
            if isinstance(part, FakeTensor) and part.fake_mode is not self._mode:
                continue
            try:
                storage = part.untyped_storage()
            except (NotImplementedError, RuntimeError):
                continue  # sparse and nested tensors have none; their parts were seen
            live = self._live.get(storage._cdata)
            if live is not None:
                if live.own != storage.nbytes():
                    self._resize(live, storage)
                continue
            row = None
            if op.loses or (op.casts and self._of_weight(args)):
                row = "step_temporaries"
            label = Label(row, op.name, self._module(), self.phase, part.shape, _dtype(part.dtype))
            size = losses.result_bytes(func, args, kwargs) if op.loses else None
            live = self._birth(storage, part, label, size or self._semantics.nbytes(func, position, part))
            if self._to_host or (self._to_host is None and self._hosts and self._all_on_host(args)):
                self._is_on_host(live)

    def _all_on_host(self, args: Any) -> bool:
        """Whether an operator had tensors to work on, and all of them on the host."""
        found = [self._of(one) for one in _tensors(args)]
        return bool(found) and all(live is not None and live.host for live in found)

    def _sparse(self, op: Operator, tensor: torch.Tensor) -> TaskError:
        module = self._module()
        return TaskError(
            "prediction",
            "cannot predict: %s%s makes a tensor of layout %s, whose size depends on data"
            % (op.name, " in %s" % module if module else "", str(tensor.layout)[6:]),
            hint="measure it: peakmark probe",
        )

    def _is_logits(self, value: Any) -> None:
        for tensor in _tensors(value):
            live = self._of(tensor)
            if live is not None:
                self.births.append((self._now, live.id, _with_row(live.label, "step_temporaries")))

    def _of_weight(self, args: Any) -> bool:
        return bool(args) and isinstance(args[0], torch.Tensor) and self.address(args[0]) in self._weights

    def _of(self, tensor: torch.Tensor) -> Optional[Live]:
        try:
            return self._live.get(tensor.untyped_storage()._cdata)
        except (NotImplementedError, RuntimeError):
            return None

    # --- births and deaths ---

    def _birth(
        self,
        storage: torch.UntypedStorage,
        tensor: torch.Tensor,
        label: Label,
        nbytes: Optional[int] = None,
    ) -> Live:
        own = storage.nbytes()
        self._id += 1
        live = Live(self._id, storage._cdata, own, own if nbytes is None else nbytes, label)
        live.reference = weakref.ref(storage, _ending(self._died, live))
        self._live[live.key] = live
        self._enter(live)
        return live

    def _enter(self, live: Live) -> None:
        if live.nbytes:
            now = self.clock()
            self._rows.append((now, live.id, live.nbytes, live.label.op, None))
            self.births.append((now, live.id, live.label))

    def _leave(self, live: Live) -> None:
        if live.nbytes:
            self._rows.append((self.clock(), live.id, -live.nbytes, "", None))

    def _died(self, live: Live) -> None:
        if self._live.get(live.key) is live:  # else it was forgotten
            del self._live[live.key]
            self._hosts -= live.host
            self._leave(live)

    def _resize(self, live: Live, storage: torch.UntypedStorage) -> None:
        self._leave(live)
        self._id += 1
        live.id = self._id  # another block of the allocator, so another number
        if live.host:
            self._host.add(live.id)
        live.own = live.nbytes = storage.nbytes()
        self._enter(live)

    def _hand_over(self, into: torch.Tensor, out: Any) -> bool:
        """Let ``out`` be what ``into`` was; False where they cannot be the same block."""
        live = self._of(into)
        if live is None or not isinstance(out, torch.Tensor) or out.dtype != into.dtype:
            return False
        storage = out.untyped_storage()
        if storage._cdata in self._live or storage.nbytes() != live.own:
            return False
        del self._live[live.key]
        live.key = storage._cdata
        live.reference = weakref.ref(storage, _ending(self._died, live))
        self._live[live.key] = live
        return True

    def _scratch(self, size: int, what: str) -> Tuple[int, int]:
        return self._made(size, Label("operator_scratch", what, self._module(), self.phase)), size

    def _made(self, size: int, label: Label) -> int:
        self._id += 1
        now = self.clock()
        self._rows.append((now, self._id, size, label.op, None))
        self.births.append((now, self._id, label))
        return self._id


def _disable_function_mode() -> ContextManager[Any]:
    """A context without the innermost mode of torch's functions, of which a trace has at most one."""
    if not torch._C._len_torch_function_stack():
        return contextlib.nullcontext()
    return _pop_mode_temporarily()


def _ending(died: Callable[[Live], None], live: Live) -> Callable[[Any], None]:
    def end(_: Any) -> None:
        died(live)

    return end


def _with_row(label: Label, row: str) -> Label:
    return Label(row, label.op, label.module, label.phase, label.shape, label.dtype)


def _operator(func: Any) -> Operator:
    found = Operator(func)
    found.fresh = found.fresh or found.name in _LIFTS
    return found


def _dtensors() -> Tuple[type, ...]:
    try:
        from torch.distributed.tensor import DTensor
    except ImportError:
        return ()
    return (DTensor,)
