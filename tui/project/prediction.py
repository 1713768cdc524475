"""``measured.prediction``: what was predicted, for which device, and what it stands on.

Nothing here was measured: the figures come from a trace on tensors without values and the allocator's rules.
All sizes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class PredictedPeak:
    """One phase's peak.  ``rows`` add up to ``requested_bytes`` at that instant."""

    requested_bytes: int
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    rows: dict[str, int] = field(default_factory=dict[str, int])
    operator: str = ""
    module: str = ""
    micro_batch: int | None = None
    end_requested_bytes: int | None = None
    end_allocated_bytes: int | None = None
    end_reserved_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Within:
    """What the allocator does when it may reserve so much and no more."""

    capacity_bytes: int
    retries: int = 0
    """How often it empties its cache, in all that was predicted."""
    steady_retries: int = 0
    """How often in an iteration like every later one."""
    reserved_bytes: int | None = None
    """At its most, until it ran out of memory if it did."""
    phase: str = ""
    """Where it runs out of memory; "": it does not."""
    operator: str = ""
    module: str = ""
    asked_bytes: int | None = None
    allocated_bytes: int | None = None
    largest_free_block_bytes: int | None = None
    cause: str = ""
    """capacity: what is allocated leaves too little; fragmentation: it would do, and the free bytes lie in pieces."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One workload at one batch on one device."""

    at: datetime
    spec: str
    precision: str
    micro_batch: int
    accumulate: int
    torch: str
    semantics: str
    """cuda | cpu: whose operators and allocator were taken."""
    length: int | None = None
    target: str = ""
    """Name of the GPU in the table of GPUs; "": none was named."""
    target_total_bytes: int | None = None
    ranks: int = 1
    strategy: str = "none"
    worst_phase: str | None = None
    phases: dict[str, PredictedPeak] = field(default_factory=dict[str, PredictedPeak])
    context_low_bytes: int | None = None
    """Context, kernels and NCCL: what the process holds outside the allocator, at least and at most."""
    context_high_bytes: int | None = None
    context_from: str = ""
    """Where that range comes from: a calibration's id, or the table of published figures."""
    assumptions: tuple[str, ...] = ()
    """``attention kernel: flash (bf16, causal, no mask), 12 times``."""
    answered: tuple[str, ...] = ()
    """Values that the program asked of tensors which have none, and what it was told."""
    approximate: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    allocator: str = ""
    """Settings of the allocator; "" is the default."""
    allocator_rules: str = ""
    """How far the simulated rules are proved under these settings."""
    within: tuple[Within, ...] = ()
    """What happens within what a budget, with and without its reserve, leaves beside the context."""
    segments: int | None = None
    """Segments that the allocator holds at the end."""
    retries: int = 0
    """How often it emptied its cache to go on."""
    exhausted: str = ""
    """What happened when it ran out of the capacity that it was given; "": it did not."""
    ranges: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """What is declared as a range: (lowest, highest) bytes by name, such as cudnn_workspace."""
    target_from: str = ""
    """Where the target comes from: --gpu, this machine's driver, the last measurement on a GPU."""
    operators: int | None = None
    largest: int | None = None
    """Largest micro-batch by prediction within ``largest_limit_bytes`` of reserved bytes."""
    largest_limit_bytes: int | None = None
    largest_reserved_bytes: int | None = None
    """What the allocator would hold at ``largest``."""
    largest_next: int | None = None
    """The next micro-batch, which does not fit."""
    largest_exact: bool = True
    """Whether every size between was simulated from traced sizes that follow the line exactly."""
    emptying: int | None = None
    """Largest micro-batch within the same limit when the allocator may empty its cache."""
    emptying_retries: int | None = None
    emptying_next: int | None = None
    """The next one, which runs out of memory; None: it was not looked at."""
    line_fixed_bytes: int | None = None
    line_per_sample_bytes: int | None = None
    line_residual_bytes: int | None = None
    outcome: str = "unknown"
    """fits | fits-without-reserve | does-not-fit | unknown."""
    timeline: str = ""
    """``runs/<id>.timeline.json`` of the predicted iteration, see ``project.timeline``."""
    journal: str = ""
    seconds: float | None = None
    unknown: dict[str, str] = field(default_factory=dict[str, str])
