"""Which device a project means on this machine, and whether there is room on it.  Sizes are bytes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tui import units
from tui.engine import host, nvml
from tui.errors import RunError

INTEGRATED = "GPU-integrated"
"""Id of a GPU that shares the host's memory and that NVML knows nothing of; ``probe.device.cuda`` has it too."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device, as it was when it was looked at, before anything of ours ran on it."""

    kind: Literal["cpu", "cuda"]
    id: str
    """GPU-uuid, MIG-uuid or "cpu"."""
    name: str
    total_bytes: int | None
    """Of the whole device; for the CPU the host's memory or the job's limit, whichever is smaller."""
    index: int | None = None
    others_used_bytes: int | None = None
    """What other processes hold."""
    free_bytes: int | None = None
    driver_reserved_bytes: int | None = None
    driver: str | None = None
    unknown: dict[str, str] = field(default_factory=dict[str, str])
    """Reason for each field that is None and could be known, and under "cuda" why no GPU was taken."""

    def variables(self) -> dict[str, str]:
        """Environment variables that show a child this device and no other."""
        if self.id == INTEGRATED:
            return {}  # there is one, and no uuid to name it by
        return {"CUDA_VISIBLE_DEVICES": self.id if self.kind == "cuda" else ""}


def resolve(wanted: str, *, where: str = "", name: str = "environment.device") -> Device:
    """The device that ``wanted`` names: "auto", "cpu", or (the beginning of) a GPU- or MIG-uuid.

    "auto" is the first device that the driver shows and ``CUDA_VISIBLE_DEVICES`` allows, else the CPU.

    Args:
        wanted: as written in the project or given on the command line.
        where: ``file:line`` of it, for sentences.
        name: what it is called there.

    Raises:
        RunError: there is no such device, it is not for this job, or the driver is broken.
    """
    if wanted == "cpu":
        return _cpu("cpu was asked for")
    found = nvml.inventory()
    if found.broken:
        raise RunError(found.reason, where=where, hint=f'or set {name} to "cpu"')
    if not found.cards and wanted in ("auto", INTEGRATED) and host.has_integrated_gpu():
        return _integrated(found)
    cards = _allowed(found.cards, os.environ.get("CUDA_VISIBLE_DEVICES"), where)
    if wanted == "auto":
        return _cuda(cards[0], found.driver) if cards else _cpu(found.reason or _hidden())
    matching = [card for card in cards if card.id.startswith(wanted)] if _is_uuid(wanted) else []
    if len(matching) != 1:
        raise _no_such(wanted, matching, cards, found, where, name)
    return _cuda(matching[0], found.driver)


def ids_beside(device: Device, count: int) -> list[str]:
    """``count`` GPUs that this job may use, ``device`` first, fewer where there are fewer; [] on the CPU.

    Raises:
        RunError: the driver is broken, or the variable that hides devices does not say which are meant.
    """
    if device.kind != "cuda" or device.id == INTEGRATED:
        return []
    found = nvml.inventory()
    cards = _allowed(found.cards, os.environ.get("CUDA_VISIBLE_DEVICES"), "")
    others = [card.id for card in cards if card.id != device.id and _is_gpu(card.id)]
    return [device.id, *others][:count]


def _is_gpu(id: str) -> bool:
    return id.startswith("GPU-")


def refuse_if_busy(device: Device, budget_bytes: int | None, *, where: str = "") -> None:
    """Raise when others leave less than the budget; ``None`` means "what is left", which always is.

    Args:
        device: as ``resolve`` gave it just now; nothing is refused on the CPU, whose kernel shares out.
        budget_bytes: what the job may use.
        where: ``file:line`` of the budget.

    Raises:
        RunError: the sentence has all four sizes.
    """
    if budget_bytes is None or device.free_bytes is None or device.free_bytes >= budget_bytes:
        return
    said = f" ({where})" if where else ""
    if device.others_used_bytes is None:
        who, held = "other processes and the driver", _difference(device.total_bytes, device.free_bytes)
    else:
        who, held = "other processes", device.others_used_bytes
    raise RunError(
        f"{who} hold {units.gib(held)} GiB of {device.id} and leave {units.gib(device.free_bytes)} of "
        f"{units.gib(device.total_bytes)} for a budget of {units.gib(budget_bytes)}{said}",
        hint="wait, or lower budget.job",
    )


