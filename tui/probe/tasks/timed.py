"""Times of full iterations, without any tracing, and what the process and the device show meanwhile.

The first iteration is apart; the first warm-up iteration is the one in which readings are taken at every phase;
the timed ones do nothing but iterate, with one event an iteration and one synchronisation at the end.
"""

import time

from ..finite import check_loss
from ..protocol import EnvironmentSeen, IterationDone, Progress, ResultReady
from ..session import Session

EVENTS_PER_S = 8
"""Iterations that are told to the journal while they run, at most; all of them are in the result."""


class Clocked:
    """Runs iterations under a stopwatch, with the making of batches left out."""

    def __init__(self, session):
        self.session = session
        self.watch = session.device.stopwatch()
        self.ends = []
        """Tensor-allocated bytes after forward, backward and step of the iteration now running."""

    def enter(self, phase, micro):
        """Phase callback of timed iterations: one cheap reading at each edge."""
        self.session.report.note(phase)
        if phase != "forward":
            self.ends.append(self.session.device.allocated())

    def _paused(self):
        batches = self.session.host_batches()
        while True:
            self.watch.pause()
            batch = next(batches, None)
            self.watch.resume()
            if batch is None:
                return
            yield batch
            del batch

    def iterate(self):
        """One iteration; returns (loss tensor, [after forward, after backward, after step])."""
        self.ends = []
        ahead = list(self.session.host_batches()) if self.session.device.prefetch else None
        self.watch.begin()
        loss = self.session.iterate(self._paused() if ahead is None else iter(ahead))
        self.watch.end()
        self.ends.append(self.session.device.allocated())
        return loss, self.ends[-3:]


def run(plan, report):
    """See the module."""
    from .. import device as devices

    device = devices.open_device(plan.device)
    if plan.limit_bytes is not None:
        device.limit(plan.limit_bytes)
    device.reset_peaks()
    session = Session(plan, report)
    report(EnvironmentSeen(*session.device.facts()))
    report.enter("first.forward", 0)
    clocked = Clocked(session)
    first_ms, loss = _first(clocked, report)
    check_loss(loss, session, 0)
    session.device.settle(session.known_bytes())
    warm = _warm_up(clocked, report, max(2, plan.warmup))
    for name, reading in _worst(warm).items():
        report(reading)
        del name
    report.enter("forward", None)
    table = _timed(clocked, report, plan.iterations, max(2, plan.warmup) + 1)
    for one in session.device.readings("steady"):
        report(one)
    table.update(first_ms=first_ms, warmup=max(2, plan.warmup), loss_first=loss,
                 allocated_source=session.device.allocated_source)
    losses = [float(one) for one in table.pop("loss_tensors") if one is not None]
    table["losses"] = losses
    report(ResultReady("timed", table))
    for place, value in enumerate(losses):
        check_loss(value, session, place + max(2, plan.warmup) + 1)


def _first(clocked, report):
    session = clocked.session
    session.observe(lambda phase, micro: report.enter("first." + phase, 0, micro))
    loss, _ = clocked.iterate()
    value = None if loss is None else float(loss)
    session.device.sync()
    ms = clocked.watch.finish()[0]
    report(IterationDone(0, "first", ms, value, session.micro * session.accumulate, tokens=session.tokens))
    return ms, value


def _warm_up(clocked, report, count):
    """The warm-up iterations; readings by phase from the first of them."""
    session, readings, open_phase = clocked.session, [], []

    def enter(phase, micro):
        if open_phase:
            readings.extend(session.device.readings(open_phase.pop()))
        report.enter(phase, 1, micro)
        session.device.reset_peaks()
        open_phase.append(phase)

    for index in range(1, count + 1):
        session.observe(enter if index == 1 else clocked.enter)
        if index == 1:
            with session.device.sample_operators():
                loss, ends = clocked.iterate()
                session.device.sync()
                readings.extend(session.device.readings(open_phase.pop()))
        else:
            report.enter("warmup", index)
            loss, ends = clocked.iterate()
        value = float(loss) if loss is not None else None
        report(IterationDone(index, "warmup", clocked.watch.finish()[0], value,
                             session.micro * session.accumulate, allocated=_whole(ends),
                             allocated_source=session.device.allocated_source, tokens=session.tokens))
    session.device.reset_peaks()
    session.observe(clocked.enter)
    return readings


def _worst(readings):
    """The largest of each reading name and phase (micro-batches repeat phases)."""
    worst = {}
    for one in readings:
        key = (one.name, one.phase)
        if key not in worst or (one.bytes or 0) > (worst[key].bytes or 0):
            worst[key] = one
    return worst


def _whole(ends):
    return [one for one in ends] if len(ends) == 3 and None not in ends else None


def _timed(clocked, report, count, offset):
    session = clocked.session
    samples = session.micro * session.accumulate
    step_ms, losses, trace, tokens, told, last = [], [], [], None, 0, 0.0
    for index in range(count):
        loss, ends = clocked.iterate()
        losses.append(loss)
        trace.append(_whole(ends))
        tokens = session.tokens if session.tokens is None else (tokens or 0) + session.tokens
        step_ms += clocked.watch.finished()
        now = time.monotonic()
        if now - last >= 1 / EVENTS_PER_S and len(step_ms) > told:
            last, told = now, len(step_ms)
            report(IterationDone(offset + told - 1, "timed", step_ms[-1], None, samples,
                                 allocated=trace[told - 1], allocated_source=session.device.allocated_source))
            report(Progress(told, count, "timed iterations"))
        del index
    step_ms += clocked.watch.finish()
    report(Progress(count, count, "timed iterations"))
    return {
        "step_ms": step_ms,
        "loss_tensors": losses,
        "samples_per_iteration": samples,
        "tokens_per_iteration": None if tokens is None else tokens / count,
        "allocated_trace": [one for ends in trace if ends for one in ends],
    }
