"""What is assumed of the GPU and its libraries where a plan does not say it."""

from __future__ import annotations

import os
import re
from typing import Optional, Tuple

import torch

from .base import Assumptions, Target
from .reductions import Machine

AMPERE = Target("A100", None, (8, 0), 108, 2048)
"""Stands in where no GPU is named: its processors, threads and capability."""

_THREADS = {(7, 5): 1024, (8, 6): 1536, (8, 7): 1536, (8, 9): 1536, (12, 0): 1536, (12, 1): 1536}
"""Threads of a processor by capability, 2048 elsewhere: CUDA C++ programming guide, table of compute capabilities."""


class Gpu:
    """A target with every question answered; what had to be assumed is noted.

    ``capability`` is (major, minor); ``torch`` the version as numbers, such as (2, 13).
    """

    def __init__(self, target: Optional[Target], assumptions: Assumptions) -> None:
        self.name = AMPERE.name if target is None else target.name
        self.total_bytes = None if target is None else target.total_bytes
        self.torch = version()
        capability = None if target is None else target.capability
        sm_count = None if target is None else target.sm_count
        threads = None if target is None else target.threads_per_sm
        if target is None:
            assumptions.note("GPU", "108 processors of 2048 threads, capability 8.0", "no GPU was named")
        else:
            if capability is None:
                assumptions.note("compute capability", "8.0", "%s's is not known" % target.name)
            if sm_count is None:
                assumptions.note("processors of the GPU", "108", "%s's are not known" % target.name)
        self.capability: Tuple[int, int] = capability or (8, 0)
        self.machine = Machine(sm_count or 108, threads or _THREADS.get(self.capability, 2048))

    @property
    def major(self) -> int:
        return self.capability[0]


def version() -> Tuple[int, int]:
    """(major, minor) of the running torch."""
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def cudnn_version() -> Optional[int]:
    """cuDNN's of this build, such as 91002; None for a build without CUDA."""
    try:
        return torch.backends.cudnn.version()
    except RuntimeError:
        return None


def header(path: str) -> str:
    """Text of one of torch's own C++ headers; "" where the installation has none."""
    try:
        with open(os.path.join(os.path.dirname(torch.__file__), "include", *path.split("/"))) as file:
            return file.read()
    except OSError:
        return ""


def enabled(variable: str) -> Optional[bool]:
    """What an environment variable says, as c10's ``check_env`` reads it; None: nothing."""
    return {"1": True, "0": False}.get(os.environ.get(variable, ""))
