"""Memory of full iterations: the allocator's record of untracked ones, labelled from a tracked one.

Iteration 0 (untracked) creates the optimizer state, iteration 1 is tracked for its labels, iteration 2
(untracked) is the steady one that is reported, then one validation batch.  No times are reported from here.
"""

import contextlib
import time

from .. import optimizers
from ..faults import TaskError, asked_bytes, is_out_of_memory, one_line
from ..iteration import tensors_of
from ..labels import Labelled
from ..protocol import EnvironmentSeen, IterationDone, Progress, ResultReady
from ..session import Session
from ..tracker import Tracker, storages

FIRST, TRACKED, STEADY = 0, 1, 2
RECORDER_SLACK = 512 * 2**20
"""Bytes that recording itself may take beyond the limit, which the untraced run keeps to exactly."""


class Trace:
    """The marks and registrations of one traced run."""

    def __init__(self):
        self.marks = []
        self.registered = []
        self.iteration = None
        self.tracker = None

    def mark(self, phase, micro=None):
        """A phase of the current iteration begins."""
        self.marks.append((time.time_ns(), phase, self.iteration, micro))
        if self.tracker is not None:
            self.tracker.phase = phase

    def register(self, tensors, row, name=""):
        """These tensors' storages hold ``row`` now."""
        now = time.time_ns()
        self.registered += [(now, address, row, name) for address, _ in storages(tensors)]

    def register_all(self, session):
        """Weights, buffers, gradients and optimizer state as they are now."""
        state = optimizers.state_tensors(session.optimizer)
        self.register([tensor for _, _, tensor in state], "optimizer_state")
        self.register([one.grad for one in session.model.parameters() if one.grad is not None], "gradients")
        self.register(session.model.buffers(), "buffers")
        self.register(session.model.parameters(), "weights")


def run(plan, report):
    """See the module."""
    trace = Trace()
    session, recorder = None, None
    try:
        session, recorder = _record(plan, report, trace)
    except BaseException as error:
        if not is_out_of_memory(error) or not trace.marks:
            raise
        raise TaskError("out-of-memory", one_line(error), **_out_of_memory(error, trace)) from error
    trace.marks.append((time.time_ns(), "end", None, None))
    record = recorder.stop()
    session.device.lift_limit()
    births = trace.tracker.births
    labelled = Labelled(record, trace.marks, trace.registered, births, TRACKED)
    report(ResultReady("traced", _table(labelled, session, recorder)))


def _record(plan, report, trace):
    from .. import device as devices

    device = devices.open_device(plan.device)
    if plan.limit_bytes is not None:
        device.limit(plan.limit_bytes, RECORDER_SLACK)
    recorder = device.recorder()
    recorder.start()
    session = Session(plan, report, trace.mark)
    report(EnvironmentSeen(*session.device.facts()))
    trace.register_all(session)
    for index in (FIRST, TRACKED, STEADY):
        trace.iteration = index
        # The model is known to the tracker from the start; only one iteration runs under it.
        tracker = Tracker(session.model) if index == TRACKED else None
        if tracker is not None:
            trace.tracker = tracker
        with tracker or contextlib.nullcontext():
            loss = _iterate(session, report, trace, index)
        report(IterationDone(index, "traced", None, float(loss), session.micro * session.accumulate))
        report(Progress(index + 1, 4, "traced iterations"))
        del loss
    trace.iteration = None
    trace.mark("validate")
    report.enter("validate")
    session.plan.quality["batches"] = 1
    session.validate()
    return session, recorder


def _iterate(session, report, trace, index):
    prefix = "first." if index == FIRST else ""

    def enter(phase, micro):
        report.enter(prefix + phase, index, micro)
        if phase == "step":
            trace.register(
                [one.grad for one in session.model.parameters() if one.grad is not None], "gradients"
            )
        trace.mark(phase, micro)

    def watched():
        for batch in session.host_batches():
            trace.register(tensors_of(batch), "input_batch")
            yield batch
            del batch

    session.observe(enter)
    loss = session.iterate(watched())
    session.device.sync()
    trace.register_all(session)
    trace.mark("idle")
    if loss is None:
        raise TaskError(
            "workload", "the iteration made no loss: its step(run) never called run.backward(loss)"
        )
    return loss


def _out_of_memory(error, trace):
    _, phase, iteration, micro = trace.marks[-1]
    return {"asked_bytes": asked_bytes(error), "iteration": iteration, "micro": micro, "phase": phase}


def _table(labelled, session, recorder):
    """The ``traced`` result: the worst instance of each phase, first and steady apart."""
    phases, best = {}, {}
    for interval in labelled.intervals:
        name = _phase_name(interval)
        if name is None:
            continue
        value, rows, index = labelled.peak(interval)
        if name not in best or value > best[name]:
            best[name] = value
            phases[name] = _phase(labelled, interval, value, rows, index)
    tracked = max(
        (labelled.peak(one)[0] for one in labelled.intervals if one.iteration == TRACKED), default=0
    )
    steady = max((labelled.peak(one)[0] for one in labelled.intervals if one.iteration == STEADY), default=0)
    outside = sum(one for one in _outside_bytes(labelled, session))
    return {
        "phases": phases,
        "tracking_bytes": tracked - steady,
        "outside_allocator_bytes": outside,
        "unknown_frees": labelled.record.unknown_frees,
        "events": len(labelled.record.events),
        "source": recorder.source,
        "known_bytes": _known(labelled),
        "gradient_receiving": sum(one.numel() for one in session.model.parameters() if one.grad is not None),
    }


def _phase_name(interval):
    if interval.phase in ("build", "optimizer", "validate") and interval.iteration is None:
        return interval.phase
    if interval.phase not in ("forward", "backward", "step"):
        return None
    if interval.iteration == FIRST:
        return "first." + interval.phase
    return interval.phase if interval.iteration == STEADY else None


def _phase(labelled, interval, value, rows, index):
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


def _outside_bytes(labelled, session):
    """Sizes of registered storages that torch's allocator did not make (numpy, mapped files)."""
    alive = dict(storages([*session.model.parameters(), *session.model.buffers()]))
    return [alive[address].untyped_storage().nbytes() for address in labelled.outside if address in alive]


def _known(labelled):
    """Requested bytes while nothing runs, after the steady iteration."""
    level = 0
    for interval in labelled.intervals:
        if interval.phase == "idle" and interval.iteration == STEADY:
            level = sum(change for _, _, change in labelled.record.events[: interval.first])
    return level
