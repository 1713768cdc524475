"""What one kind of device does otherwise than the fake tensors of a CPU."""

from __future__ import annotations

from typing import Optional

from .base import Assumptions, Semantics, Target


def open_semantics(kind: str, target: Optional[Target] = None) -> Semantics:
    """The semantics of ``kind``, "cpu" or "cuda", for ``target`` (None: none is named).

    Raises:
        ValueError: another kind.
    """
    if kind == "cpu":
        return Semantics(target)
    if kind == "cuda":
        from .cuda import CudaSemantics

        return CudaSemantics(target)
    raise ValueError("no semantics of %r" % kind)


__all__ = ["Assumptions", "Semantics", "Target", "open_semantics"]
