"""Answers to a program that asks a tensor without values for one, each of them kept to be told."""

from __future__ import annotations

import contextlib
import os
import sys
from types import FrameType
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_ITEM = torch.ops.aten._local_scalar_dense.default
_EQUAL = torch.ops.aten.equal.default


class Items(TorchDispatchMode):
    """Answers ``.item()``, ``float()``, ``bool()`` and ``torch.equal`` on fakes: 1 or True.

    ``answering`` is False while a model is built: there a value decides what the model is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answering = True
        self._given: Dict[Tuple[str, str], int] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # see tracker.Tracker

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        if self.answering and (func is _ITEM or func is _EQUAL):
            tensor = args[0]
            if isinstance(tensor, FakeTensor) and tensor.constant is None:
                return self._answer(func, tensor)
        return func(*args, **kwargs) if kwargs else func(*args)

    def _answer(self, func: Any, tensor: torch.Tensor) -> Any:
        value: Any = 1
        if func is _EQUAL or tensor.dtype == torch.bool:
            value = True
        elif tensor.is_complex():
            value = complex(1.0)
        elif tensor.is_floating_point():
            value = 1.0
        where = asked_by(sys._getframe(2))
        if where:
            key = (repr(value), where)
            self._given[key] = self._given.get(key, 0) + 1
        return value

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """A context in which nothing is answered: torch's own error comes."""
        before, self.answering = self.answering, False
        try:
            yield
        finally:
            self.answering = before

    def table(self) -> List[Dict[str, Any]]:
        """What was answered to code that is not torch's or peakmark's: {"answer", "where", "count"}."""
        return [
            {"answer": answer, "where": where, "count": count}
            for (answer, where), count in self._given.items()
        ]


def asked_by(frame: Optional[FrameType]) -> str:
    """``workload.py:57 in loss`` of the innermost frame that is not torch's; "" where that is peakmark's."""
    while frame is not None:
        name = frame.f_code.co_filename
        looks_on = frame.f_code.co_name == "__torch_dispatch__"
        if name.startswith(_OWN) and not looks_on:
            return ""
        if not looks_on and not name.startswith((_TORCH, "<")):
            return "%s:%d in %s" % (os.path.basename(name), frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return ""