def _difference(total: int | None, part: int) -> int | None:
    return None if total is None else total - part


def _cpu(why_no_gpu: str) -> Device:
    total = host.memory_total_bytes()
    unknown = {
        "cuda": why_no_gpu,
        "others_used_bytes": "the kernel shares the host's memory out as it is needed",
    }
    if total is None:
        unknown["total_bytes"] = "/proc/meminfo cannot be read"
    return Device("cpu", "cpu", host.cpu_name(), total, unknown=unknown)


def _integrated(found: nvml.Inventory) -> Device:
    """The GPU of a board such as Jetson: its memory is the host's, and there is nobody to ask about others."""
    total, free = host.memory_total_bytes(), host.memory_available_bytes()
    shared = f"the GPU shares the host's memory, and {found.reason}"
    unknown = dict.fromkeys(("others_used_bytes", "driver_reserved_bytes", "driver"), shared)
    return Device("cuda", INTEGRATED, "integrated GPU", total, index=0, free_bytes=free, unknown={**unknown})


def _cuda(card: nvml.Card, driver: str | None) -> Device:
    unknown = dict(card.unknown)
    if why := unknown.pop("used_bytes", ""):
        unknown["others_used_bytes"] = why
    return Device(
        "cuda",
        card.id,
        card.name,
        card.total_bytes,
        index=card.index,
        others_used_bytes=card.used_bytes,
        free_bytes=card.free_bytes,
        driver_reserved_bytes=card.driver_reserved_bytes,
        driver=driver,
        unknown=unknown,
    )


def _is_uuid(text: str) -> bool:
    return text.startswith(("GPU-", "MIG-"))


def _hidden() -> str:
    return f'CUDA_VISIBLE_DEVICES = "{os.environ.get("CUDA_VISIBLE_DEVICES", "")}" hides every CUDA device'


def _allowed(cards: Sequence[nvml.Card], visible: str | None, where: str) -> list[nvml.Card]:
    """The devices that CUDA would show, in its order; like CUDA, an entry that names none ends the list."""
    if visible is None:
        return list(cards)
    chosen: list[nvml.Card] = []
    for entry in (one.strip() for one in visible.split(",")):
        if _is_uuid(entry):
            matching = [card for card in cards if card.id.startswith(entry)]
        else:
            _refuse_ambiguous_numbers(cards, entry, visible, where)
            matching = [card for card in cards if entry.isdigit() and card.index == int(entry)]
        if not matching:
            break
        chosen.append(matching[0])
    return chosen


def _refuse_ambiguous_numbers(cards: Sequence[nvml.Card], entry: str, visible: str, where: str) -> None:
    """CUDA numbers unlike cards by speed, the driver by slot: then a number does not say which is meant."""
    if not entry.isdigit() or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return
    if len({card.name for card in cards}) > 1:
        raise RunError(
            f'CUDA_VISIBLE_DEVICES = "{visible}" counts unlike cards in an order that only CUDA knows',
            where=where,
            hint="set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the card by its uuid in CUDA_VISIBLE_DEVICES",
        )


def _no_such(
    wanted: str,
    matching: Sequence[nvml.Card],
    cards: Sequence[nvml.Card],
    found: nvml.Inventory,
    where: str,
    name: str,
) -> RunError:
    said = f'{name} = "{wanted}"'
    if not _is_uuid(wanted):
        return RunError(
            f"{said} is not a device", where=where, hint='write "auto", "cpu", a GPU-uuid or a MIG-uuid'
        )
    if matching:
        return RunError(
            f"{said} begins the uuids of {len(matching)} devices", where=where, hint="write all of it"
        )
    if any(card.id.startswith(wanted) for card in found.cards):
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return RunError(
            f'{said} is not among CUDA_VISIBLE_DEVICES = "{visible}"',
            where=where,
            hint='name one of those or "auto", or change the variable',
        )
    if not cards:
        why = found.reason or _hidden()
        return RunError(f"{said} is not on this machine: {why}", where=where, hint='name "cpu" or "auto"')
    has = " and ".join(
        [", ".join(card.id for card in cards[:-1]), cards[-1].id] if cards[1:] else [cards[0].id]
    )
    return RunError(f"{said} is not on this machine, which has {has}", where=where, hint='name one or "auto"')
