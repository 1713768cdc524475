"""Times of full iterations, without any tracing, and what the process and the device show meanwhile.

The first iteration is apart; the first warm-up iteration is the one in which readings are taken at every phase;
the timed ones do nothing but iterate, with one event an iteration and one synchronisation at the end.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ..compiling import AT_EDGES, first_name
from ..device import exhaustion
from ..exhausted import attempt, failure
from ..faults import is_out_of_memory
from ..finite import FirstBad
from ..observed import Observed
from ..others import OthersShare
from ..protocol import EnvironmentSeen, IterationDone, Progress, ResultReady
from ..readings import OUTER, PhaseReadings, worst
from ..session import Session

if TYPE_CHECKING:
    import torch

    from ..device.base import Device
    from ..protocol import Plan
    from ..reporter import Reporter

EVENTS_PER_S = 8
"""Iterations that are told to the journal while they run, at most; all of them are in the result."""


class Clocked:
    """Runs iterations under a stopwatch, with the making of batches left out."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.watch = session.device.stopwatch()
        self.batch_ms = []
        """Time spent making the batches of each iteration."""
        self.ends = []
        """Tensor-allocated bytes after forward, backward and step of the iteration now running."""

    def enter(self, phase: str, micro: Optional[int]) -> None:
        """Phase callback of timed iterations: one cheap reading at each edge."""
        self.session.report.note(phase)
        if phase != "forward":
            self.ends.append(self.session.device.allocated())

    def _made(self, batches: Iterator[Any]) -> Any:
        begun = time.perf_counter_ns()
        batch = next(batches, None)
        self.batch_ms[-1] += (time.perf_counter_ns() - begun) / 1e6
        return batch

    def _paused(self) -> Iterator[Any]:
        batches = self.session.host_batches()
        while True:
            self.watch.pause()
            batch = self._made(batches)
            self.watch.resume()
            if batch is None:
                return
            yield batch
            del batch

    def iterate(self) -> Tuple[Optional[torch.Tensor], List[Optional[int]]]:
        """One iteration; returns (loss tensor, [after forward, after backward, after step])."""
        self.ends = []
        self.batch_ms.append(0.0)
        ahead = None
        if self.session.device.prefetch:
            made = self.session.host_batches()
            ahead = list(iter(lambda: self._made(made), None))
        self.watch.begin()
        loss = self.session.iterate(self._paused() if ahead is None else iter(ahead))
        self.watch.end()
        self.ends.append(self.session.device.allocated())
        return loss, self.ends[-3:]


def run(plan: Plan, report: Reporter) -> None:
    """See the module."""
    from .. import device as devices

    device = devices.open_device(plan.device)
    watch = exhaustion.watch(device)
    if plan.limit_bytes is not None:
        device.limit(plan.limit_bytes, 0, plan.extra.get("free_bytes"))
    _, caught = attempt(partial(_measure, plan, report, device), watch, plan, device)
    if caught is not None:
        raise failure(caught, plan)


def _measure(plan: Plan, report: Reporter, device: Device) -> None:
    outer, inner = PhaseReadings(device, report, OUTER), PhaseReadings(device, report)
    session = Session(plan, report, lambda phase, micro: outer.begin(phase))
    outer.end()
    report(EnvironmentSeen(*device.facts()))
    clocked = Clocked(session)
    compiler = session.compiling
    if compiler is not None:
        device.heap_sampled = AT_EDGES
    seen = Observed(session.model, session.micro, None if compiler is None else compiler.register)
    session.placed = seen.placed
    losses = FirstBad(session)
    first_ms, loss = _first(clocked, report, outer, losses)
    observed, unseen = seen.stop()
    session.placed = lambda batch: None
    losses.check(loss, 0)
    device.settle(session.known_bytes())
    warmup = max(2, plan.warmup)
    _warm_up(clocked, report, warmup, inner, losses)
    session.run.check = None
    if compiler is not None:
        compiler.settle()
    device.reset_peaks()
    report.enter("forward")
    # A loss that is not finite changes no memory: what that is is still read, but there is nothing to time.
    table = None if losses.error else _timed(clocked, report, plan.iterations, warmup + 1)
    if compiler is not None:
        table = None if table is None else {**table, "compile": compiler.table()}
        compiler.enter = lambda phase, micro: outer.begin(phase)
    steady = [one for one in device.readings("steady") if one.name in OUTER] + device.high_water("steady")
    steady += session.offload.readings(session, "steady")
    exhausted = _validate(session, plan, outer)
    device.lift_limit()
    for one in worst(outer.taken + inner.taken + steady).values():
        report(one)
    if table is not None:
        last = [None if one is None else float(one) for one in table["losses"]]
        table.update(
            first_ms=first_ms,
            warmup=warmup,
            loss_first=loss,
            losses=last,
            allocated_source=device.allocated_source,
            batch_bytes=seen.batch_bytes or None,
            observed_batch=observed,
            observed_unknown=unseen,
            validation_batch=session.micro,
        )
        report(ResultReady("timed", table))
        for place, value in enumerate(last):
            losses.check(value, place + warmup + 1)
    if exhausted is not None:
        raise exhausted  # what was trained until then is a result all the same
    if losses.error is not None:
        raise losses.error


