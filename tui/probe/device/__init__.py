"""The one place where a CPU and a CUDA GPU differ: readings, timing, the allocator's record, limits.

``open_device(name)`` gives an object with the attributes and methods that ``base.Device`` documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..faults import TaskError

if TYPE_CHECKING:
    from .base import Device


def open_device(name: str) -> Device:
    """The device that the plan names: ``cpu``, or ``cuda:UUID`` / ``cuda`` for an NVIDIA GPU.

    Raises:
        TaskError: the interpreter's torch has no such device.
    """
    if name == "cpu":
        from .cpu import CpuDevice

        return CpuDevice()
    if name == "cuda" or name.startswith("cuda:"):
        from .cuda import CudaDevice

        return CudaDevice(name.partition(":")[2])
    raise TaskError("environment", "device %r is neither cpu nor cuda" % name)
