"""What ZeRO stages 1 and 2 divide over the ranks, divided in the record of one rank that was traced whole.

Stage 1 divides the optimizer's state and the lists that its step makes, stage 2 the gradients too (Rajbhandari et
al. 2020, arXiv:1910.02054, section 5).  Every such block counts ``ceil(bytes / ranks)``: the flattened partitions
differ from that by less than one element a tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict

if TYPE_CHECKING:
    from ..labels import Labelled
    from .semantics import Assumptions

DIVIDED = {
    "zero1": ("optimizer_state",),
    "zero2": ("optimizer_state", "gradients"),
}
"""Rows by strategy."""


def say(strategy: str, ranks: int, options: Dict[str, Any], assumptions: Assumptions) -> None:
    """Say what the figures of ``strategy`` stand on."""
    if strategy not in DIVIDED:
        return
    assumptions.note(
        "sharding",
        "%s and what its step makes, 1/%d of each block"
        % (" and ".join(one.replace("_", " ") for one in DIVIDED[strategy]), ranks),
        "%s, by formula on the trace of one whole rank" % strategy,
    )
    if strategy == "zero1":
        assumptions.approximate(
            "ZeRO-1: every block of state divides evenly; where whole tensors are dealt to ranks, as "
            "ZeroRedundancyOptimizer does, the fullest rank holds more"
        )
    if strategy == "zero2":
        assumptions.approximate(
            "ZeRO-2: a gradient counts as divided from its birth on; it is whole until its bucket is reduced"
        )
        assumptions.not_covered("the bucket of elements that DeepSpeed reduces at once (reduce_bucket_size)")


def divide(labelled: Labelled, strategy: str, ranks: int) -> None:
    """Give the divided blocks of ``labelled.record`` the bytes that one rank holds of them."""
    rows = DIVIDED.get(strategy)
    if rows is None or ranks == 1:
        return
    record = labelled.record
    steps = [one for one in labelled.intervals if one.phase == "step"]
    stepping = {
        record.events[place][1]
        for one in steps
        for place in range(one.first, one.last)
        if record.events[place][2] > 0
    }
    for index, one in enumerate(record.allocations):
        row = labelled.rows[index]
        if row in rows or (row == "step_temporaries" and index in stepping):
            one.nbytes = -(-one.nbytes // ranks)
    record.events = [
        (time_ns, index, record.allocations[index].nbytes * (1 if change > 0 else -1))
        for time_ns, index, change in record.events
    ]
