"""Declared ledger rows: bytes that follow from the spec and the inventory alone, with their arithmetic.

A row that does not follow from them is None and says why, unless it was entered; it is never filled in.
"""

from __future__ import annotations

from tui.budget import declared_ranks, entered
from tui.budget.declared_optimizer import counter_note, optimizer_state
from tui.budget.declared_parts import (
    ITEM_BYTES,
    Declared,
    Situation,
    as_float32,
    fullest,
    placed,
    product,
    trainable,
    weight_dtypes,
)
from tui.budget.params import formula
from tui.project.measured import Inventory
from tui.project.model import Spec

__all__ = ["ITEM_BYTES", "Declared", "Situation", "counter_note", "declared", "situation", "weight_dtypes"]

BEFORE_GRADIENTS = ("start", "context", "build", "optimizer", "first.forward")


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
        keys = ("weights", "packed_metadata", "master_weights", "gradients", "optimizer_state", "buffers")
        rows = dict.fromkeys(keys, not_counted)
    else:
        rows = {
            "weights": _weights(spec, inventory, at),
            "packed_metadata": _packed_metadata(inventory, at),
            "master_weights": _master_weights(spec, inventory, at),
            "gradients": _gradients(spec, inventory, at),
            "optimizer_state": optimizer_state(spec, inventory, at),
            "buffers": _buffers(inventory, at),
        }
    if spec.placement.weights != "device":
        brought = "the layers at work are brought to the device: how many at once is not declared"
        rows |= dict.fromkeys(("unsharded_weights", "reduction_buckets"), Declared(None, unknown=brought))
    elif spec.placement.ranks == 1:
        rows |= {"unsharded_weights": Declared(0, "1 rank"), "reduction_buckets": Declared(0, "1 rank")}
    else:
        dtypes = None if inventory is None else trainable(inventory, at.precision)
        gradients = (
            None if dtypes is None or inventory is None else product(dtypes, 1, spec, inventory, key="")
        )
        for key, found in declared_ranks.passing(
            spec.placement,
            inventory,
            None if inventory is None else weight_dtypes(inventory, at.precision),
            None if gradients is None else gradients.bytes,
            at.phase,
        ).items():
            rows[key] = Declared(found.bytes, found.text, found.unknown)
    rows["input_batch"] = _input_batch(spec, at)
    rows = entered.over(rows, spec.ledger.entered, at)
    if "retained_activations" in rows:  # declared only where they were entered
        saved = rows["retained_activations"]
        rows["retained_activations"] = placed(spec.placement.activations, saved, at.device)
    return rows


def _weights(spec: Spec, inventory: Inventory, at: Situation) -> Declared:
    if at.phase in ("start", "context"):
        return Declared(0, "before the model is built")
    if inventory.packed_parameters:
        return placed(spec.placement.weights, _packed_weights(spec, inventory, at), at.device)
    dtypes = weight_dtypes(inventory, at.precision)
    if dtypes is None:
        return Declared(None, unknown="the inventory's dtypes do not add up to its parameters")
    row = product(dtypes, 1, spec, inventory, key="weights", full=fullest(spec, inventory, at.precision))
    return placed(spec.placement.weights, row, at.device)


def _packed_weights(spec: Spec, inventory: Inventory, at: Situation) -> Declared:
    """Payload of the packed weights, and what stays in higher precision, by name."""
    payload, packed = inventory.packed_payload_bytes, inventory.packed_parameters or 0
    metadata = inventory.packed_metadata_bytes
    if payload is None or metadata is None:
        return Declared(None, unknown="the bytes of the packed weights were not counted")
    if spec.placement.ranks > 1 or spec.placement.tensor_parallel * spec.placement.pipeline_parallel > 1:
        return Declared(None, unknown="how packed weights are divided is not declared")
    kept = inventory.unique_parameters - packed
    rest = inventory.parameter_bytes - payload - metadata
    bits = f"{8 * payload / packed:.3g} bits each"
    text = f"{payload:,} B of {packed:,} packed ({bits})"
    if not kept:
        return Declared(payload, text)
    if at.precision in ("bf16", "fp16") and rest != 2 * kept:
        return Declared(None, unknown="what of the tensors that are not packed is converted is not declared")
    largest = sorted(inventory.unpacked, key=lambda name: -inventory.unpacked[name])
    names = ", ".join(largest[:3]) + (f" and {len(largest) - 3} more" if len(largest) > 3 else "")
    return Declared(
        payload + rest, f"{text} + {rest:,} B of {kept:,} not packed{f': {names}' if names else ''}"
    )


def _packed_metadata(inventory: Inventory, at: Situation) -> Declared:
    if at.phase in ("start", "context"):
        return Declared(0, "before the model is built")
    if not inventory.packed_parameters and inventory.state == "complete":
        return Declared(0, "nothing is packed")
    if inventory.packed_metadata_bytes is None or inventory.packed_parameters is None:
        return Declared(None, unknown="whether weights are packed was not counted")
    size = inventory.packed_metadata_bytes
    return Declared(size, f"scales and tables of {inventory.packed_parameters:,} packed, {size:,} B")


def _master_weights(spec: Spec, inventory: Inventory, at: Situation) -> Declared:
    if spec.placement.master_weights:
        if at.phase in ("start", "context", "build"):
            return Declared(0, "before the optimizer is built")
        elements = inventory.trainable_parameters
        full = as_float32(fullest(spec, inventory, at.precision, trained=True))
        row = product({"float32": elements}, 1, spec, inventory, key="master_weights", full=full)
        return placed(spec.placement.optimizer, row, at.device)
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
    dtypes = trainable(inventory, at.precision)
    if dtypes is None:
        return Declared(None, unknown="which dtypes of a mixed model are trained was not counted")
    full = fullest(spec, inventory, at.precision, trained=True)
    row = product(dtypes, 1, spec, inventory, key="gradients", full=full)
    return placed(spec.placement.gradients, row, at.device)


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
