"""Memory of full iterations: the allocator's record of untracked ones, labelled from a tracked one.

Iteration 0 (untracked) creates the optimizer state, iteration 1 is tracked for its labels, iteration 2
(untracked) is the steady one that is reported, then one validation batch.  No times are reported from here.
A loss that is not finite changes no memory, so nothing is said of it here.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING

from .. import compiling, exhausted, peaks, ranks_freed, timeline, tracing, unsharded
from .. import device as devices
from ..device import exhaustion
from ..labels import Labelled
from ..protocol import EnvironmentSeen, IterationDone, Progress, ResultReady
from ..session import Session
from ..tracing import Trace
from ..tracker import Tracker

if TYPE_CHECKING:
    from ..protocol import Plan
    from ..reporter import Reporter

RECORDER_SLACK = 512 * 2**20
"""Bytes that recording itself may take beyond the limit, which the untraced run keeps to exactly."""


def run(plan: Plan, report: Reporter) -> None:
    """See the module."""
    trace = Trace()
    device = devices.open_device(plan.device)
    watch = exhaustion.watch(device, recorded=True)
    if plan.limit_bytes is not None:
        slack = RECORDER_SLACK if device.kind == "cpu" else 0  # the history of a GPU is kept on the host
        device.limit(plan.limit_bytes, slack, plan.extra.get("free_bytes"))
        trace.limit_bytes = plan.limit_bytes + slack
    _, caught = exhausted.attempt(
        partial(_record, plan, report, trace),
        watch,
        plan,
        device,
        partial(exhausted.register_unfinished, trace),
    )
    if caught is not None:
        raise exhausted.conclude(caught, trace, device, plan)
    trace.marks.append((time.time_ns(), "end", None, None))
    assert trace.recorder is not None
    assert trace.session is not None
    record = trace.recorder.stop()
    device.lift_limit()
    labelled = Labelled(
        record,
        trace.marks,
        trace.registered,
        trace.births,
        peaks.TRACKED,
        trace.spans,
        device.workspaces(),
        trace.session.compiling is not None,
    )
    found = peaks.table(labelled, trace.session, trace.recorder, trace.marks)
    if plan.journal:
        found["unknown"].update(timeline.keep(labelled, peaks.STEADY, plan.journal))
    report(ResultReady("traced", found))


def _record(plan: Plan, report: Reporter, trace: Trace) -> None:
    trace.recorder = devices.open_device(plan.device).recorder()
    trace.recorder.start()
    trace.mark("load")
    with ranks_freed.here(plan):
        _train(plan, report, trace)


def _train(plan: Plan, report: Reporter, trace: Trace) -> None:
    session = trace.session = Session(plan, report, trace.mark)
    report(EnvironmentSeen(*session.device.facts()))
    trace.register_all()
    if session.offload.weights != "device":
        unsharded.watch(session.model, lambda whole: trace.register(whole, "unsharded_weights"))
    with session.group.watched(session.model, trace.register):
        _iterate(session, report, trace)


def _iterate(session: Session, report: Reporter, trace: Trace) -> None:
    for index in (peaks.FIRST, peaks.TRACKED, peaks.STEADY):
        tracing.begin(trace, index)
        # The model is known to the tracker from the start; only one iteration runs under it.
        # On a CPU the record itself says in which operator a block was made.
        timed = session.device.kind != "cpu"
        tracker = Tracker(session.model, timed) if index == peaks.TRACKED else None
        trace.tracker = tracker or trace.tracker
        written = compiling.as_written() if tracker else contextlib.nullcontext()
        with tracker or contextlib.nullcontext(), written:
            prefix = "first." if index == peaks.FIRST else ""
            loss = tracing.iterate(session, report, trace, index, prefix)
        report(IterationDone(index, "traced", None, loss, session.samples))
        report(Progress(index + 1, 4, "traced iterations"))
    tracing.validate(session, report, trace)
