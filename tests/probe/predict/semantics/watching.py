"""Operators on fakes under a device's semantics, with what the recorder would be told of each."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from tui.probe.predict.semantics import Target
from tui.probe.predict.semantics.cuda import CudaSemantics

A100 = Target("A100", None, (8, 0), 108, 2048)
H100 = Target("H100", None, (9, 0), 132, 2048)
T4 = Target("T4", None, (7, 5), 40, 1024)


@dataclass
class Seen:
    """One operator: bytes of its results as the device keeps them, and what it took beside them."""

    name: str
    sizes: list[int]
    before: list[int]
    after: list[int]
    kept: list[int]
    dtypes: list[torch.dtype] = field(default_factory=list)


class Watch(TorchDispatchMode):
    """Collects ``Seen``, all but views and questions about devices."""

    def __init__(self, semantics: CudaSemantics) -> None:
        super().__init__()
        self.semantics = semantics
        self.seen: list[Seen] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, asked = kwargs or {}, self.semantics
        before = asked.before(func, args, kwargs)
        out = func(*args, **kwargs)
        kept = asked.kept(func, torch._C._current_graph_task_id() != -1)
        after = asked.after(func, args, kwargs, out)
        found = [one for one in (out if isinstance(out, (tuple, list)) else [out]) if torch.is_tensor(one)]
        sizes = []
        for position, one in enumerate(found):
            size = asked.nbytes(func, position, one)
            sizes.append(one.numel() * one.element_size() if size is None else size)
        name = func.name().removeprefix("aten::").split(".")[0]
        taken = [[size for size, _ in part] for part in (before, after, kept)]
        self.seen.append(Seen(name, sizes, taken[0], taken[1], taken[2], [one.dtype for one in found]))
        return out

    def named(self, name: str) -> list[Seen]:
        """The operators of a name, in order."""
        return [one for one in self.seen if one.name == name]

    def one(self, name: str) -> Seen:
        """The only operator of a name."""
        (found,) = self.named(name)
        return found

    def casts(self) -> list[list[int]]:
        """Sizes of what was cast, in order."""
        return [one.sizes for one in self.named("_to_copy")]

    def notes(self, what: str) -> list[tuple[str, int]]:
        """(value, count) of the assumptions about ``what``."""
        table = self.semantics.assumptions.table()
        return [(one["value"], one["count"]) for one in table if one["what"] == what]


@contextlib.contextmanager
def cuda(target: Target | None = A100, **workspaces: Any):
    """Fakes with CUDA's semantics; gives the ``Watch`` over them."""
    semantics = CudaSemantics(target, workspaces or None)
    semantics.open()
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), Watch(semantics) as watch:
            yield watch
    finally:
        semantics.close()


def weight(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A leaf that wants a gradient."""
    return torch.empty(*shape, dtype=dtype, requires_grad=True)
