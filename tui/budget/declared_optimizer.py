"""The declared row of the optimizer's state, by the rules of ``optimizers``."""

from __future__ import annotations

from tui.budget.declared_parts import (
    ITEM_BYTES,
    Declared,
    Situation,
    as_float32,
    converted,
    fullest,
    placed,
    product,
    shapes,
    trainable,
    trainable_tensors,
)
from tui.budget.optimizers import COUNTER_BYTES, StateRule, class_name, remembered, state_rule
from tui.project.inventory import Inventory
from tui.project.model import Spec

BEFORE_STATE = ("start", "context", "build", "optimizer", "first.forward", "first.backward")
"""Phases before the first optimizer step, which is what creates the state."""
_MIXED = "which dtypes of a mixed model are trained was not counted"


def optimizer_state(spec: Spec, inventory: Inventory, at: Situation) -> Declared:
    """Bytes of the state on one device, step counters included where they are there."""
    rule = state_rule(spec.workload.optimizer.name, spec.workload.optimizer.args)
    if isinstance(rule, str):
        return Declared(None, unknown=rule)
    if at.phase in BEFORE_STATE and not (rule.early and at.phase not in BEFORE_STATE[:3]):
        return Declared(0, "made in the first step")
    if at.phase == "restore":
        return Declared(None, unknown="what is kept in restore is not declared")
    dtypes = trainable(inventory, at.precision)
    if dtypes is None:
        return Declared(None, unknown=_MIXED)
    full = fullest(spec, inventory, at.precision, trained=True)
    if spec.placement.master_weights:  # the optimizer works on the fp32 copies
        dtypes, full = {"float32": sum(dtypes.values())}, as_float32(full)
    if rule.history:
        row = _history(rule, dtypes, spec)
    elif rule.factored:
        row = _factored(rule, spec, inventory, at)
    elif not rule.copies:
        row = Declared(0, "no state")
    else:
        row = product(dtypes, rule.copies, spec, inventory, key="optimizer_state", full=full)
    return placed(rests(spec), _with_counters(row, rule, spec, inventory, at), at.device)


def rests(spec: Spec) -> str:
    """Where the state is: pageable where it was to be pinned, if torch.optim makes it, as ``zeros_like`` pins nothing.

    ZeRO's stages have flat buffers of their own, and so may optimizers of other libraries.
    """
    where, own = spec.placement.optimizer, class_name(spec.workload.optimizer.name) is not None
    return (
        "host" if where == "host-pinned" and own and not spec.placement.strategy.startswith("zero") else where
    )


def _with_counters(
    row: Declared, rule: StateRule, spec: Spec, inventory: Inventory, at: Situation
) -> Declared:
    if row.bytes is None or not rule.counters or not _counters_here(rule, spec, at):
        return row
    tensors = trainable_tensors(inventory)
    if tensors is None:
        return Declared(None, unknown="how many tensors are trained was not counted, each has a counter")
    count = rule.counters * tensors
    return Declared(row.bytes + COUNTER_BYTES * count, f"{row.text} + {count:,} x {COUNTER_BYTES} B")


def _counters_here(rule: StateRule, spec: Spec, at: Situation) -> bool:
    """Whether counters are where the state rests: on the host both always are."""
    if at.device == "cpu" or spec.placement.optimizer != "device":
        return True
    return rule.counters_on_device(spec.workload.optimizer.args, spec.workload.optimizer.implementation)


def _factored(rule: StateRule, spec: Spec, inventory: Inventory, at: Situation) -> Declared:
    if spec.placement.ranks > 1 or spec.placement.tensor_parallel * spec.placement.pipeline_parallel > 1:
        return Declared(None, unknown=f"{rule.optimizer}: factors of divided tensors are not declared")
    trained = [one for one in shapes(inventory) if one.trained]
    if sum(one.tensors for one in trained) != trainable_tensors(inventory):
        why = inventory.unknown.get("shapes", "shapes were not counted: peakmark params")
        return Declared(
            None, unknown=f"{rule.optimizer}: its state is factored by the shape of each tensor; {why}"
        )
    state: dict[str, int] = {}
    for one in trained:
        state[one.dtype] = state.get(one.dtype, 0) + rule.elements(one.sizes) * one.tensors
    dtypes = (
        {"float32": sum(state.values())} if spec.placement.master_weights else converted(state, at.precision)
    )
    found = product(dtypes, 1, spec, inventory, key="optimizer_state")
    return Declared(found.bytes, f"{found.text}, rows and columns", found.unknown)


def _history(rule: StateRule, dtypes: dict[str, int], spec: Spec) -> Declared:
    if len(dtypes) != 1 or spec.placement.ranks > 1:
        return Declared(
            None, unknown=f"{rule.optimizer}: its vectors over several dtypes or ranks are not declared"
        )
    ((name, count),) = dtypes.items()
    if name not in ITEM_BYTES:
        return Declared(None, unknown=f"bytes of one {name} element are not known")
    size = remembered(count, rule.history) * ITEM_BYTES[name]
    vectors, scalars = 2 + 2 * rule.history, 2 * rule.history + 1
    text = f"({vectors} x {count:,} + {scalars}) x {ITEM_BYTES[name]} B, at a full history of {rule.history}"
    return Declared(size, text)


def counters_away(spec: Spec, inventory: Inventory | None, device: str) -> int | None:
    """How many step counters are on the CPU beside a state that is on the device; None: none are apart.

    Args:
        spec: names the optimizer and its implementation.
        inventory: says how many tensors are trained.
        device: cpu | cuda; on the CPU the counters are part of the row.
    """
    rule = state_rule(spec.workload.optimizer.name, spec.workload.optimizer.args)
    if device == "cpu" or inventory is None or not isinstance(rule, StateRule) or not rule.counters:
        return None
    tensors = trainable_tensors(inventory)
    at = Situation(spec.precision.use, 1, 1, None, device)
    if tensors is None or _counters_here(rule, spec, at):
        return None
    return rule.counters * tensors


def counter_note(spec: Spec, inventory: Inventory | None, device: str) -> str | None:
    """``148 step counters (592 B) are on the CPU``, or None when there are none apart; see ``counters_away``."""
    count = counters_away(spec, inventory, device)
    return None if count is None else f"{count:,} step counters ({COUNTER_BYTES * count:,} B) are on the CPU"
