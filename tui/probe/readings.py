"""Readings of every phase of a run, each with its peak, its end, and when it was taken."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Dict, Iterable, Optional, Tuple

if TYPE_CHECKING:
    from .device.base import Device
    from .protocol import ReadingTaken
    from .reporter import Reporter


class PhaseReadings:
    """Readings of every phase from its beginning to its end; ``names`` limits which are kept."""

    def __init__(self, device: Device, report: Reporter, names: Optional[Tuple[str, ...]] = None) -> None:
        self._device = device
        self._report = report
        self._names = names
        self._phase = None
        self.taken = []

    def begin(self, phase: str, iteration: Optional[int] = None, micro: Optional[int] = None) -> None:
        """End the phase before, and start this one's peaks."""
        self.end()
        self._report.enter(phase, iteration, micro)
        self._device.reset_peaks()
        self._phase = phase

    def end(self) -> None:
        """Read the phase that is going on."""
        if self._phase is not None:
            seen = self._device.readings(self._phase)
            self.taken += [one for one in seen if self._names is None or one.name in self._names]
            self._phase = None


OUTER = (
    "process",
    "device_used",
    "device_total",
    "requested",
    "tensor_allocated",
    "allocator_reserved",
    "inactive_split",
    "host_rss",
    "pinned",
)
"""Readings whose peak something else keeps: they need no sampling after every operator."""


def worst(readings: Iterable[ReadingTaken]) -> Dict[Tuple[str, str], ReadingTaken]:
    """The largest of each reading name and phase (micro-batches repeat phases), with the end of the last."""
    found: Dict[Tuple[str, str], ReadingTaken] = {}
    for one in readings:
        key = (one.name, one.phase)
        kept = found.get(key)
        if kept is None or (one.bytes or 0) > (kept.bytes or 0):
            found[key] = one
        else:
            found[key] = dataclasses.replace(kept, end=one.end)
    return found
