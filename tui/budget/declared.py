"""Declared ledger rows: bytes that follow from the spec and the inventory alone, with their arithmetic.

A row that does not follow from them is None and says why; it is never filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tui.budget import declared_ranks
from tui.budget.optimizers import COUNTER_BYTES, StateRule, state_rule
from tui.budget.params import formula
from tui.project.measured import Inventory
from tui.project.model import Spec

ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
"""Bytes of one element by dtype name."""

BEFORE_STATE = ("start", "context", "build", "optimizer", "first.forward", "first.backward")
"""Phases before the first optimizer step, which is what creates the state."""
BEFORE_GRADIENTS = ("start", "context", "build", "optimizer", "first.forward")


@dataclass(frozen=True, slots=True)
class Declared:
    """One declared row; exactly one of ``bytes`` and ``unknown`` is given."""

    bytes: int | None
    text: str = ""
    """The arithmetic, as ``124,439,808 x 4 B``."""
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Situation:
    """What a row is declared for: the batch, precision, device and phase of one measurement."""

    precision: str
    micro: int
    accumulate: int
    length: int | None
    device: str = "cpu"
    """cpu | cuda."""
    phase: str | None = None
    """None: the steady iteration, where every row that is made exists."""


def situation(spec: Spec, device: str = "cpu", phase: str | None = None) -> Situation:
    """The situation that the spec itself describes, at the longest length."""
    batch = spec.workload.batch
    longest = batch.length.max if batch.length else None
    return Situation(spec.precision.use, batch.micro, batch.accumulate, longest, device, phase)


def declared(spec: Spec, inventory: Inventory | None, at: Situation) -> dict[str, Declared]:
    """Declared rows by ledger key; rows that nothing declares are left out.

    Args:
        spec: the project's hand-written part.
        inventory: the counted parameters, or None before they were counted.
        at: what the rows are declared for.
    """
    rows: dict[str, Declared]
    if inventory is None:
        not_counted = Declared(None, unknown="the parameters were not counted yet: peakmark params")
        keys = ("weights", "master_weights", "gradients", "optimizer_state", "buffers")
        rows = dict.fromkeys(keys, not_counted)
    else:
        rows = {
            "weights": _weights(spec, inventory, at),
            "master_weights": _master_weights(spec, inventory, at),
            "gradients": _gradients(spec, inventory, at),
            "optimizer_state": _optimizer_state(spec, inventory, at),
            "buffers": _buffers(inventory, at),
        }
    if spec.placement.weights != "device":
        brought = "the layers at work are brought to the device: how many at once is not declared"
        rows |= dict.fromkeys(("unsharded_weights", "reduction_buckets"), Declared(None, unknown=brought))
    elif spec.placement.ranks == 1:
        rows |= {"unsharded_weights": Declared(0, "1 rank"), "reduction_buckets": Declared(0, "1 rank")}
    else:
        dtypes = None if inventory is None else _trainable(inventory, at.precision)
        gradients = None if dtypes is None else _product(dtypes, 1, spec, key="")
        for key, found in declared_ranks.passing(
            spec.placement,
            inventory,
            None if inventory is None else weight_dtypes(inventory, at.precision),
            None if gradients is None else gradients.bytes,
            at.phase,
        ).items():
            rows[key] = Declared(found.bytes, found.text, found.unknown)
    rows["input_batch"] = _input_batch(spec, at)
    return rows


def weight_dtypes(inventory: Inventory, precision: str) -> dict[str, int] | None:
    """Elements by dtype name while training in ``precision``; None when the inventory does not add up.

    The pure settings convert floating parameters to 2 bytes; autocast and fp32 leave them as they are built.

    >>> weight_dtypes(Inventory("s", 10, 1, 40, 10, 0, 0, 1, 10, {"float32": 10}), "bf16")
    {'bfloat16': 10}
    """
    built = inventory.dtypes or {"float32": inventory.unique_parameters}
    if sum(built.values()) != inventory.unique_parameters:
        return None
    pure = {"bf16": "bfloat16", "fp16": "float16"}.get(precision)
    if pure is None:
        return dict(built)
    converted: dict[str, int] = {}
    for name, elements in built.items():
        target = pure if "float" in name else name
        converted[target] = converted.get(target, 0) + elements
    return converted


def _weights(spec: Spec, inventory: Inventory, at: Situation) -> Declared:
    if at.phase in ("start", "context"):
        return Declared(0, "before the model is built")
    dtypes = weight_dtypes(inventory, at.precision)
    if dtypes is None:
        return Declared(None, unknown="the inventory's dtypes do not add up to its parameters")
    row = _product(dtypes, 1, spec, key="weights", fullest=_fullest(spec, inventory))
    return _placed(spec.placement.weights, row)


def _master_weights(spec: Spec, inventory: Inventory, at: Situation) -> Declared:
    if spec.placement.master_weights:
        if at.phase in ("start", "context", "build"):
            return Declared(0, "before the optimizer is built")
        elements = inventory.trainable_parameters
        row = _product({"float32": elements}, 1, spec, key="master_weights")
        return _placed(spec.placement.optimizer, row)
    if at.precision in ("bf16", "fp16"):
        return Declared(0, "torch.optim keeps none")
    return Declared(0, "weights are their own")


def _gradients(spec: Spec, inventory: Inventory, at: Situation) -> Declared:
    if at.phase in BEFORE_GRADIENTS:
        return Declared(0, "before the first backward")
    if at.phase == "forward" and at.accumulate == 1 and not spec.placement.gradient_as_bucket_view:
        return Declared(0, "zero_grad frees them")
    if at.phase in ("validate", "save", "restore"):
        return Declared(None, unknown=f"what is kept in {at.phase} is not declared")
    dtypes = _trainable(inventory, at.precision)
    if dtypes is None:
        return Declared(None, unknown="which dtypes of a mixed model are trained was not counted")
    fullest = _fullest(spec, inventory, trained=True)
    return _placed(spec.placement.gradients, _product(dtypes, 1, spec, key="gradients", fullest=fullest))


def _optimizer_state(spec: Spec, inventory: Inventory, at: Situation) -> Declared:
    rule = state_rule(spec.workload.optimizer.name, spec.workload.optimizer.args)
    if isinstance(rule, str):
        return Declared(None, unknown=rule)
    # Adagrad alone makes its state when it is constructed
    if at.phase in BEFORE_STATE and not (rule.optimizer == "Adagrad" and at.phase not in BEFORE_STATE[:3]):
        return Declared(0, "made in the first step")
    if at.phase == "restore":
        return Declared(None, unknown="what is kept in restore is not declared")
    dtypes = _trainable(inventory, at.precision)
    if dtypes is None:
        return Declared(None, unknown="which dtypes of a mixed model are trained was not counted")
    if spec.placement.master_weights:
        dtypes = {"float32": sum(dtypes.values())}  # the optimizer works on the fp32 copies
    tensors, counters = _trainable_tensors(inventory), 0
    if _counters_on_device(spec, at) and rule.counters:
        if tensors is None:
            return Declared(None, unknown="how many tensors are trained was not counted, each has a counter")
        counters = rule.counters * tensors
    fullest = _fullest(spec, inventory, trained=True)
    row = _product(dtypes, rule.copies, spec, counters, key="optimizer_state", fullest=fullest)
    return _placed(spec.placement.optimizer, row)


def counter_note(spec: Spec, inventory: Inventory | None, device: str) -> str | None:
    """``148 step counters (592 B) are on the CPU``, or None when there are none apart.

    Args:
        spec: names the optimizer and its implementation.
        inventory: says how many tensors are trained.
        device: cpu | cuda; on the CPU the counters are part of the row.
    """
    rule = state_rule(spec.workload.optimizer.name, spec.workload.optimizer.args)
    if device == "cpu" or inventory is None or not isinstance(rule, StateRule) or not rule.counters:
        return None
    tensors = _trainable_tensors(inventory)
    if tensors is None or _counters_on_device(spec, situation(spec, device)):
        return None
    count = rule.counters * tensors
    return f"{count:,} step counters ({COUNTER_BYTES * count:,} B) are on the CPU"


def _buffers(inventory: Inventory, at: Situation) -> Declared:
    if at.phase in ("start", "context"):
        return Declared(0, "before the model is built")
    if inventory.buffer_bytes and at.precision in ("bf16", "fp16"):
        return Declared(None, unknown="which buffers a pure precision converts was not counted")
    if not inventory.buffer_bytes:
        return Declared(0, "none registered")
    return Declared(inventory.buffer_bytes, f"{inventory.buffer_elements:,} elements")


def _input_batch(spec: Spec, at: Situation) -> Declared:
    if at.phase in ("start", "context", "build", "optimizer"):
        return Declared(0, "before the first batch")
    if at.phase not in (None, "first.forward", "first.backward", "forward", "backward"):
        return Declared(None, unknown="what batch is kept in this phase is not declared")
    args, micro = spec.workload.args, at.micro
    try:
        formula(spec.workload.source, args)
    except ValueError:
        return Declared(None, unknown="the workload makes its own batch")
    if spec.workload.source == "decoder":
        length = at.length or args.get("context", 128)
        return Declared(2 * micro * length * 8, f"{micro} x {length} x 8 B x 2")
    if at.precision in ("bf16", "fp16"):
        return Declared(None, unknown="a pure precision converts the batch")
    if spec.workload.source == "mlp":
        inputs, outputs = args.get("inputs", 64), args.get("outputs", 8)
        return Declared(micro * (inputs + outputs) * 4, f"{micro} x ({inputs} + {outputs}) x 4 B")
    colours, side = args.get("in_channels", 3), args.get("size", 32)
    size = colours * side * side * 4 + 8
    return Declared(micro * size, f"{micro} x ({colours} x {side} x {side} x 4 B + 8 B)")


def _trainable(inventory: Inventory, precision: str) -> dict[str, int] | None:
    """Trainable elements by dtype, or None when a frozen part of a mixed model hides which they are."""
    dtypes = weight_dtypes(inventory, precision)
    if dtypes is None or inventory.trainable_parameters == inventory.unique_parameters:
        return dtypes
    if len(dtypes) != 1:
        return None
    return dict.fromkeys(dtypes, inventory.trainable_parameters)


def _trainable_tensors(inventory: Inventory) -> int | None:
    if inventory.trainable_parameters == inventory.unique_parameters:
        return inventory.tensors
    return inventory.trainable_tensors


def _counters_on_device(spec: Spec, at: Situation) -> bool:
    optimizer = spec.workload.optimizer
    asked = any(optimizer.args.get(key) for key in ("fused", "capturable"))
    return at.device == "cpu" or optimizer.implementation == "fused" or asked


def _fullest(spec: Spec, inventory: Inventory, *, trained: bool = False) -> int | None:
    """Elements of the fullest rank, padded rows included, where they were counted for this placement."""
    if inventory.ranks != spec.placement.ranks:
        return None
    if trained and inventory.trainable_parameters != inventory.unique_parameters:
        return None
    return inventory.rank_parameters


def _product(
    dtypes: Mapping[str, int],
    copies: int,
    spec: Spec,
    counters: int = 0,
    *,
    key: str,
    fullest: int | None = None,
) -> Declared:
    """``copies`` of the elements in their dtypes, divided as the placement divides the row ``key``."""
    unknown = [name for name in dtypes if name not in ITEM_BYTES]
    if unknown:
        return Declared(None, unknown=f"bytes of one {unknown[0]} element are not known")
    if not copies:
        return Declared(COUNTER_BYTES * counters, "no state")
    size = sum(elements * ITEM_BYTES[name] * copies for name, elements in dtypes.items())
    terms = [f"{elements:,} x {ITEM_BYTES[name] * copies} B" for name, elements in dtypes.items()]
    itemsize = ITEM_BYTES[next(iter(dtypes))] * copies if len(dtypes) == 1 else None
    found = declared_ranks.divided(spec.placement, key, size, " + ".join(terms), itemsize, fullest)
    if found.bytes is None or not counters:
        return Declared(found.bytes, found.text, found.unknown)
    return Declared(
        found.bytes + COUNTER_BYTES * counters, f"{found.text} + {counters:,} x {COUNTER_BYTES} B"
    )


def _placed(where: str, row: Declared) -> Declared:
    """``row`` when it lives on the device; elsewhere what is brought in for a moment is not declared."""
    if where == "device" or row.bytes is None:
        return row
    return Declared(None, unknown=f"kept on {where}: what the device holds of it is not declared")
