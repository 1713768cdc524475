"""The largest batch of samples with fixed shapes under a budget: a planning aid, not a promise.

Pure integers, bytes.  What an allocator adds to the bytes asked for is left out, see ``LEFT_OUT``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

BITS = {
    **dict.fromkeys(("fp64", "float64", "double", "int64", "long", "uint64", "complex64"), 64),
    **dict.fromkeys(("fp32", "float32", "float", "tf32", "int32", "int", "uint32"), 32),
    **dict.fromkeys(("fp16", "float16", "half", "bf16", "bfloat16", "int16", "short", "uint16"), 16),
    **dict.fromkeys(("fp8", "float8", "fp8_e4m3", "fp8_e5m2", "float8_e4m3fn", "float8_e5m2"), 8),
    **dict.fromkeys(("int8", "uint8", "byte", "bool"), 8),
    **dict.fromkeys(("int4", "uint4", "fp4", "nf4"), 4),
    "complex128": 128,
}
"""Bits of one element by the usual names; 4-bit ones are packed two a byte."""

LEFT_OUT = (
    "rounding, cached blocks, fragmentation, operator scratch, library workspaces and the device's context"
)
"""What comes on top of fixed and per-sample bytes on a device."""


@dataclass(frozen=True, slots=True)
class SampleTensor:
    """Tensors of one shape that every sample has."""

    name: str
    shape: tuple[int, ...]
    """Of one sample."""
    dtype: str
    """A name of ``BITS``."""
    count: int = 1
    """How many of them a sample has."""

    @property
    def bytes(self) -> int:
        """Of all ``count``; each is rounded up to whole bytes.

        >>> SampleTensor("logits", (1024, 50257), "fp32", 3).bytes
        617558016
        >>> SampleTensor("packed", (3,), "int4", 2).bytes
        4
        """
        return self.count * -(-prod(self.shape) * BITS[self.dtype] // 8)


@dataclass(frozen=True, slots=True)
class Plan:
    """Bytes as a line of the batch, and where it meets the budget."""

    tensors: tuple[SampleTensor, ...]
    fixed_bytes: int
    """What is there without any sample."""
    budget_bytes: int | None = None
    batch: int | None = None
    """The batch that is asked about; None: none."""

    @property
    def sample_bytes(self) -> int:
        """Of one sample."""
        return sum(one.bytes for one in self.tensors)

    @property
    def largest(self) -> int | None:
        """The largest batch under the budget, 0 when not even one sample fits; None without a budget.

        >>> Plan((SampleTensor("h", (1000,), "bf16"),), 500, 10_000).largest
        4
        """
        if self.budget_bytes is None:
            return None
        return max(0, (self.budget_bytes - self.fixed_bytes) // self.sample_bytes)

    def bytes(self, batch: int) -> int:
        """Of ``batch`` samples and what is fixed."""
        return self.fixed_bytes + batch * self.sample_bytes

    @property
    def short_bytes(self) -> int:
        """How much the batch, else one sample, is over the budget; 0 when it fits or there is no budget."""
        if self.budget_bytes is None:
            return 0
        return max(0, self.bytes(1 if self.batch is None else self.batch) - self.budget_bytes)
