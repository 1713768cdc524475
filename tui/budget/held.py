"""What a model holds at any batch: weights, gradients, optimizer state and buffers, in bytes."""

from __future__ import annotations

from tui.budget.declared import Situation, declared
from tui.budget.params import formula
from tui.project.measured import Inventory, Probe
from tui.project.model import Spec

HELD = ("weights", "gradients", "optimizer_state", "buffers")


def held(spec: Spec, inventory: Inventory | None, probe: Probe) -> dict[str, int]:
    """Declared bytes of every such row that is known and not 0; they are there together in the first step.

    Without an inventory the parameters are those of the family's formula; of another source nothing is known.
    """
    at = Situation(probe.precision, probe.micro_batch, probe.accumulate, probe.length, probe.device)
    rows = declared(spec, inventory or _by_formula(spec), at)
    found = {key: rows[key].bytes for key in HELD}
    return {key: size for key, size in found.items() if size}


def beyond(spec: Spec, inventory: Inventory | None, probe: Probe) -> tuple[dict[str, int], int] | None:
    """What is held at any batch, and the cap that it reaches; None when a smaller batch may fit.

    The cap is the tighter one of what the process was held to and the budget.
    """
    caps = [size for size in (probe.limit_bytes, spec.budget.job) if size is not None]
    rows = held(spec, inventory, probe)
    return (rows, min(caps)) if caps and sum(rows.values()) >= min(caps) else None


def _by_formula(spec: Spec) -> Inventory | None:
    try:
        count = formula(spec.workload.source, spec.workload.args).total
    except ValueError:
        return None
    return Inventory(
        spec="",
        unique_parameters=count,
        tensors=0,
        parameter_bytes=4 * count,
        trainable_parameters=count,
        buffer_elements=0,
        buffer_bytes=0,
        state_entries=0,
        state_entry_elements=0,
    )
