"""What the NVIDIA driver says about its devices; the one module that imports pynvml, and only when asked.

Every call may fail by itself (containers, MIG, WSL, unified memory): what cannot be read is None and has its
reason in ``unknown``.  Sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Card:
    """One device that a program can run on: a GPU, or an instance of one that is divided (MIG)."""

    index: int | None
    """Position among the GPUs in the driver's order; that of the whole GPU for an instance."""
    id: str
    """GPU-uuid or MIG-uuid."""
    name: str
    total_bytes: int | None = None
    used_bytes: int | None = None
    """By all processes, without what the driver keeps for itself; None where the two cannot be told apart."""
    free_bytes: int | None = None
    driver_reserved_bytes: int | None = None
    unknown: dict[str, str] = field(default_factory=dict[str, str])
    """Reason for each field that is None."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """All devices that the driver shows, or the reason why it shows none."""

    cards: tuple[Card, ...] = ()
    driver: str | None = None
    reason: str = ""
    broken: bool = False
    """There is a driver, but it cannot be talked to: this is not simply a machine without a GPU."""


def inventory() -> Inventory:
    """Ask the driver for its devices; never raises."""
    try:
        import pynvml as nvml  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        return Inventory(reason=f"nvidia-ml-py cannot be imported: {error}")
    try:
        nvml.nvmlInit()
    except Exception as error:
        reason, broken = _why_no_driver(error)
        return Inventory(reason=reason, broken=broken)
    try:
        count, why = _ask(nvml.nvmlDeviceGetCount)
        cards = [card for index in range(count or 0) for card in _cards_of(nvml, index)]
        driver, _ = _ask(nvml.nvmlSystemGetDriverVersion)
        reason = "" if cards else why or "the NVIDIA driver shows no device"
        return Inventory(tuple(cards), _text(driver), reason)
    finally:
        _ask(nvml.nvmlShutdown)


def _why_no_driver(error: Exception) -> tuple[str, bool]:
    """A sentence for a failed nvmlInit, and whether a GPU is there all the same."""
    kind = type(error).__name__.removeprefix("NVMLError_")
    if kind == "LibraryNotFound":
        return "no NVIDIA driver is installed (libnvidia-ml.so.1 was not found)", False
    if kind == "DriverNotLoaded":
        return "the NVIDIA driver is installed but not loaded", False
    if kind == "LibRmVersionMismatch":
        return (
            "the NVIDIA driver was updated while the old one is still loaded; reboot, or reload its modules",
            True,
        )
    if kind == "NoPermission":
        return "the NVIDIA driver does not let this user in; ask for access to /dev/nvidia*", True
    return f"the NVIDIA driver cannot be asked: {_reason(error)}", True


def _cards_of(nvml: Any, index: int) -> list[Card]:
    handle, why = _ask(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return [
            Card(index, f"index {index}", "n/a", unknown={"id": why, "total_bytes": why, "free_bytes": why})
        ]
    mode, _ = _ask(nvml.nvmlDeviceGetMigMode, handle)
    if not mode or not mode[0]:
        return [_card(nvml, handle, index)]
    # CUDA cannot use a divided GPU as a whole: only its instances count.
    count, _ = _ask(nvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    parts = (
        _ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)[0] for number in range(count or 0)
    )
    return [_card(nvml, part, index) for part in parts if part is not None]


def _card(nvml: Any, handle: Any, index: int) -> Card:
    unknown: dict[str, str] = {}
    uuid, why_uuid = _ask(nvml.nvmlDeviceGetUUID, handle)
    name, why_name = _ask(nvml.nvmlDeviceGetName, handle)
    if uuid is None:
        unknown["id"] = why_uuid
    if name is None:
        unknown["name"] = why_name
    sizes = _memory(nvml, handle, unknown)
    return Card(index, _text(uuid) or f"index {index}", _text(name) or "n/a", **sizes, unknown=unknown)


def _memory(nvml: Any, handle: Any, unknown: dict[str, str]) -> dict[str, int | None]:
    """Sizes by field name; the older call counts what the driver reserves as used."""
    keys = ("total_bytes", "used_bytes", "free_bytes", "driver_reserved_bytes")
    found, why = _ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    if found is not None:
        return dict(zip(keys, (found.total, found.used, found.free, found.reserved), strict=True))
    older, why_older = _ask(nvml.nvmlDeviceGetMemoryInfo, handle)
    if older is None:
        unknown.update(dict.fromkeys(keys, why_older))
        return dict.fromkeys(keys)
    apart = f"this driver counts what it keeps for itself as used ({why})"
    unknown.update(used_bytes=apart, driver_reserved_bytes=apart)
    return {"total_bytes": older.total, "free_bytes": older.free}


def _ask(call: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """The answer and "", or None and the reason.  A library older than the call lacks the function itself."""
    try:
        return call(*arguments), ""
    except Exception as error:
        return None, _reason(error)


def _reason(error: Exception) -> str:
    return f"NVML: {' '.join(str(error).split()) or type(error).__name__}"


def _text(value: str | bytes | None) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
