"""The other half of Verify: a fresh process loads the checkpoint and takes the next step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checkpoint
from ..protocol import CheckDone, ResultReady
from ..session import Session

if TYPE_CHECKING:
    from ..protocol import Plan
    from ..reporter import Reporter


def run(plan: Plan, report: Reporter) -> None:
    """See the module."""
    session = Session(plan, report)
    report.enter("restore")
    path = plan.extra["checkpoint"]
    checkpoint.load(session, path)
    report(
        CheckDone(
            "loaded",
            "checkpoint",
            "loaded, weights_only=True",
            "pass",
            "sha256 %s, every entry used once" % checkpoint.sha256(path)[:4],
        )
    )
    loss = session.iterate_for_loss()
    report(
        ResultReady(
            "fingerprint", {"losses": [loss.hex()], "parameters": checkpoint.parameter_digest(session)}
        )
    )
