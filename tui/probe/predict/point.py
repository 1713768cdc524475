"""One prediction: the workload at one batch, two complete iterations and a validation batch, without values.

The phases, rows and the timeline are those of a traced run (``tasks/traced.py``), made by the same code.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import logging
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

import torch

from .. import peaks, tracing
from ..allocator import CachingAllocator
from ..labels import Labelled
from ..session import Session
from ..tracing import Trace
from . import compatible, cuda_calls, refuse
from .device import FakeDevice
from .distributed import Group
from .fake import FakeMode, convertible
from .items import Items
from .placing import Placing
from .recorder import Recorder
from .simulate import Event, Exhausted, Simulated, by_name, simulate

if TYPE_CHECKING:
    from ..protocol import Plan
    from ..reporter import Reporter
    from .semantics import Semantics


class Point:
    """A traced point.  ``labelled`` has the storages, ``names`` the phase of each of its intervals, or None."""

    def __init__(self, labelled: Labelled, session: Session, recorder: Recorder, items: Items) -> None:
        self.labelled = labelled
        self.names = [peaks.phase_name(one) for one in labelled.intervals]
        self.intervals = [(one.first, one.last) for one in labelled.intervals]
        self.scratch = {index for index, row in enumerate(labelled.rows) if row == "operator_scratch"}
        """Numbers of the storages that kernels take for themselves."""
        self.operators = recorder.operators
        self.answered = items.table()
        self.receiving = sum(one.numel() for one in session.model.parameters() if one.grad is not None)
        self.seconds = 0.0

    @property
    def events(self) -> List[Event]:
        """Births and deaths for ``simulate``."""
        return [(index, change) for _, index, change in self.labelled.record.events]

    def simulate(self, allocator: CachingAllocator) -> Simulated:
        """What the caching allocator would do."""
        return simulate(self.events, self.intervals, allocator)


def trace(plan: Plan, report: Reporter, semantics: Semantics) -> Point:
    """Trace the workload of ``plan``.

    Raises:
        TaskError: the workload is at fault, or it cannot be predicted; see ``refuse``.
    """
    begun = time.monotonic()
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # ``refuse`` says it
    traced = _Tracing(plan, report, semantics)
    try:
        session = traced.run()
    except Exception as error:
        failed_op, failed_in = traced.recorder.failed_op, traced.recorder.failed_in
        refused = refuse.refusal(error, failed_op, failed_in, refuse.roots(plan))
        refused = refused or refuse.after_answers(error, traced.items.table(), refuse.roots(plan))
        if refused is None:
            raise
        raise refused from error
    if traced.items.table():
        semantics.assumptions.approximate(
            "values that the program asked for were answered: the figures are of the way it then takes"
        )
    point = Point(traced.labelled(), session, traced.recorder, traced.items)
    point.seconds = time.monotonic() - begun
    return point


class _Tracing:
    def __init__(self, plan: Plan, report: Reporter, semantics: Semantics) -> None:
        self.plan = _settled(plan, semantics)
        self.report = report
        self.items = Items()
        self._mode = FakeMode()
        self._kind = semantics.kind
        self._target = semantics.target
        self.recorder = Recorder(self._mode, semantics)
        self._placing = Placing(self.recorder)
        self._trace = Trace(self.recorder.clock, self.recorder.address)
        self._trace.tracker = self.recorder
        placement = (plan.extra.get("predict") or {}).get("placement") or {}
        self._group = Group(placement, self.recorder, semantics.assumptions, to_device=self._kind == "cuda")

    def run(self) -> Session:
        """The session after its iterations."""
        with contextlib.ExitStack() as modes:
            modes.callback(gc.unfreeze)
            gc.freeze()  # what torch has made by now is looked at by no collection between iterations
            modes.enter_context(self._mode)
            modes.enter_context(self.items)
            modes.enter_context(self.recorder)
            modes.enter_context(convertible())
            modes.enter_context(compatible.patched(self.recorder, self._kind))
            self.recorder.observe_in_place()
            modes.enter_context(self._group)
            if self._kind == "cuda":
                modes.enter_context(cuda_calls.answered(self.recorder, self._target))
                modes.enter_context(self._placing)
            session = self._built()
            modes.enter_context(self._group.watching())
            self._iterate(session)
        return session

    def labelled(self) -> Labelled:
        """What ``run`` recorded."""
        run = self._trace
        run.marks.append((self.recorder.clock(), "end", None, None))
        found = Labelled(self.recorder.record(), run.marks, run.registered, run.births, peaks.STEADY)
        self._group.divide(found)
        return found

    def _built(self) -> Session:
        run = self._trace
        run.mark("load")
        device = FakeDevice(self._mode, self.items, self.recorder, self._kind, self._group, self._placing)
        session = run.session = Session(self.plan, self.report, run.mark, device)
        compatible.scaler(session.setting.scaler)
        compatible.after_build()
        refuse.built(session)
        self.recorder.know(session.model)
        run.register_all()
        return session

    def _iterate(self, session: Session) -> None:
        """Two complete iterations, then one validation batch."""
        run, report = self._trace, self.report
        for index in (peaks.FIRST, peaks.STEADY):
            tracing.begin(run, index)
            tracing.iterate(session, report, run, index, "first." if index == peaks.FIRST else "")
        tracing.validate(session, report, run)


def _settled(plan: Plan, semantics: Semantics) -> Plan:
    """A copy of the plan that the fake device can take."""
    made = copy.deepcopy(plan)
    if made.precision == "tf32" and semantics.kind == "cuda":
        semantics.assumptions.note("tf32", "as fp32", "it changes how products are computed, and no tensor")
        made.precision = "fp32"
    return made


def table(point: Point, simulated: Simulated) -> Dict[str, Any]:
    """``phases`` and what else the trace and the simulation show, as ``ResultReady("predicted")`` has them."""
    phases = _phases(point)
    levels = by_name(point.names[: len(simulated.levels)], simulated.levels)
    for name, phase in phases.items():
        one = levels.get(name)
        phase["allocated_bytes"] = one.allocated if one else None
        phase["reserved_bytes"] = one.reserved if one else None
        phase["end_allocated_bytes"] = one.end_allocated if one else None
        phase["end_reserved_bytes"] = one.end_reserved if one else None
    return {
        "phases": phases,
        "worst_phase": _worst(phases),
        "out_of_memory": None if simulated.exhausted is None else _exhausted(point, simulated.exhausted),
        "items_answered": point.answered,
        "gradient_receiving": point.receiving,
        "operators": point.operators,
        "events": len(point.labelled.record.events),
        "trace_s": point.seconds,
        "torch": torch.__version__,
    }


def _phases(point: Point) -> Dict[str, Dict[str, Any]]:
    phases: Dict[str, Dict[str, Any]] = {}
    levels = point.labelled.record.levels()
    for name, interval in zip(point.names, point.labelled.intervals):
        if name is None:
            continue
        value, rows, index = point.labelled.peak(interval)
        if name not in phases or value > phases[name]["requested_bytes"]:
            phases[name] = peaks.phase(point.labelled, interval, value, rows, index)
        phases[name]["end_bytes"] = levels[interval.last - 1] if interval.last else 0
    return phases


def _worst(phases: Dict[str, Dict[str, Any]]) -> Optional[str]:
    if not phases:
        return None
    return max(
        phases, key=lambda name: (phases[name]["allocated_bytes"] or 0, phases[name]["requested_bytes"])
    )


def _exhausted(point: Point, found: Exhausted) -> Dict[str, Any]:
    error, interval = found.error, point.labelled.intervals[found.interval]
    return {
        "phase": point.names[found.interval] or interval.phase,
        "asked_bytes": error.asked,
        "allocated_bytes": error.allocated,
        "reserved_bytes": error.reserved,
        "largest_free_block_bytes": error.largest_free_block,
        "capacity_bytes": error.capacity,
    }
