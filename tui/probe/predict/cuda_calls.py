"""``torch.cuda`` and autocast for a program that speaks of a GPU where there is none.

Questions are answered for the device that is predicted for; what only orders work does nothing.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

import torch

from .recorder import Recorder
from .semantics import Target

DEFAULT_CAPABILITY = (8, 0)
DEFAULT_PROCESSORS = 108
DEFAULT_TOTAL = 80 * 2**30


_SILENT = """
synchronize empty_cache reset_peak_memory_stats reset_max_memory_allocated set_device init ipc_collect manual_seed
manual_seed_all set_stream
"""


class _Idle:
    """A stream, an event or a context of either: it orders nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = torch.device("cpu")

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: Any) -> None:
        return None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


@contextlib.contextmanager
def answered(recorder: Recorder, target: Optional[Target]) -> Iterator[None]:
    """A context in which ``torch.cuda`` speaks for ``target`` and autocast for "cuda" is that of the trace."""
    replaced: Dict[Tuple[Any, str], Any] = {}
    answers = {**_cuda(recorder, target)}
    try:
        for name, answer in answers.items():
            if hasattr(torch.cuda, name):
                _replace(replaced, torch.cuda, name, answer)
        _autocast(replaced)
        yield
    finally:
        for (owner, name), value in replaced.items():
            setattr(owner, name, value)


def _replace(replaced: Dict[Tuple[Any, str], Any], owner: Any, name: str, value: Any) -> None:
    replaced[owner, name] = getattr(owner, name)
    setattr(owner, name, value)


def _cuda(recorder: Recorder, target: Optional[Target]) -> Dict[str, Any]:
    capability = (target.capability if target else None) or DEFAULT_CAPABILITY
    total = (target.total_bytes if target else None) or 0
    name = target.name if target else "CUDA"
    properties = types.SimpleNamespace(
        name=name,
        major=capability[0],
        minor=capability[1],
        total_memory=total or DEFAULT_TOTAL,
        multi_processor_count=(target.sm_count if target else None) or DEFAULT_PROCESSORS,
    )
    answers: Dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_current_stream_capturing": lambda: False,
        "is_bf16_supported": lambda *args, **kwargs: capability >= DEFAULT_CAPABILITY,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda *args: name,
        "get_device_capability": lambda *args: capability,
        "get_device_properties": lambda *args: properties,
        "memory_allocated": lambda *args: recorder.requested(),
        "max_memory_allocated": lambda *args: recorder.requested(),
        "memory_reserved": lambda *args: recorder.requested(),
        "max_memory_reserved": lambda *args: recorder.requested(),
        "mem_get_info": lambda *args: (max(0, total - recorder.requested()), total),
    }
    for idle in ("Stream", "Event", "stream", "device", "current_stream", "default_stream"):
        answers[idle] = _Idle
    for silent in _SILENT.split():
        answers[silent] = _nothing
    return answers


def _autocast(replaced: Dict[Tuple[Any, str], Any]) -> None:
    """Let autocast for "cuda" be the CPU's, whose lists are CUDA's in a trace."""
    cls = torch.amp.autocast_mode.autocast
    begin = cls.__init__
    enabled, dtype = torch.is_autocast_enabled, torch.get_autocast_dtype

    def init(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda" and kwargs.get("dtype") is None and not args:
            kwargs["dtype"] = torch.float16  # CUDA's own default; the CPU's is another
        begin(self, _here(device_type), *args, **kwargs)

    _replace(replaced, cls, "__init__", init)
    _replace(
        replaced,
        torch,
        "is_autocast_enabled",
        lambda *args: enabled(*map(_here, args)) if args else enabled("cpu"),
    )
    _replace(replaced, torch, "get_autocast_dtype", lambda device_type: dtype(_here(device_type)))


def _here(device_type: Any) -> Any:
    return "cpu" if str(device_type).startswith("cuda") else device_type
