"""The table of a traced run: every phase's peak with its rows, and what else the record shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from . import growth
from .compiling import UNSEEN
from .tracker import storages

if TYPE_CHECKING:
    from .device.base import Recorder
    from .labels import Interval, Labelled, Mark
    from .session import Session

FIRST, TRACKED, STEADY = 0, 1, 2
"""Iterations of a traced run."""


def table(labelled: Labelled, session: Session, recorder: Recorder, marks: List[Mark]) -> Dict[str, Any]:
    """The ``traced`` result: the worst instant of each phase, first and steady iterations apart."""
    phases: Dict[str, Dict[str, Any]] = {}
    by_iteration = {TRACKED: 0, STEADY: 0}
    levels, ends = labelled.record.levels(), {}
    for interval in labelled.intervals:
        name = phase_name(interval)
        value, rows, index = labelled.peak(interval)
        if interval.iteration in by_iteration:
            by_iteration[interval.iteration] = max(by_iteration[interval.iteration], value)
        if name is not None and (name not in phases or value > phases[name]["requested_bytes"]):
            phases[name] = phase(labelled, interval, value, rows, index)
        if name is not None:
            ends[name] = levels[interval.last - 1] if interval.last else 0
    for name, level in ends.items():
        phases[name]["end_bytes"] = level  # of the last micro-batch, whichever of them had the peak
    unknown = _add_outer(phases, labelled, recorder, marks)
    compiled = getattr(session, "compiling", None) is not None
    if compiled:
        unknown["unattributed"] = UNSEEN
        unknown["tracking_bytes"] = (
            "the tracked iteration ran the model as it is written, not as it is compiled"
        )
    return {
        "phases": phases,
        "tracking_bytes": None if compiled else by_iteration[TRACKED] - by_iteration[STEADY],
        "outside_allocator_bytes": sum(_outside_bytes(labelled, session)),
        "cycle_bytes": _freed_by_collecting(labelled),
        "workspace_blocks": _workspaces(labelled),
        "unknown_frees": labelled.record.unknown_frees,
        "events": len(labelled.record.events),
        **growth.found(labelled),
        "source": recorder.source,
        "gradient_receiving": sum(one.numel() for one in session.model.parameters() if one.grad is not None),
        "unknown": unknown,
    }


def _workspaces(labelled: Labelled) -> Dict[str, int]:
    """Blocks that libraries took and kept: {bytes of one: how many}."""
    found: Dict[str, int] = {}
    for one, row in zip(labelled.record.allocations, labelled.rows):
        if row == "library_workspaces":
            found[str(one.nbytes)] = found.get(str(one.nbytes), 0) + 1
    return found


def phase_name(interval: Interval) -> Optional[str]:
    """The phase of the protocol that an interval belongs to; None when it is not reported."""
    if interval.phase == "compile":
        return interval.phase
    if interval.phase in ("build", "optimizer", "validate") and interval.iteration is None:
        return interval.phase
    if interval.phase not in ("forward", "backward", "step"):
        return None
    if interval.iteration == FIRST:
        return "first." + interval.phase
    return interval.phase if interval.iteration == STEADY else None


def phase(
    labelled: Labelled, interval: Interval, value: int, rows: Dict[str, int], index: Optional[int]
) -> Dict[str, Any]:
    operator = module = ""
    if index is not None:
        label, one = labelled.labels[index], labelled.record.allocations[index]
        operator = one.op.replace("aten::", "") if one.op else ""
        module = label.module if label else ""
    return {
        "requested_bytes": value,
        "rows": {row: size for row, size in rows.items() if size},
        "operator": operator,
        "module": module,
        "micro_batch": interval.micro,
    }


def _add_outer(
    phases: Dict[str, Dict[str, Any]], labelled: Labelled, recorder: Recorder, marks: List[Mark]
) -> Dict[str, str]:
    """Put each phase's highest allocated and reserved bytes in; returns why when they are not known."""
    outer, why = recorder.outer_peaks(marks)
    highest: Dict[str, Tuple[Optional[int], Optional[int]]] = {}
    for interval, (allocated, reserved) in zip(labelled.intervals, outer):
        name = phase_name(interval)
        if name is not None:
            before = highest.get(name, (allocated, reserved))
            highest[name] = (_larger(before[0], allocated), _larger(before[1], reserved))
    for name, phase in phases.items():
        phase["allocated_bytes"], phase["reserved_bytes"] = highest.get(name, (None, None))
    return {"allocated_bytes": why, "reserved_bytes": why} if why else {}


def _larger(one: Optional[int], other: Optional[int]) -> Optional[int]:
    return None if one is None or other is None else max(one, other)


def _outside_bytes(labelled: Labelled, session: Session) -> List[int]:
    """Sizes of registered storages that torch's allocator did not make (numpy, mapped files)."""
    alive = dict(storages([*session.model.parameters(), *session.model.buffers()]))
    return [alive[address].untyped_storage().nbytes() for address in labelled.outside if address in alive]


def _freed_by_collecting(labelled: Labelled) -> int:
    """Bytes that only Python's collector freed, before the steady iteration: storages in reference cycles."""
    changes = (
        change
        for interval in labelled.intervals
        if interval.phase == "collect" and interval.iteration == STEADY
        for _, _, change in labelled.record.events[interval.first : interval.last]
    )
    return -sum(changes)
