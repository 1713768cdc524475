"""Estimates of model states that other tools publish, to be named beside ours and never mixed with it.

Bytes by parameter of mixed-precision Adam.  Source: DeepSpeed's memory estimators
(``deepspeed/runtime/zero/stage_1_and_2.py`` and ``stage3.py``), in which 2 bytes of half weights, 2 of half gradients
and 12 (stage 3) of fp32 weight and two moments are counted, and stage 2 leaves weights and gradients whole.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A published figure for one rank's device."""

    bytes: int
    name: str
    text: str
    scope: str = "training states"


def older_zero2(params: int, ranks: int, *, offload_optimizer: bool = False) -> Estimate:
    """The older formula of stage 2: 4 bytes a parameter on every rank, 16 divided.

    >>> older_zero2(10**9, 8).bytes
    6000000000
    """
    name = "DeepSpeed's stage 2 estimator"
    if offload_optimizer:
        return Estimate(2 * params, name, f"2 x {params:,}")
    return Estimate(4 * params + 16 * params // ranks, name, f"4 x {params:,} + 16 x {params:,} / {ranks}")


def older_zero3(
    params: int,
    ranks: int,
    largest_layer: int,
    *,
    offload_optimizer: bool = False,
    offload_params: bool = False,
) -> Estimate:
    """The estimator of stage 3: half weights and gradients of the largest layer, the rest divided or on the host.

    >>> [older_zero3(6_050_000_000, n, 206_000_000, offload_params=True).bytes for n in (2, 4)]
    [824000000, 824000000]
    """
    name, layer = "DeepSpeed's stage 3 estimator", f"4 x {largest_layer:,}"
    if offload_params:
        return Estimate(4 * largest_layer, name, layer)
    by = 2 if offload_optimizer else 18
    size = 4 * largest_layer + by * params // ranks
    return Estimate(size, name, f"{layer} + {by} x {params:,} / {ranks}")
