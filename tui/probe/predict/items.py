"""Answers to a program that asks a tensor without values for one, each of them kept to be told."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""Modes and overrides, which stand between a program and torch."""
_ITEM = torch.ops.aten._local_scalar_dense.default
_EQUAL = torch.ops.aten.equal.default


_ATEN = torch.ops.aten


def _passed_on(args: Any, is_false: Callable[[Any], bool]) -> bool:
    return not is_false(args[0])


def _either(args: Any, is_false: Callable[[Any], bool]) -> bool:
    return not (is_false(args[0]) and is_false(args[1]))


def _both(args: Any, is_false: Callable[[Any], bool]) -> bool:
    return not (is_false(args[0]) or is_false(args[1]))


def _denied(args: Any, is_false: Callable[[Any], bool]) -> bool:
    return is_false(args[0])


_TRUTHS: Dict[Any, Callable[[Any, Callable[[Any], bool]], bool]] = {
    _ATEN.ne.Tensor: lambda args, _: args[0] is not args[1],  # ``isnan``
    _ATEN.eq.Scalar: lambda args, _: abs(args[1]) != math.inf,  # ``isinf``
    _ATEN.isnan.default: lambda args, _: False,
    _ATEN.isinf.default: lambda args, _: False,
    _ATEN.any.default: _passed_on,
    _ATEN.any.dim: _passed_on,
    _ATEN.all.default: _passed_on,
    _ATEN.all.dim: _passed_on,
    _ATEN.logical_or.default: _either,
    _ATEN.bitwise_or.Tensor: _either,
    _ATEN.logical_and.default: _both,
    _ATEN.bitwise_and.Tensor: _both,
    _ATEN.logical_not.default: _denied,
    _ATEN.bitwise_not.default: _denied,
}
"""What is known of results that are boolean: whether they are to be taken for true."""


class Items(TorchDispatchMode):
    """Answers ``.item()``, ``float()``, ``bool()`` and ``torch.equal`` on fakes: 1 or True.

    Whether something is not finite is answered with False, and so is what follows from that.  ``answering`` is False
    while a model is built: there a value decides what the model is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answering = True
        self._given: Dict[Tuple[str, str], int] = {}
        self._false = WeakIdKeyDictionary()
        """Tensors that are not true; the values say nothing."""

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
        out = func(*args, **kwargs) if kwargs else func(*args)
        truth = _TRUTHS.get(func)
        if truth is not None and isinstance(out, torch.Tensor) and not truth(args, self._is_false):
            self._false[out] = None
        return out

    def _is_false(self, tensor: Any) -> bool:
        return isinstance(tensor, torch.Tensor) and tensor in self._false

    def _answer(self, func: Any, tensor: torch.Tensor) -> Any:
        value: Any = 1
        if func is _EQUAL or tensor.dtype == torch.bool:
            value = not self._is_false(tensor)
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
        if name.startswith(_OWN) and not name.startswith(_HERE):
            return ""
        if not name.startswith((_HERE, _TORCH, "<")):
            return "%s:%d in %s" % (os.path.basename(name), frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return ""
