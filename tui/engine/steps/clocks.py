"""What looks at a device say about a measurement: clocks, throttling, and what the driver charges its process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from tui import units
from tui.engine.nvml_live import HOLDS_BACK, Look, Watched
from tui.project.measured import Reading

THROTTLED_SHARE = 0.1
"""Share of the looks from which a reason to hold clocks back counts; a single short one says nothing."""

LEAST_LOOKS = 4
"""For a change of the clocks from the first third of them to the last."""

OWN = "bytes that the driver lists for the measuring process by its pid, contexts included"


@dataclass(frozen=True, slots=True)
class Clocks:
    """The fields of ``project.measured.Probe`` about clocks; what is None has its reason in ``unknown``."""

    throttled: bool | None = None
    throttle: str = ""
    clocks: str | None = None
    clock_ratio: float | None = None
    unknown: dict[str, str] = field(default_factory=dict[str, str])


def clocks_of(seen: Watched, begun_ns: int | None, ended_ns: int | None) -> Clocks:
    """Clocks while it was timed; looks at building and warming up are left out, when clocks are low anyway.

    Args:
        seen: every look of the timed child's life.
        begun_ns: when the first timed iteration began, on the monotonic clock; None: it never did.
        ended_ns: when the last one was over.
    """
    if not seen.looks:
        why = seen.unknown.get("looks", "the driver was not asked")
        return Clocks(unknown={"throttled": why, "clocks": why})
    if begun_ns is None or ended_ns is None:
        return Clocks(unknown=dict.fromkeys(("throttled", "clocks"), "no iteration was timed to its end"))
    looks = [one for one in seen.looks if begun_ns <= one.at_ns <= ended_ns]
    if not looks:
        why = f"timed for {units.duration((ended_ns - begun_ns) / 1e9)}, between two looks at the clocks"
        return Clocks(unknown={"throttled": why, "clocks": why})
    unknown: dict[str, str] = {}
    throttled, throttle = _throttled(looks)
    if throttled is None:
        unknown["throttled"] = seen.unknown.get("reasons", "the driver does not say")
    text = _words(looks)
    if not text:
        unknown["clocks"] = seen.unknown.get("sm_mhz", "the driver does not say")
    ratio = _ratio([one.sm_mhz for one in looks])
    return Clocks(throttled, throttle, text or None, ratio, unknown)


def _throttled(looks: Sequence[Look]) -> tuple[bool | None, str]:
    told = [one.reasons for one in looks if one.reasons is not None]
    if not told:
        return None, ""
    found: list[str] = []
    for bit, name in HOLDS_BACK.items():
        times = sum(bool(bits & bit) for bits in told)
        if times and times >= THROTTLED_SHARE * len(told):
            found.append(f"{name} in {times} of {len(told)} looks")
    return bool(found), ", ".join(found)


def _words(looks: Sequence[Look]) -> str:
    """``SM 1,980 to 1,755 MHz, memory 2,619 MHz, 61 to 74 °C, 410 to 690 W``, without what is not known."""
    parts = [
        _span([one.sm_mhz for one in looks], "SM {} MHz"),
        _span([one.memory_mhz for one in looks], "memory {} MHz"),
        _span([one.temperature_c for one in looks], "{} °C"),
        _span([one.power_w for one in looks], "{} W"),
    ]
    return ", ".join(filter(None, parts))


def _span(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    first, last = (f"{round(value):,}" for value in _ends(known))
    return form.format(first if first == last else f"{first} to {last}")


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Medians of the first and the last third, of few looks the first and the last."""
    third = max(1, len(values) // 3)
    return median(values[:third]), median(values[-third:])


def _ratio(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value]
    if len(known) < LEAST_LOOKS:
        return None
    first, last = _ends(known)
    return round(last / first - 1, 6)


def own_process(seen: Watched, pid: int | None, least_bytes: int | None) -> Reading:
    """The driver's row of the measuring process, at its largest, or why there is none that can be believed.

    Args:
        seen: every look.
        pid: of the child, as it is counted here.
        least_bytes: what its allocator held: a row below that is not its row, or not its size.
    """

    def unknown(why: str) -> Reading:
        return Reading(None, "", OWN, "", why)

    if not seen.looks:
        return unknown(seen.unknown.get("looks", "the driver was not asked"))
    listed = [one.processes for one in seen.looks if one.processes]
    if not listed:
        return unknown(seen.unknown.get("processes", "the driver lists no process on this device"))
    if any(one.strangers for one in seen.looks):
        return unknown(
            "pid namespace: the driver lists pids that do not exist here, so none can be told apart"
        )
    own = [rows[pid] for rows in listed if pid is not None and pid in rows]
    if not own:
        return unknown(f"the driver lists other processes, but not pid {pid}")
    told = [size for size in own if size is not None]
    if not told:
        return unknown("the driver lists the process without a size")
    if max(told) < (least_bytes or 1):
        return unknown(
            f"the driver's row says {max(told):,} B, less than the {least_bytes or 1:,} B that its allocator held"
        )
    return Reading(max(told), "NVML, row of the pid", OWN, "")


def others_moved(seen: Watched, pid: int | None, enough: Callable[[int, int], bool]) -> bool:
    """Whether what the driver lists for other processes changed while it was looked at.

    Args:
        seen: every look.
        pid: of the child, whose row does not count.
        enough: whether (least, most) differ by so much that it matters.
    """
    held = [
        sum(size for other, size in one.processes.items() if other != pid and size is not None)
        for one in seen.looks
        if one.processes is not None and pid in one.processes and not one.strangers
    ]
    return bool(held) and enough(min(held), max(held))
