"""The CPU as a device: its name, and how much memory this process's job may use of the host's."""

from __future__ import annotations

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


def _installed(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")), None)


def _limits(root: Path) -> list[int | None]:
    """Memory limits of this process's control groups, of both versions, and of all groups above them."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found: list[int | None] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found += _upwards(root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in controllers.split(","):
            found += _upwards(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")
    return found


def _upwards(mount: Path, path: str, name: str) -> list[int | None]:
    # In a container the path may be the host's, of which only the root is mounted here.
    group = mount / path.lstrip("/")
    folders = [group, *group.parents]
    return [_number(folder / name) for folder in folders if folder.is_relative_to(mount)]


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None  # "max": no limit
