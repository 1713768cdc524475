"""The CPU as a device: its name, and how much memory this process's job may use of the host's."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_ROOT = Path("/")


def cpu_name(root: Path = _ROOT) -> str:
    """The processor's model name, or the architecture where the kernel does not tell it."""
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.machine()


def memory_total_bytes(root: Path = _ROOT) -> int | None:
    """Bytes of main memory, or the control group's limit where that is smaller; None: not known."""
    known = [size for size in (_installed(root), *_limits(root)) if size is not None]
    return min(known, default=None)


def memory_available_bytes(root: Path = _ROOT) -> int | None:
    """What the kernel could give to a new process, its caches included; None: not known."""
    return _meminfo(root, "MemAvailable:")


def has_integrated_gpu(root: Path = _ROOT) -> bool:
    """Whether this is a board whose NVIDIA GPU shares the host's memory (Tegra), as its device tree says."""
    return "nvidia,tegra" in _read(root / "proc/device-tree/compatible")


def cpus_allowed(root: Path = _ROOT) -> int:
    """Processors that this process may use at once: its affinity, or its control groups' quota where that is less."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [_quota(_read(folder / "cpu.max")) for folder in _groups(root, "")]
    for folder in _groups(root, "cpu"):
        quotas.append(_quota(f"{_read(folder / 'cpu.cfs_quota_us')} {_read(folder / 'cpu.cfs_period_us')}"))
    return max(1, min([allowed, *(int(one) for one in quotas if one is not None)]))


def _quota(text: str) -> float | None:
    """Processors of ``QUOTA PERIOD``; None: no limit ("max", -1, nothing)."""
    words = text.split()
    if len(words) != 2 or not all(word.isdigit() for word in words) or not int(words[1]):
        return None
    return int(words[0]) / int(words[1])


def _installed(root: Path) -> int | None:
    return _meminfo(root, "MemTotal:")


def _meminfo(root: Path, key: str) -> int | None:
    lines = _read(root / "proc/meminfo").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), None)


def _limits(root: Path) -> list[int | None]:
    """Memory limits of this process's control groups, of both versions, and of all groups above them."""
    found = [_read(folder / "memory.max") for folder in _groups(root, "")]
    found += [_read(folder / "memory.limit_in_bytes") for folder in _groups(root, "memory")]
    return [int(text) if text.strip().isdigit() else None for text in found]  # "max": no limit


def _groups(root: Path, controller: str) -> list[Path]:
    """Folders of this process's control group and of all above it: of version 2 for "", else of version 1."""
    found: list[Path] = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            mount = root / "sys/fs/cgroup" / controller
            # In a container the path may be the host's, of which only the root is mounted here.
            group = mount / path.lstrip("/")
            found += [folder for folder in (group, *group.parents) if folder.is_relative_to(mount)]
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
