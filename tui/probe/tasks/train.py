"""A short training under one precision setting: losses, first gradients, quality, times.

``plan.extra``: ``write_gradients`` (a path: this run is the reference) or ``compare_gradients`` (a path).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from .. import gradients
from ..protocol import EnvironmentSeen, IterationDone, Progress, ResultReady
from ..session import Session
from .timed import EVENTS_PER_S, Clocked

if TYPE_CHECKING:
    import torch

    from ..protocol import Plan
    from ..reporter import Reporter

SKIP = 3
"""Iterations that are not timed: the first makes the optimizer state, the next ones warm up."""


def run(plan: Plan, report: Reporter) -> None:
    """See the module."""
    session = Session(plan, report)
    report(EnvironmentSeen(*session.device.facts()))
    clocked = Clocked(session)
    first, losses, step_ms, told = {}, [], [], 0.0
    stop_watching = session.setting.watch(session.model)

    def enter_first(phase: str, micro: Optional[int]) -> None:
        clocked.enter(phase, micro)
        if phase == "step":
            first.update(_first_gradients(plan, session))

    samples = session.micro * session.accumulate
    for index in range(plan.iterations):
        session.observe(enter_first if index == 0 else clocked.enter)
        loss, ends = clocked.iterate()
        if index == 0:
            stop_watching()
            session.device.settle(session.known_bytes())
            report(Progress(0, plan.iterations, "steps"))
        losses.append(loss)
        step_ms += clocked.watch.finished()
        if time.monotonic() - told >= 1 / EVENTS_PER_S and step_ms:
            told = time.monotonic()
            place = len(step_ms) - 1
            value = (
                float(losses[place]) if not session.device.prefetch and losses[place] is not None else None
            )
            report(
                IterationDone(
                    place,
                    "timed" if place >= SKIP else "warmup",
                    step_ms[-1],
                    value,
                    samples,
                    allocated=[one for one in ends if one is not None] or None,
                    allocated_source=session.device.allocated_source,
                )
            )
            report(Progress(place + 1, plan.iterations, "steps"))
    step_ms += clocked.watch.finish()
    report.enter("validate")
    report(ResultReady("train", _table(plan, session, clocked, losses, step_ms, first)))


def _table(
    plan: Plan,
    session: Session,
    clocked: Clocked,
    losses: List[Optional[torch.Tensor]],
    step_ms: List[float],
    first: Dict[str, Any],
) -> Dict[str, Any]:
    """The ``train`` result; ``first`` compares the first gradients with the reference's."""
    return {
        "setting": plan.precision,
        "seed": plan.seed,
        "effective": session.setting.effective(),
        "emulated": session.setting.is_emulated(),
        "losses": [None if one is None else float(one) for one in losses],
        "validation_loss": session.validate(),
        "step_ms": step_ms[SKIP:],
        "batch_ms": clocked.batch_ms[SKIP:],
        "samples_per_iteration": session.micro * session.accumulate,
        "steps": session.run.steps,
        "skipped": session.run.skipped,
        "gradients": first,
    }


def _first_gradients(plan: Plan, session: Session) -> Dict[str, Any]:
    scale = session.setting.scaler.get_scale() if session.setting.scaler is not None else 1.0
    found = gradients.collect(session.model, scale)
    if plan.extra.get("write_gradients"):
        gradients.write(found, plan.extra["write_gradients"])
        return {}
    if plan.extra.get("compare_gradients"):
        return gradients.compare(found, gradients.read(plan.extra["compare_gradients"]))
    return {}
