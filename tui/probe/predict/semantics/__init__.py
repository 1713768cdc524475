"""What one kind of device does otherwise than the fake tensors of a CPU."""

from __future__ import annotations

from typing import Mapping, Optional

from .base import Assumptions, Semantics, Target


def open_semantics(
    kind: str, target: Optional[Target] = None, workspaces: Optional[Mapping[str, int]] = None
) -> Semantics:
    """The semantics of ``kind``, "cpu" or "cuda", for ``target`` (None: none is named).

    Args:
        kind: "cpu" or "cuda".
        target: the device; None: none is named.
        workspaces: measured sizes of the libraries' workspaces, see ``cuda.CudaSemantics``.

    Raises:
        ValueError: another kind.
    """
    if kind == "cpu":
        return Semantics(target)
    if kind == "cuda":
        from .cuda import CudaSemantics

        return CudaSemantics(target, workspaces)
    raise ValueError("no semantics of %r" % kind)


__all__ = ["Assumptions", "Semantics", "Target", "open_semantics"]
