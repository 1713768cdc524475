"""Out of memory as a result: what failed, where, and what was alive at that moment.

The figures are those of the failure itself: the allocator tells it (an event of the profiler on the CPU, an
observer and the recorded history on CUDA).  Everything else is made after the error's handler has ended, because
the frames of a living error keep the tensors that were in the way.

In the first iteration nothing is labelled yet.  It is then begun once more in the same process, now under the
tracker and under the same limit, and its labels go to the blocks of the failed try by the order and size of the
same operators, as those of the labelled iteration go to the steady one.  The bytes are those of the failed try.
"""

from __future__ import annotations

import gc
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple, TypeVar

import torch

from . import peaks, timeline, tracing
from .device.exhaustion import Watch
from .faults import TaskError, asked_bytes, is_out_of_memory, one_line, place, said_by
from .labels import Labelled
from .tracker import Tracker

if TYPE_CHECKING:
    from .device.base import Device
    from .protocol import Plan
    from .tracing import Trace

    T = TypeVar("T")

AGAIN = 3
"""Index of the first iteration when it is begun once more for its labels."""
TOP = 8
"""Kinds of tensors that are told."""
MODULES = 16
OTHERS = "others"
_NO_ROOM = ("failed to map segment", "cannot allocate memory")


class Caught:
    """What is kept of an error whose handler has ended: words and numbers, no frame and no tensor."""

    def __init__(self, error: BaseException, watch: Watch, roots: List[str], limited: bool) -> None:
        self.time_ns = time.time_ns()
        self.sentence = one_line(error)
        self.where = place(error, roots)
        self.details = watch.read(error)
        if _in_batch(error):
            self.details["phase"] = (
                tracing.MAKING
            )  # it belongs to no phase of the iteration, whatever was entered last
        if limited and not is_out_of_memory(error):
            self.details["too_small_for_torch"] = True
        # The log gets the whole of it here: the error that is raised in its place knows nothing of these frames.
        traceback.print_exception(type(error), error, error.__traceback__)


def attempt(
    work: Callable[[], T], watch: Watch, plan: Plan, device: Device, seen: Callable[[], None] = lambda: None
) -> Tuple[Optional[T], Optional[Caught]]:
    """(what ``work`` gives, None), or (None, what is kept) when it ran out of memory.

    Args:
        work: other errors of it are raised.
        watch: from before ``work``.
        plan: with a limit, an import or a call that fails for want of memory counts as well.
        device: its limit is lifted when memory ran out, so that there is some to tell it with.
        seen: called while the error lives, to look at what only its frames hold.
    """
    limited = plan.limit_bytes is not None
    try:
        return work(), None
    except Exception as error:
        if not is_exhaustion(error, limited):
            raise
        device.lift_limit()
        seen()
        caught = Caught(error, watch, [plan.folder] if plan.folder else [], limited)
    gc.collect()  # an error and its frames can be a cycle
    return None, caught


def is_exhaustion(error: BaseException, limited: bool) -> bool:
    """Whether ``error`` means that memory ran out; under a limit it can come as an import that fails."""
    if is_out_of_memory(error):
        return True
    if not limited or isinstance(error, (ModuleNotFoundError, TaskError)):
        return False
    text = said_by(error).lower()
    return isinstance(error, SystemError) or (
        isinstance(error, ImportError) and any(words in text for words in _NO_ROOM)
    )


def _in_batch(error: BaseException) -> bool:
    """Whether the error came while a training batch was being made on the host."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(one.name == "host_batches" and one.filename.endswith("session.py") for one in frames)


def failure(caught: Caught, plan: Plan, **more: Any) -> TaskError:
    """The error to raise for what was caught; ``more`` are further details."""
    details = {"asked_bytes": None, **caught.details, **{k: v for k, v in more.items() if v is not None}}
    if plan.limit_bytes is not None:
        details.setdefault("limit_bytes", plan.limit_bytes)
    return TaskError("out-of-memory", caught.sentence, caught.where, **details)


def register_unfinished(trace: Trace) -> None:
    """Know the parameters of a model that is still being built: they are held by the error's frames alone."""
    if trace.session is None:
        found = [one for one in gc.get_objects() if torch.nn.Parameter in type(one).__mro__]
        trace.register(found, "weights")


def conclude(caught: Caught, trace: Trace, device: Device, plan: Plan) -> TaskError:
    """The error of a traced run with everything that its record knows of the failed allocation."""
    _, phase, iteration, micro = trace.marks[-1]
    found: Dict[str, Any] = {"phase": phase, "iteration": iteration, "micro": micro}
    if trace.limit_bytes is not None:
        found["limit_bytes"] = trace.limit_bytes
    try:
        source = _label(trace, phase, iteration, device)
        assert trace.recorder is not None
        record = trace.recorder.stop()
        found.update(trace.recorder.at_failure())
        failed = record.failed_before(caught.time_ns)
        # What an unwinding frees after this mark was meant to live on: in a forward it was being retained.
        trace.marks.append((failed.time_ns, "failed", None, None))
        trace.marks.sort(key=lambda mark: mark[0])
        tracked = None if not trace.births else AGAIN if iteration == peaks.FIRST else peaks.TRACKED
        labelled = Labelled(
            record, trace.marks, trace.registered, trace.births, tracked, trace.spans, device.workspaces()
        )
        found.update(
            alive(labelled, failed.event - 1), operator=failed.op.replace("aten::", ""), alive_source=source
        )
        found["survived"] = survived(labelled, failed.event)
        again = trace.tracker
        if isinstance(again, _Failing) and again.asked == caught.details.get("asked_bytes"):
            found["operator"], found["module"] = again.failed  # what was called, not what that calls in turn
    except Exception as second:  # the failure that is told is the first one
        sys.stderr.write("what was alive could not be found: %s\n" % one_line(second))
        found["alive_unknown"] = "the record could not be read: %s" % one_line(second, 120)
    return failure(caught, plan, **found)


