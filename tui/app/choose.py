"""Which of the measurements in a project a screen is about.  Pure."""

from __future__ import annotations

from typing import Any

from tui.project.measured import Measured, Operating, Probe
from tui.project.model import Spec


def latest(table: dict[str, Any]) -> tuple[str, Any] | None:
    """The newest of a table keyed by ids that sort by time."""
    return max(table.items(), key=lambda item: item[0]) if table else None


def probe_of(spec: Spec, measured: Measured) -> tuple[str, Probe] | None:
    """The newest probe of the batch and precision that the spec names, else the newest of any.

    One that was cancelled is taken only when there is no other.
    """
    batch = spec.workload.batch
    every = uncancelled(measured.probe) or measured.probe
    own = {
        key: probe
        for key, probe in every.items()
        if (probe.micro_batch, probe.accumulate, probe.precision)
        == (batch.micro, batch.accumulate, spec.precision.use)
    }
    return latest(own) or latest(every)


def uncancelled(probes: dict[str, Probe]) -> dict[str, Probe]:
    """The probes that came to an end of their own."""
    return {key: probe for key, probe in probes.items() if probe.outcome != "cancelled"}


def operating_of(measured: Measured) -> tuple[str, Operating] | None:
    """The operating configuration that was accepted last."""
    if not measured.operating:
        return None
    return max(measured.operating.items(), key=lambda item: (item[1].accepted_at, item[0]))
