"""What an estimate is an estimate of, and with which reading it may be compared.

Weights alone, the states of training, and the peak of an iteration are three figures.  None of them says anything of
a pool that a library took in advance: that holds a share of the device whatever is in it, and is a line of its own.
All sizes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tui import units

Scope = Literal["weights", "training states", "peak"]
SCOPES: dict[Scope, str] = {
    "weights": "the weights alone",
    "training states": "weights, gradients and optimizer state, without activations",
    "peak": "the most that is held at one time in a complete iteration",
}
POOL_SHARE = 0.01
"""A process that is within this share of a declared part of the device is that pool."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a device charges to a process, and what is known of a pool in it."""

    process_bytes: int | None
    device_total_bytes: int | None = None
    pool_bytes: int | None = None
    """Taken in advance, as its library says it; None: not said."""
    pool_fraction: float | None = None
    """Share of the device that a library was told to take in advance; None: not said."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``difference_bytes`` is the reading less the estimate; None where ``refused`` or not read, with the reason."""

    estimate_bytes: int
    scope: Scope
    difference_bytes: int | None
    reason: str = ""
    pool_bytes: int | None = None

    @property
    def refused(self) -> bool:
        """Whether the two are not figures of the same thing."""
        return self.difference_bytes is None and bool(self.reason)

    @property
    def text(self) -> str:
        """The estimate with its scope: ``8.500 GiB: the weights alone``."""
        return f"{units.gib(self.estimate_bytes)} GiB: {SCOPES[self.scope]}"


def compare(estimate_bytes: int, scope: Scope, held: Held) -> Comparison:
    """An estimate beside what a process holds, unless the two are not of the same thing.

    >>> compare(8, "weights", Held(100, 110, pool_fraction=0.9)).refused
    True
    >>> compare(90, "peak", Held(100)).difference_bytes
    10
    """
    pool = pool_of(held)
    if pool is not None:
        reason = (
            f"the process holds a pre-reserved pool of {units.gib(pool)} GiB, whatever is in it; "
            f"the estimate is of {SCOPES[scope]}"
        )
        return Comparison(estimate_bytes, scope, None, reason, pool)
    if held.process_bytes is None:
        return Comparison(estimate_bytes, scope, None, "the process was not read")
    if scope != "peak":
        reason = f"the estimate is of {SCOPES[scope]}; a process holds more than that by what it is for"
        return Comparison(estimate_bytes, scope, None, reason)
    return Comparison(estimate_bytes, scope, held.process_bytes - estimate_bytes)


def pool_of(held: Held) -> int | None:
    """Bytes of the pool that was taken in advance; None: none is known of."""
    if held.pool_bytes:
        return held.pool_bytes
    if held.pool_fraction is None or held.device_total_bytes is None or held.process_bytes is None:
        return None
    pool = round(held.device_total_bytes * held.pool_fraction)
    return pool if abs(held.process_bytes - pool) <= POOL_SHARE * pool else None
