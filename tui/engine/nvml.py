"""What the NVIDIA driver says about its devices; the one module that imports pynvml, and only when asked.

Every call may fail by itself (containers, MIG, WSL, unified memory): what cannot be read is None and has its
reason in ``unknown``.  Sizes are bytes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

ALL_ONES = (2**32 - 1, 2**64 - 1)
"""What the driver answers where it has no value, in fields of 32 and 64 bits."""


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
    refuses: bool = False
    """The library is there but answers nothing, as on boards whose GPU shares the host's memory."""


def bindings() -> Any:
    """The driver's bindings, not yet initialised.

    Raises:
        ImportError: they are not installed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a retired package of the same name warns at every import
        import pynvml  # pyright: ignore[reportMissingTypeStubs]

    return pynvml


def inventory() -> Inventory:
    """Ask the driver for its devices; never raises."""
    try:
        nvml = bindings()
    except ImportError as error:
        return Inventory(reason=f"nvidia-ml-py cannot be imported: {error}")
    try:
        nvml.nvmlInit()
    except Exception as error:
        reason, broken = _why_no_driver(error)
        return Inventory(reason=reason, broken=broken, refuses=_kind(error) == "NotSupported")
    try:
        count, why = ask(nvml.nvmlDeviceGetCount)
        cards = [card for index in range(count or 0) for card in _cards_of(nvml, index)]
        cards = _with_named(nvml, cards)
        driver, _ = ask(nvml.nvmlSystemGetDriverVersion)
        reason = "" if cards else why or "the NVIDIA driver shows no device"
        return Inventory(tuple(cards), text(driver), reason)
    finally:
        ask(nvml.nvmlShutdown)


def _why_no_driver(error: Exception) -> tuple[str, bool]:
    """A sentence for a failed nvmlInit, and whether a GPU is there all the same."""
    kind = _kind(error)
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
    if kind == "NotSupported":
        return "the NVIDIA management library answers nothing on this board", False
    return f"the NVIDIA driver cannot be asked: {_reason(error)}", True


def _kind(error: Exception) -> str:
    return type(error).__name__.removeprefix("NVMLError_")


def _with_named(nvml: Any, cards: list[Card]) -> list[Card]:
    """``cards`` and the slices that the environment names but the walk over the GPUs did not reach.

    A container may be given one slice and no right to its GPU: then only the slice's own name leads to it, and
    the GPU's refusals say nothing about it.
    """
    known = {card.id for card in cards}
    words = ",".join(os.environ.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"))
    named: list[Card] = []
    for word in dict.fromkeys(one.strip() for one in words.split(",")):
        if not word.startswith("MIG-") or any(one.startswith(word) for one in known):
            continue
        handle, _ = ask(nvml.nvmlDeviceGetHandleByUUID, word.encode())
        if handle is not None:
            named.append(_card(nvml, handle, None, word))
    if not named:
        return cards
    return [*named, *(card for card in cards if card.total_bytes is not None)]


def _cards_of(nvml: Any, index: int) -> list[Card]:
    handle, why = ask(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return [
            Card(index, f"index {index}", "n/a", unknown={"id": why, "total_bytes": why, "free_bytes": why})
        ]
    mode, _ = ask(nvml.nvmlDeviceGetMigMode, handle)
    if not mode or not mode[0]:
        return [_card(nvml, handle, index)]
    # CUDA cannot use a divided GPU as a whole: only its instances count.
    count, _ = ask(nvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    parts = (ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)[0] for number in range(count or 0))
    return [_card(nvml, part, index) for part in parts if part is not None]


def _card(nvml: Any, handle: Any, index: int | None, id: str = "") -> Card:
    unknown: dict[str, str] = {}
    uuid, why_uuid = ask(nvml.nvmlDeviceGetUUID, handle)
    name, why_name = ask(nvml.nvmlDeviceGetName, handle)
    if uuid is None and not id:
        unknown["id"] = why_uuid
    if name is None:
        unknown["name"] = why_name
    sizes = memory(nvml, handle, unknown)
    return Card(index, text(uuid) or id or f"index {index}", text(name) or "n/a", **sizes, unknown=unknown)


def memory(nvml: Any, handle: Any, unknown: dict[str, str]) -> dict[str, int | None]:
    """Sizes by field name; the older call counts what the driver reserves as used.

    Sizes that cannot be, such as more used than there is, are left out with the reason in ``unknown``.
    """
    keys = ("total_bytes", "used_bytes", "free_bytes", "driver_reserved_bytes")
    found, why = ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    if found is not None:
        return _plausible(keys, (found.total, found.used, found.free, found.reserved), unknown)
    older, why_older = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
    if older is None:
        unknown.update(dict.fromkeys(keys, why_older))
        return dict.fromkeys(keys)
    apart = f"this driver counts what it keeps for itself as used ({why})"
    sizes = _plausible(keys[:3], (older.total, older.used, older.free), unknown)
    unknown.update(used_bytes=apart, driver_reserved_bytes=apart)
    return {**sizes, "used_bytes": None, "driver_reserved_bytes": None}


def _plausible(keys: Sequence[str], sizes: Sequence[int], unknown: dict[str, str]) -> dict[str, int | None]:
    """``sizes`` by key, without those that cannot be true."""
    found: dict[str, int | None] = {}
    for key, size in zip(keys, sizes, strict=True):
        found[key] = None if size in ALL_ONES else size
        if size in ALL_ONES:
            unknown[key] = "the driver answers all ones, its sign for no value"
    total = found["total_bytes"]
    if total == 0:
        unknown.update(dict.fromkeys(keys, "the driver says that the device has 0 B"))
        return dict.fromkeys(keys)
    if total is None:
        return found
    wrong = next((key for key in keys if (found[key] or 0) > total), None)
    if wrong is not None:
        name = wrong.removesuffix("_bytes").replace("_", " ")
        why = f"the driver says {found[wrong]:,} B {name} of {total:,}, which cannot be"
        unknown.update(dict.fromkeys(keys, why))
        return dict.fromkeys(keys)
    return found


def ask(call: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """A call's answer and "", or None and the reason.  A library older than the call lacks the function itself."""
    try:
        return call(*arguments), ""
    except Exception as error:
        return None, _reason(error)


def _reason(error: Exception) -> str:
    return f"NVML: {' '.join(str(error).split()) or type(error).__name__}"


def text(value: str | bytes | None) -> str | None:
    """A name as text, whatever its bytes are."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
