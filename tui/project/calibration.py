"""``measured.calibration``: what one measurement on a GPU says of the bytes that torch does not count.

Keyed by the environment that was measured in.  The next prediction for the same GPU takes these instead of
published ranges.  All sizes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Calibration:
    """One environment's share of a process outside the caching allocator, and what its libraries keep inside."""

    at: datetime
    probe: str
    """Id of the measurement that it comes from."""
    device: str
    """Marketing name of the GPU."""
    torch: str
    context_bytes: int
    """Process less allocator-reserved: context, kernels and whatever libraries hold beside torch."""
    driver: str | None = None
    cuda: str | None = None
    library_workspaces_bytes: int | None = None
    """Row "library workspaces" at the peak: what cuBLAS and cuDNN kept inside the allocator."""
    cublas_bytes: int | None = None
    """One workspace of cuBLAS, of which a training step has two: its thread's and that of autograd."""
    micro_batch: int | None = None
    """Of that measurement: lazily loaded kernels depend on what ran."""
    unknown: dict[str, str] = field(default_factory=dict[str, str])
