"""How much of the machine's CPU time other processes take, from the kernel's counters."""

from __future__ import annotations

import os
from typing import Optional, Tuple


class OthersShare:
    """Counts from its making on; ``ratio()`` is the share of all CPU time that others took, or None."""

    def __init__(self) -> None:
        self._begun = _counters()

    def ratio(self) -> Optional[float]:
        """0 to 1, of every CPU of the machine; None where the kernel does not say or too little time went by."""
        return self.ratios()[0]

    def ratios(self) -> Tuple[Optional[float], Optional[float]]:
        """(that of others, that of this process), each as ``ratio`` is."""
        ended = _counters()
        if self._begun is None or ended is None:
            return None, None
        whole, busy, own = (after - before for after, before in zip(ended, self._begun))
        if whole < 10:  # ticks: the counters are too coarse for less
            return None, None
        return min(1.0, max(0.0, (busy - own) / whole)), min(1.0, own / whole)


def _counters() -> Optional[Tuple[float, float, float]]:
    """(all, busy, own) CPU time so far, in ticks, over all CPUs."""
    try:
        with open("/proc/stat", "rb") as handle:
            ticks = [int(word) for word in handle.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    if len(ticks) < 5:
        return None
    times = os.times()
    own = (times.user + times.system) * os.sysconf("SC_CLK_TCK")
    whole = sum(ticks)
    return whole, whole - ticks[3] - ticks[4], own  # idle and waiting for input are the fourth and fifth
