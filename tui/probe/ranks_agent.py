"""The process that starts the ranks: torch's own launcher (``torchrun``), told by a list of arguments.

It is the child that the runner started, and holds to the runner as every child does; the ranks, which have sessions
of their own, hold to it and to the same pipe.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Dict

from . import lifeline
from .faults import one_line
from .journal import Journal
from .protocol import Failed, ResultReady
from .ranks_here import AGENT, asked

if TYPE_CHECKING:
    from .protocol import Plan

BOOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "boot.py")


def arguments(count: int, plan_path: str) -> "list[str]":
    """Of ``torch.distributed.run``: one machine, one try, a port that is free.

    >>> arguments(2, "p.json")[:4]
    ['--standalone', '--nproc-per-node=2', '--max-restarts=0', '--local-addr=127.0.0.1']
    """
    return [
        "--standalone",
        "--nproc-per-node=%d" % count,
        "--max-restarts=0",
        "--local-addr=127.0.0.1",
        BOOT,
        plan_path,
    ]


def run(plan: Plan, plan_path: str) -> int:
    """Start the ranks and wait for all of them; how each ended is added to the journal of rank 0.

    Returns:
        0 when every rank ended well, else 1.
    """
    lifeline.share(plan.parent)
    os.environ[AGENT] = str(os.getpid())
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ.setdefault(name, "lo")
    try:
        from torch.distributed import run as torchrun
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    except ImportError as error:
        said = "%s cannot start several ranks: %s" % (sys.executable, one_line(error))
        hint = "install a torch with torch.distributed there"
        Journal(plan.journal).add(Failed("environment", said, hint=hint))
        return 1
    codes: Dict[str, Any] = {}
    try:
        torchrun.main(arguments(int(asked(plan)["count"]), plan_path))
        return 0
    except ChildFailedError as error:
        codes = {str(rank): one.exitcode for rank, one in error.failures.items()}
        sys.stderr.write("ranks ended with %s\n" % codes)
        return 1
    finally:
        if codes:
            Journal(plan.journal).add(ResultReady("ranks", {"codes": codes}))