def _label(trace: Trace, phase: str, iteration: Optional[int], device: Device) -> str:
    """Register what the session holds and end the marks; in the first iteration, begin it again for labels.

    Returns where the labels come from.
    """
    trace.register_all()
    source = "the labelled iteration" if trace.births else "addresses and phases alone"
    # Of several ranks one alone has nobody to begin again with: it would wait for the others.
    alone = trace.session is not None and trace.session.group.count == 1
    if alone and iteration == peaks.FIRST and phase in ("forward", "backward", "step"):
        _begin_again(trace, device)
        if trace.births:
            source = "the first iteration, begun once more under the tracker"
    trace.marks.append((time.time_ns(), "end", None, None))
    return source


class _Failing(Tracker):
    """A tracker that also says what raised an error: ``failed``, (operator, module), and what it had ``asked`` for."""

    failed = ("", "")
    asked: Optional[int] = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        except Exception as error:
            self.failed = (func._schema.name.partition("::")[2], self._module())
            self.asked = asked_bytes(error)
            raise


class _Silent:
    """A reporter of phases that are not told: they are no progress."""

    def enter(self, phase: str, iteration: Optional[int] = None, micro: Optional[int] = None) -> None:
        pass


def _begin_again(trace: Trace, device: Device) -> None:
    session = trace.session
    assert session is not None
    for one in session.model.parameters():
        one.grad = None
    for optimizer in session.optimizers:
        optimizer.state.clear()  # half of a moment that was being made would be an error of its own
    gc.collect()
    trace.iteration = AGAIN
    session.index = 0
    trace.mark("start")
    trace.tracker = _Failing(session.model)
    try:
        if trace.limit_bytes is not None and device.kind == "cpu":
            device.limit(trace.limit_bytes)  # a GPU's cap was never lifted
        with trace.tracker:
            tracing.iterate(session, _Silent(), trace, AGAIN, "first.")  # type: ignore[arg-type]
    except Exception:
        pass
    finally:
        device.lift_limit()
    trace.mark("again")
    trace.iteration = None
    gc.collect()


def survived(labelled: Labelled, until: int) -> Dict[str, Any]:
    """What was alive at the peak of every phase that ended before event ``until``, by the phase's name."""
    highest: Dict[str, Tuple[int, int]] = {}
    for interval in labelled.intervals:
        name = peaks.phase_name(interval)
        if name is None or interval.last >= until:
            continue
        size, at = labelled.record.peak(interval.first, interval.last)
        if size > highest.get(name, (-1, 0))[0]:
            highest[name] = (size, interval.first - 1 if at is None else at)
    return {name: alive(labelled, at) for name, (_, at) in highest.items()}


def alive(labelled: Labelled, event: int) -> Dict[str, Any]:
    """What was alive after ``event``, by row, module and tensor.

    Returns:
        requested_bytes, alive {row: bytes}, alive_modules {module: bytes}, alive_top {what: bytes}.
    """
    rows: Dict[str, int] = {}
    modules: Dict[str, int] = {}
    tensors: Dict[str, Tuple[int, int]] = {}
    for index in labelled.record.alive_after(event):
        size = labelled.record.allocations[index].nbytes
        row = labelled.rows[index] or "unattributed"
        rows[row] = rows.get(row, 0) + size
        module = timeline.words(labelled, index)[0]
        modules[module] = modules.get(module, 0) + size
        what = _tensor(labelled, index, row)
        count, total = tensors.get(what, (0, 0))
        tensors[what] = (count + 1, total + size)
    return {
        "requested_bytes": sum(rows.values()),
        "alive": _sorted(rows),
        "alive_modules": _most(modules, MODULES),
        "alive_top": _most({_counted(what, n): size for what, (n, size) in tensors.items()}, TOP),
    }


def _tensor(labelled: Labelled, index: int, row: str) -> str:
    """``131072x4096 float32, gelu in net.1``; the name of what has one; the row where nothing else is known."""
    module, operator, shape, dtype = timeline.words(labelled, index)
    sized = "%s %s" % (shape, dtype) if dtype else "%d B" % labelled.record.allocations[index].nbytes
    name = labelled.names[index]
    if name:
        return "%s, %s of %s" % (sized, row.replace("_", " "), name)
    made = operator or row.replace("_", " ")
    return "%s, %s%s" % (sized, made, " in %s" % module if module else "")


def _counted(what: str, count: int) -> str:
    return what if count == 1 else "%d x %s" % (count, what)


def _sorted(sizes: Dict[str, int]) -> Dict[str, int]:
    return dict(sorted(sizes.items(), key=lambda one: (-one[1], one[0])))


def _most(sizes: Dict[str, int], count: int) -> Dict[str, int]:
    """The ``count`` largest, and the sum of the rest as OTHERS."""
    ordered = list(_sorted({key or "(no module)": size for key, size in sizes.items() if size}).items())
    rest = sum(size for _, size in ordered[count:])
    return {**dict(ordered[:count]), **({OTHERS: rest} if rest else {})}
