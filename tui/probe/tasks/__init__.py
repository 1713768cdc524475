"""What one child can be asked to do: one module a task, each with ``run(plan, report)``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .. import offload, ranks_group
from ..protocol import TASKS

if TYPE_CHECKING:
    from ..protocol import Plan
    from ..reporter import Reporter


def run(plan: Plan, report: Reporter) -> None:
    """Run the plan's task to its end."""
    if plan.task not in TASKS:
        raise ValueError("unknown task %r" % plan.task)
    try:
        importlib.import_module("." + plan.task, __name__).run(plan, report)
        ranks_group.close()
    finally:
        offload.close()
