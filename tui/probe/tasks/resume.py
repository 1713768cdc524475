"""A run that saves, is killed from outside, or goes on from a checkpoint: the pieces of a restore rehearsal.

``plan.extra``: ``load`` (a checkpoint to go on from, or None), ``save_after`` (iterations, or None),
``checkpoint`` (where to save), ``kill_in`` (the iteration that SIGKILL ends, or None);
``plan.iterations`` is the iteration to run up to.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any, Iterator

from .. import checkpoint
from ..iteration import tensors_of
from ..protocol import EnvironmentSeen, IterationDone, ResultReady
from ..session import Session

if TYPE_CHECKING:
    from ..protocol import Plan
    from ..reporter import Reporter


def run(plan: Plan, report: Reporter) -> None:
    """See the module."""
    begun = time.monotonic()
    session = Session(plan, report)
    report(EnvironmentSeen(*session.device.facts()))
    loaded_s = None
    if plan.extra.get("load"):
        report.enter("restore")
        session.device.reset_peaks()
        checkpoint.load(session, plan.extra["load"])
        loaded_s = time.monotonic() - begun
    samples, losses = [], []

    def watched() -> Iterator[Any]:
        for batch in session.host_batches():
            samples.append(checkpoint.tensor_digest(tensors_of(batch)))
            yield batch
            del batch

    kill_in = plan.extra.get("kill_in")
    first = session.index // session.accumulate
    for index in range(first, plan.iterations):
        if kill_in == index + 1:
            report.sync()
            os.kill(
                os.getpid(), signal.SIGKILL
            )  # no handler, no cleanup, no exit code of ours: as it happens
        loss = session.iterate_for_loss(watched())
        losses.append(loss.hex())
        report(IterationDone(index, "timed", None, loss, session.micro * session.accumulate))
        if plan.extra.get("save_after") == index + 1:
            _save(plan, report, session)
    for reading in session.device.readings("restore"):
        report(reading)
    report(
        ResultReady(
            "resume",
            {
                "first": first,
                "losses": losses,
                "samples": samples,
                "parameters": checkpoint.parameter_digest(session),
                "loaded_s": loaded_s,
                "seconds": time.monotonic() - begun,
            },
        )
    )


def _save(plan: Plan, report: Reporter, session: Session) -> None:
    report.enter("save")
    begun = time.monotonic()
    sizes, total, digest = checkpoint.save(session, plan.extra["checkpoint"])
    table = {
        "path": plan.extra["checkpoint"],
        "sha256": digest,
        "bytes": total,
        "parts": sizes,
        "seconds": time.monotonic() - begun,
    }
    report(ResultReady("checkpoint", table))
    report.enter("forward")
