"""The measuring child from its start to its last event.

Order matters: the lifeline and the journal come before torch, so that a slow or failing import is seen and an
orphan never lives; the user's code comes last.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import traceback
from typing import Tuple

from . import lifeline, ranks_here
from .faults import TaskError, describe
from .journal import JOURNAL_LOST, Journal
from .protocol import Finished, Plan, ProtocolError, Started
from .reporter import Reporter

OLDEST_TORCH = (2, 6)
"""Older ones lack hooks and statistics that are read here, and are refused with a sentence."""


def main(plan_path: str) -> int:
    """Run the plan; returns the process's exit code (0 also for a failure that was told in the journal)."""
    faulthandler.enable()
    try:
        with open(plan_path, encoding="utf-8") as handle:
            plan = Plan.load(handle.read())
    except (OSError, ProtocolError) as error:
        sys.stderr.write("cannot read the plan: %s\n" % error)
        return 2
    if ranks_here.is_agent(plan):
        from . import ranks_agent

        return ranks_agent.run(plan, plan_path)
    plan = ranks_here.own(plan)
    lifeline.hold(plan.parent)
    # SIGTERM ends the process at once: the journal is appended line by line, nothing is lost by it.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    nice = _renice(plan.nice)
    journal = Journal(plan.journal)
    report = Reporter(journal)
    code = 0
    try:
        _run(plan, report, nice)
    except BaseException as error:  # whatever ends a task must be told, exits included
        _print_traceback(error)
        roots = [plan.folder, os.path.dirname(plan.workload.get("path", "") or "")]
        failed = describe(
            error,
            [os.path.realpath(root) for root in roots if root],
            report.phase,
            sys.executable,
            "runs/%s.log" % plan.id,
        )
        if ranks_here.asked(plan):
            failed, code = ranks_here.told_of_others(failed), ranks_here.FAILED
        report(report.located(failed))
    report.sync()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not a normal interpreter exit: user threads or a full device must not turn a finished task into a hang.
    os._exit(JOURNAL_LOST if journal.lost else code)


def _print_traceback(error: BaseException) -> None:
    try:
        traceback.print_exception(type(error), error, error.__traceback__)
    except BaseException as second:  # an error whose own text cannot be made must still be told
        sys.stderr.write("a traceback cannot be printed: %s\n" % type(second).__name__)


def _run(plan: Plan, report: Reporter, nice: int) -> None:
    torch_version = _import_torch()
    import torch

    report(
        Started(
            plan.task,
            os.getpid(),
            os.getsid(0),
            sys.version.split()[0],
            torch_version,
            nice,
            torch.get_num_threads(),
        )
    )
    if _numbers(torch_version) < OLDEST_TORCH:
        raise TaskError(
            "environment",
            "%s has torch %s; peakmark needs %d.%d or newer" % (sys.executable, torch_version, *OLDEST_TORCH),
            hint="upgrade torch there (nothing was installed or changed)",
        )
    from . import tasks

    tasks.run(plan, report)
    report(Finished())


def _import_torch() -> str:
    try:
        import torch
    except ImportError as error:
        raise TaskError(
            "environment",
            "%s cannot import torch: %s" % (sys.executable, error),
            hint="install torch there, or name another interpreter as environment.python in the project's "
            ".local.toml",
        ) from error
    return torch.__version__


def _numbers(version: str) -> Tuple[int, ...]:
    parts = version.split("+")[0].split(".")
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in parts[:2])


def _renice(wanted: int) -> int:
    try:
        return os.nice(max(0, wanted - os.nice(0)))
    except OSError:
        return os.nice(0)
