"""Looks at one device while something runs on it: clocks, heat, power, memory and who holds it.

A thread of its own asks the driver a few times a second; nothing ever waits for it, because a driver may take
seconds to answer.  The device is found by its GPU- or MIG-uuid, never by a number.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tui.engine import nvml

EVERY_S = 0.25
PATIENCE_S = 2.0
"""How long the end waits for a driver that does not answer."""

HOLDS_BACK: Mapping[int, str] = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "heat (driver)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}
"""Reasons for lower clocks that say something about the machine, by bit (nvml.h, nvmlClocksEventReason*).

The other bits are wishes: an idle GPU, clocks set by its owner, boost in step with others, a display.
"""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the device; None: the driver does not say, ``Watched.unknown`` has the reason."""

    at_ns: int
    """On the machine's monotonic clock, which every process shares."""
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    reasons: int | None = None
    """Bits of nvmlClocksEventReason."""
    used_bytes: int | None = None
    processes: Mapping[int, int | None] | None = None
    """Bytes by pid, as the driver counts pids; None: this process's size is not told."""
    strangers: int = 0
    """How many of those pids no process has here: the driver counts them in another namespace."""


@dataclass(slots=True)
class Watched:
    """Every look, oldest first, and why something is missing from them."""

    looks: list[Look] = field(default_factory=list[Look])
    unknown: dict[str, str] = field(default_factory=dict[str, str])
    """The latest reason for each field of Look that was None; under "looks" why there are none, or no more."""


@asynccontextmanager
async def watched(id: str | None, every_s: float = EVERY_S) -> AsyncGenerator[Watched]:
    """Look at the device ``id`` until the block ends; what was seen is complete only then.

    Args:
        id: GPU- or MIG-uuid; None: there is nothing to look at.
        every_s: seconds between two looks.
    """
    seen = Watched()
    if id is None:
        seen.unknown["looks"] = "no GPU was measured"
        yield seen
        return
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(id, seen, ended, every_s), name="nvml", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        await asyncio.to_thread(thread.join, PATIENCE_S)
        if thread.is_alive():
            seen.unknown["looks"] = f"the driver did not answer within {PATIENCE_S:g} s"


def _watch(id: str, seen: Watched, ended: threading.Event, every_s: float) -> None:
    """The thread: it never raises."""
    try:
        library = nvml.bindings()
    except ImportError as error:
        seen.unknown["looks"] = f"nvidia-ml-py cannot be imported: {error}"
        return
    _, why = nvml.ask(library.nvmlInit)
    if why:
        seen.unknown["looks"] = why
        return
    try:
        handle, why = nvml.ask(library.nvmlDeviceGetHandleByUUID, id.encode())
        if handle is None:
            seen.unknown["looks"] = f"{id} is not found: {why}"
            return
        # Heat and clocks belong to the whole GPU: of a slice they can only be asked there.
        whole = (
            nvml.ask(library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle)[0]
            if _is_slice(id)
            else None
        )
        while True:
            seen.looks.append(look(library, handle, whole or handle, seen.unknown))
            if ended.wait(every_s):
                return
    finally:
        nvml.ask(library.nvmlShutdown)


def _is_slice(id: str) -> bool:
    return id.startswith("MIG-")


def look(library: Any, handle: Any, whole: Any, unknown: dict[str, str]) -> Look:
    """One look; why a field is None goes to ``unknown``.

    Args:
        library: initialised bindings.
        handle: of the device whose memory counts.
        whole: of the GPU that it is or is a slice of.
        unknown: reasons by field.
    """
    at_ns = time.monotonic_ns()

    def number(field: str, call: str, *more: Any) -> int | None:
        found, why = _call(library, call, whole, *more)
        if found in nvml.ALL_ONES:
            found, why = None, "the driver answers all ones, its sign for no value"
        if found is None:
            unknown[field] = why
        return found

    milliwatts = number("power_w", "nvmlDeviceGetPowerUsage")
    sizes = nvml.memory(library, handle, unknown)
    rows = processes(library, handle, unknown)
    return Look(
        at_ns=at_ns,
        sm_mhz=number("sm_mhz", "nvmlDeviceGetClockInfo", 1),  # NVML_CLOCK_SM
        memory_mhz=number("memory_mhz", "nvmlDeviceGetClockInfo", 2),  # NVML_CLOCK_MEM
        temperature_c=number("temperature_c", "nvmlDeviceGetTemperature", 0),  # NVML_TEMPERATURE_GPU
        power_w=None if milliwatts is None else milliwatts / 1000,
        reasons=_reasons(library, whole, unknown),
        used_bytes=sizes["used_bytes"],
        processes=rows,
        strangers=sum(not _exists(pid) for pid in rows or ()),
    )


def _reasons(library: Any, whole: Any, unknown: dict[str, str]) -> int | None:
    """The bits, by the call's new name or, of an older driver, its old one."""
    call = "nvmlDeviceGetCurrentClocks{}Reasons"
    found, why = _either(library, whole, call.format("Event"), call.format("Throttle"))
    if found in nvml.ALL_ONES:
        found, why = None, "the driver answers all ones, its sign for no value"
    if found is None:
        unknown["reasons"] = why
    return found


def processes(library: Any, handle: Any, unknown: dict[str, str]) -> dict[int, int | None] | None:
    """Bytes by pid of the processes that compute on the device; a size that is not told is None."""
    call = "nvmlDeviceGetComputeRunningProcesses"
    rows, why = _either(library, handle, call, f"{call}_v2")
    if rows is None:
        unknown["processes"] = why
        return None
    told = {row.pid: row.usedGpuMemory for row in rows}
    return {pid: None if size in nvml.ALL_ONES else size for pid, size in told.items()}


def _either(library: Any, handle: Any, name: str, older: str) -> tuple[Any, str]:
    """What the call ``name`` gives, or ``older`` where only that exists; the reason is that of the one that does."""
    found, why = _call(library, name, handle)
    if found is None:
        found, why_older = _call(library, older, handle)
        why = why_older if "Function Not Found" in why else why
    return found, why


def _call(library: Any, name: str, *arguments: Any) -> tuple[Any, str]:
    """As ``nvml.ask``, also where the bindings are too old to have ``name``."""
    return nvml.ask(lambda: getattr(library, name)(*arguments))


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OverflowError:
        return False
    except OSError:
        return True  # it is there, and not ours
    return True
