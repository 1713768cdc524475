"""What the tracker knows of one storage."""

from __future__ import annotations

from typing import Iterable, Optional


class Label:
    """What one storage is.  ``row`` is a ledger row when it is certain, else None and lifetimes decide."""

    __slots__ = ("dtype", "module", "op", "phase", "row", "shape")

    def __init__(
        self,
        row: Optional[str],
        op: str,
        module: str,
        phase: str,
        shape: Iterable[int] = (),
        dtype: Optional[str] = None,
    ) -> None:
        self.row = row
        self.op = op
        self.module = module
        self.phase = phase
        self.shape = tuple(shape)
        self.dtype = dtype
