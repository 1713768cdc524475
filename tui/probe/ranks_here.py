"""Which of several ranks this process is, and what of the plan is its own.

``Plan.extra["ranks"]`` is {"count", "strategy", "shard_each", "options", "devices" (uuid of each rank's GPU),
"timeout_s"}.  One plan is for all: the first process to read it starts the ranks (``ranks_agent``), each of which
reads it again.  No torch.
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import TYPE_CHECKING, Any, Dict

from .protocol import rank_journal

if TYPE_CHECKING:
    from .protocol import Failed, Plan

AGENT = "PEAKMARK_AGENT"
"""Environment variable of the ranks: process id of the agent that started them."""
TIMEOUT_S = 600
"""How long a rank waits for the others."""
FAILED = 1
"""Exit code of a rank that failed, so that the others are ended; it has told why in its journal."""
_GONE = re.compile(r"Connection (closed|reset) by peer|Broken pipe|ncclRemoteError|Socket closed")
_WAITED = re.compile(r"[Tt]imed out waiting|[Tt]imeout|Timed out after")
_TRANSPORT = re.compile(r"gloo|nccl|NCCL|recv operation|send operation|store|rank")


def asked(plan: Plan) -> Dict[str, Any]:
    """What the plan says of ranks; {}: there is one."""
    found = plan.extra.get("ranks") or {}
    return found if int(found.get("count") or 1) > 1 else {}


def is_agent(plan: Plan) -> bool:
    """Whether this process has to start the ranks, and is none of them."""
    return bool(asked(plan)) and AGENT not in os.environ


def rank(plan: Plan) -> int:
    """Which rank this is; 0 where there is one."""
    return int(os.environ.get("RANK", "0")) if asked(plan) else 0


def own(plan: Plan) -> Plan:
    """The plan of this rank: its journal, its parent, and its GPU, which is the only one that it sees."""
    told = asked(plan)
    if not told:
        return plan
    mine = rank(plan)
    devices = told.get("devices") or []
    device = plan.device
    if devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[mine]
        os.environ["LOCAL_RANK"] = "0"  # the number by which torch's device mesh takes it
        device = "cuda:%s" % devices[mine]
    parent = int(os.environ.get(AGENT) or 0)
    return dataclasses.replace(plan, journal=rank_journal(plan.journal, mine), parent=parent, device=device)


def told_of_others(failed: Failed) -> Failed:
    """``failed``, marked where all that it says is that another rank was gone or late."""
    if failed.kind == "out-of-memory":
        return failed
    if _GONE.search(failed.sentence):
        failed.details["secondary"] = "gone"
    elif _WAITED.search(failed.sentence) and _TRANSPORT.search(failed.sentence):
        failed.details["secondary"] = "late"
    return failed