def _validate(session: Session, plan: Plan, readings: PhaseReadings) -> Optional[BaseException]:
    """Validation batches, as many and as large as the plan says; the error when memory did not suffice for them."""
    readings.begin("validate")
    session.plan.quality["batches"] = plan.extra.get("validation_batches") or 1
    session.micro = plan.extra.get("validation_micro") or session.micro
    try:
        session.validate()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return error.with_traceback(None)  # its frames would keep the tensors
    readings.end()
    return None


def _first(
    clocked: Clocked, report: Reporter, readings: PhaseReadings, losses: FirstBad
) -> Tuple[float, Optional[float]]:
    session = clocked.session
    session.observe(lambda phase, micro: readings.begin(first_name(phase), 0, micro))
    session.run.check = partial(losses.check_tensor, 0)
    loss, _ = clocked.iterate()
    value = None if loss is None else float(loss)
    session.device.sync()
    readings.end()
    ms = clocked.watch.finish()[0]
    report(IterationDone(0, "first", ms, value, session.samples, tokens=session.tokens))
    return ms, value


def _warm_up(
    clocked: Clocked, report: Reporter, count: int, readings: PhaseReadings, losses: FirstBad
) -> None:
    """The warm-up iterations; readings by phase from the first of them."""
    session = clocked.session
    for index in range(1, count + 1):
        session.run.check = partial(losses.check_tensor, index)
        if index == 1:
            session.observe(lambda phase, micro: readings.begin(phase, 1, micro))
            # Under a dispatch mode torch runs a compiled model as it is written.
            sampling = session.device.sample_operators() if session.compiling is None else nullcontext()
            with sampling:
                loss, ends = clocked.iterate()
                session.device.sync()
                readings.end()
            # Not before: what sampling loads at its first use is no tensor either.
            session.device.settle(session.known_bytes())
        else:
            session.observe(clocked.enter)
            report.enter("warmup", index)
            loss, ends = clocked.iterate()
        value = float(loss) if loss is not None else None
        report(
            IterationDone(
                index,
                "warmup",
                clocked.watch.finish()[0],
                value,
                session.samples,
                allocated=_whole(ends),
                allocated_source=session.device.allocated_source,
                tokens=session.tokens,
            )
        )


def _whole(ends: Sequence[Optional[int]]) -> Optional[List[int]]:
    known = [one for one in ends if one is not None]
    return known if len(known) == len(ends) == 3 else None


def _timed(clocked: Clocked, report: Reporter, count: int, offset: int) -> Dict[str, Any]:
    session = clocked.session
    samples = session.samples
    step_ms, losses, trace, tokens, done, told, last = [], [], [], [], [], 0, 0.0
    others = OthersShare()
    made, begun_ns = len(clocked.batch_ms), time.monotonic_ns()
    for index in range(count):
        skipped = session.run.skipped
        loss, ends = clocked.iterate()
        done.append(session.run.skipped == skipped)
        # Kept in the heap they would lie between the blocks of the next iteration, and the process would grow by them.
        losses.append(loss if loss is None or session.device.prefetch else float(loss))
        trace.append(_whole(ends))
        tokens.append(session.tokens)
        step_ms += clocked.watch.finished()
        now = time.monotonic()
        if now - last >= 1 / EVENTS_PER_S and len(step_ms) > told:
            last, told = now, len(step_ms)
            report(
                IterationDone(
                    offset + told - 1,
                    "timed",
                    step_ms[-1],
                    None,
                    samples,
                    allocated=trace[told - 1],
                    allocated_source=session.device.allocated_source,
                )
            )
            report(Progress(told, count, "timed iterations"))
        del index
    step_ms += clocked.watch.finish()
    report(Progress(count, count, "timed iterations"))
    others_ratio, own_ratio = others.ratios()
    return {
        "step_ms": step_ms,
        "loader_ms": clocked.batch_ms[made:],
        "completed": done,
        "timed_ns": [begun_ns, time.monotonic_ns()],
        "losses": losses,
        "others_cpu_ratio": others_ratio,
        "own_cpu_ratio": own_ratio,
        "samples_per_iteration": samples,
        "tokens": None if None in tokens else tokens,
        "tokens_per_iteration": None if None in tokens else sum(tokens) / count,
        "allocated_trace": [one for ends in trace if ends for one in ends],
    }
