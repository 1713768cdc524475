"""What one child can be asked to do: one module a task, each with ``run(plan, report)``."""

import importlib

from ..protocol import TASKS


def run(plan, report):
    """Run the plan's task to its end."""
    if plan.task not in TASKS:
        raise ValueError("unknown task %r" % plan.task)
    importlib.import_module("." + plan.task, __name__).run(plan, report)
