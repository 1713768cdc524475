"""torch.compile of the model in place: names of parameters, state and checkpoint stay what they are.

When the compiler works is told by itself, so that its time and its memory are a phase of their own.  A dispatch
mode makes torch run the model without what was compiled, so no mode may be active where that is to be measured.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Tuple

import torch

from .faults import TaskError, is_out_of_memory, one_line

PHASE = "compile"
UNTOLD = "this torch does not tell when it compiles"
UNSEEN = "blocks that compiled code makes have no operator and no module that could be seen"
"""Why bytes of a compiled model are not attributed."""
AT_EDGES = "mallinfo2, at the edges of a phase: compiled code has no operators to look after"


class Compiling:
    """A model whose calls are compiled.

    Attributes:
        ms: wall time of all compilations so far.
        count: how many there were, of forwards, backwards and parts of them.
        why: why ``ms`` and ``count`` are not known, or "".
        enter: told ``("compile", None)`` as one begins, then whatever ``resume`` says as it ends; None: nobody.
    """

    def __init__(self, model: torch.nn.Module, resume: Callable[[], Tuple[str, Optional[int]]]) -> None:
        self.ms = 0.0
        self.count = 0
        self.why = ""
        self.enter: Optional[Callable[[str, Optional[int]], None]] = None
        self._resume = resume
        self._since = 0
        self._settled = (0.0, 0)
        self._model = model
        self._looks: List[Callable[..., Any]] = []
        self._listen()

        # Not model.compile(): that leaves out a model whose forward is one of torch's own, such as nn.Sequential.
        def inline(*args: Any, **kwargs: Any) -> Any:
            return model._call_impl(*args, **kwargs)

        compiled = torch.compile(inline)

        def call(*args: Any, **kwargs: Any) -> Any:
            for look in self._looks:
                look(model, args, kwargs)
            return compiled(*args, **kwargs)

        self._call = model._compiled_call_impl = call

    def _listen(self) -> None:
        try:
            from torch._dynamo.callback import callback_handler

            callback_handler.register_start_callback(self._begun)
            callback_handler.register_end_callback(self._ended)
        except (ImportError, AttributeError):
            self.why = UNTOLD

    def _begun(self, *args: Any) -> None:
        self._since = time.perf_counter_ns()
        if self.enter is not None:
            self.enter(PHASE, None)

    def _ended(self, *args: Any) -> None:
        self.ms += (time.perf_counter_ns() - self._since) / 1e6
        self.count += 1
        if self.enter is not None:
            self.enter(*self._resume())

    def register(self, look: Callable[..., Any], with_kwargs: bool = True) -> Any:
        """``register_forward_pre_hook`` for what only looks: outside of what is compiled, which it leaves as it is."""
        self._looks.append(look)
        return _Handle(lambda: self._looks.remove(look))

    def settle(self) -> None:
        """What is compiled from now on is too late: it was to be done, and it is told to nobody."""
        self._settled = (self.ms, self.count)
        self.enter = None

    def table(self) -> Dict[str, Any]:
        """ "ms" and "count" until ``settle``, compilations "again" since, "why" they are not known."""
        ms, count = self._settled
        return {"ms": ms, "count": count, "again": self.count - count, "why": self.why}

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """Within it the model runs as it is written."""
        self._model._compiled_call_impl = None
        try:
            yield
        finally:
            self._model._compiled_call_impl = self._call

    def refusal(self, error: BaseException) -> Optional[TaskError]:
        """The sentence for an error of the compiler; None where it is not one of its own."""
        room = type(error).__module__
        if is_out_of_memory(error) or not room.startswith(("torch._dynamo", "torch._inductor")):
            return None
        inner = getattr(error, "inner_exception", None) or error
        return TaskError(
            "unsupported",
            "torch.compile cannot compile the model: %s" % one_line(inner, 200),
            hint="set workload.step.compile to false, or put right what it names "
            "(on a CPU it needs a C++ compiler)",
        )


def as_written() -> ContextManager[Any]:
    """A context in which nothing is compiled and what was compiled runs as it is written, also what a model compiles.

    Under a dispatch mode torch would try to compile anew what it meets, and give up on it for good.
    """
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()  # nothing was compiled, and loading the compiler takes seconds
    return torch.compiler.set_stance("force_eager")


def first_name(phase: str) -> str:
    """The name of a phase of the first iteration, during which the compiler works."""
    return phase if phase == PHASE else "first." + phase


class _Handle:
    def __init__(self, remove: Callable[[], None]) -> None:
        self.remove = remove


def off(compiling: Optional[Compiling]) -> ContextManager[None]:
    """``Compiling.off`` of a model that may not be compiled at all."""
    return contextlib.nullcontext() if compiling is None else compiling.off()
