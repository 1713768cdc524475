"""A project and measurements for the tests of the project file."""

import dataclasses
import os
from datetime import UTC, datetime, timedelta

from tui.project.marker import MARKER
from tui.project.measured import Environment, Measured, Operating, PhasePeak, Probe, Verify

USER = """\
schema = 1
title = "A small decoder"          # for the report

[workload]
source = "decoder"
args = { layers = 2, heads = 2 }

[workload.batch]
micro = 8                          # samples
accumulate = 4
length = { min = 16, typical = 24, max = 32 }
remainder = "drop"

[workload.optimizer]
name = "torch.optim.AdamW"
args = { lr = 6e-4, betas = [0.9, 0.95] }
clip_norm = 1.0

[precision]
use = "fp32"
compare = ["fp32", "bf16-autocast"]

[budget]
job = "60 GiB"
reserve = "4 GiB"
"""

START = datetime(2026, 12, 1, 14, 12, 3, tzinfo=UTC)


def probe(second: int = 0, **changes) -> Probe:
    """A probe whose rows add up to 30 bytes."""
    peak = PhasePeak(30, allocated_bytes=512, rows={"weights": 10, "gradients": 20})
    found = Probe(
        at=START + timedelta(seconds=second),
        spec="sha256:4be1aaaa",
        environment="e-7c1f",
        precision="fp32",
        micro_batch=8,
        accumulate=4,
        outcome="fits",
        phases={"first.backward": peak, "backward": peak},
    )
    return dataclasses.replace(found, **changes)


def measured(*probes: str) -> Measured:
    """One probe of each name, a second apart, and what belongs to them."""
    return Measured(
        environment={
            "e-7c1f": Environment("a CPU", "cpu", None, "2.13.0", "3.11", unknown={"driver": "no GPU"})
        },
        verify={"v-1": Verify(START, "sha256:4be1aaaa", "e-7c1f", "verified", "fp32", 1.5)},
        probe={name: probe(second) for second, name in enumerate(probes)},
        operating={"o-1": Operating(probes[0], "v-1", "sha256:4be1aaaa", "e-7c1f", START)} if probes else {},
    )


def adding(name: str, **changes):
    """An update for ``record`` that adds one probe."""
    return lambda found: dataclasses.replace(found, probe=found.probe | {name: probe(**changes)})


def with_measured(below: str, user: str = USER) -> str:
    """A whole file whose measured part is ``below``."""
    return f"{user}\n{MARKER}\n\n{below}"


def refuse(number: int):
    """A stand-in for a call of the operating system that fails with that error number."""

    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    return fail
