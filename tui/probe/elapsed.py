"""How long this process has been running, torch's import included."""

from __future__ import annotations

import os
import time
from typing import Optional

_LOADED = time.monotonic()


def seconds() -> float:
    """Seconds since the process was started, to a hundredth; since this module was loaded where none can tell."""
    begun = _begun()
    return round(
        time.monotonic() - _LOADED if begun is None else time.clock_gettime(time.CLOCK_BOOTTIME) - begun, 2
    )


def _begun() -> Optional[float]:
    """Seconds from the machine's boot to this process's start, from field 22 of its stat file, or None."""
    try:
        with open("/proc/self/stat", "rb") as handle:
            fields = handle.read().rpartition(b")")[2].split()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
