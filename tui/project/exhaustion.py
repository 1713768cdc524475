"""What a probe remembers of the moment when memory ran out; every field is None or empty when it did not."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaustion:
    """Fields of a ``Probe``.  Bytes are those at the failed allocation; None: unknown, with its reason."""

    exhausted_class: str | None = None
    """capacity | fragmentation | others | limit | host | unknown."""
    exhausted_why: str | None = None
    """The figures that the class follows from, as a sentence."""
    exhausted_phase: str | None = None
    exhausted_iteration: int | None = None
    """Counts from 0, as does the micro-batch."""
    exhausted_micro: int | None = None
    exhausted_operator: str | None = None
    exhausted_module: str | None = None
    exhausted_allocated_bytes: int | None = None
    """Tensor-allocated; on the CPU requested bytes, which are the same there."""
    exhausted_reserved_bytes: int | None = None
    largest_free_block_bytes: int | None = None
    """The largest free block of the cache that the request might have used."""
    free_blocks_bytes: int | None = None
    """All free blocks of the cache."""
    device_free_bytes: int | None = None
    """What the driver had left; on the CPU, what the kernel could still give."""
    alive_modules: dict[str, int] = field(default_factory=dict[str, int])
    """What was alive by the module that made it, the largest first."""
    alive_top: dict[str, int] = field(default_factory=dict[str, int])
    """The largest tensors that were alive, equal ones together: "2 x 131072x4096 float32, gelu in net.1"."""
    alive_source: str | None = None
    """How the labels were found."""
    would_fit: str | None = None
    """What would fit, as far as the measurements of this spec allow to say."""
