"""What declared rows are made of: bytes with their arithmetic, divided, and kept where the placement keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tui.budget import declared_ranks, sharding, stored
from tui.project.inventory import Inventory
from tui.project.model import PlacementSpec, Spec

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


@dataclass(frozen=True, slots=True)
class Declared:
    """One declared row; exactly one of ``bytes`` and ``unknown`` is given."""

    bytes: int | None
    """On the device."""
    text: str = ""
    """The arithmetic, as ``124,439,808 x 4 B``."""
    unknown: str = ""
    residence: str = "device"
    """device | host-pinned | host | disk: where the row rests."""
    away: int = 0
    """Bytes that rest there, where that is not the device."""
    origin: str = "formula"
    """formula | entered."""


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


@dataclass(frozen=True, slots=True)
class Shape:
    """Tensors of one shape and dtype."""

    sizes: tuple[int, ...]
    dtype: str
    trained: bool
    tensors: int


def shapes(inventory: Inventory) -> tuple[Shape, ...]:
    """The tensors that ``inventory.shapes`` lists; () when it lists none.

    Raises:
        ValueError: somebody wrote something else there.
    """
    found: list[Shape] = []
    for key, count in inventory.shapes.items():
        said, dtype, *frozen = key.split(" ")
        sizes = () if said == "scalar" else tuple(int(one) for one in said.split("x"))
        found.append(Shape(sizes, dtype, not frozen, count))
    return tuple(found)


def weight_dtypes(inventory: Inventory, precision: str) -> dict[str, int] | None:
    """Elements by dtype name while training in ``precision``; None when the inventory does not add up.

    The pure settings convert floating parameters to 2 bytes; autocast and fp32 leave them as they are built.

    >>> weight_dtypes(Inventory("s", 10, 1, 40, 10, 0, 0, 1, 10, {"float32": 10}), "bf16")
    {'bfloat16': 10}
    """
    built = inventory.dtypes or {"float32": inventory.unique_parameters}
    if sum(built.values()) != inventory.unique_parameters:
        return None
    return converted(built, precision)


def converted(built: Mapping[str, int], precision: str) -> dict[str, int]:
    """Elements by dtype name after a pure setting has converted the floating ones; the same under any other."""
    pure = {"bf16": "bfloat16", "fp16": "float16"}.get(precision)
    if pure is None:
        return dict(built)
    found: dict[str, int] = {}
    for name, elements in built.items():
        target = pure if "float" in name else name
        found[target] = found.get(target, 0) + elements
    return found


def trainable(inventory: Inventory, precision: str) -> dict[str, int] | None:
    """Trained elements by dtype, or None when a frozen part of a mixed model hides which they are."""
    listed: dict[str, int] = {}
    for one in shapes(inventory):
        if one.trained:
            listed[one.dtype] = listed.get(one.dtype, 0) + elements(one.sizes) * one.tensors
    if sum(listed.values()) == inventory.trainable_parameters:
        return converted(listed, precision)
    dtypes = weight_dtypes(inventory, precision)
    if dtypes is None or inventory.trainable_parameters == inventory.unique_parameters:
        return dtypes
    return dict.fromkeys(dtypes, inventory.trainable_parameters) if len(dtypes) == 1 else None


def elements(sizes: tuple[int, ...]) -> int:
    """Elements of one tensor.

    >>> elements((8, 6)), elements(())
    (48, 1)
    """
    count = 1
    for size in sizes:
        count *= size
    return count


def trainable_tensors(inventory: Inventory) -> int | None:
    """How many tensors are trained; None: not counted."""
    if inventory.trainable_parameters == inventory.unique_parameters:
        return inventory.tensors
    return inventory.trainable_tensors


def fullest(
    spec: Spec, inventory: Inventory, precision: str, *, trained: bool = False
) -> dict[str, int] | None:
    """Elements by dtype that the fullest rank holds where all is divided, padding included; None: not known.

    Rows of each tensor for fsdp2, as ``torch.chunk`` cuts them; elements of each tensor for zero3.
    """
    place, listed = spec.placement, shapes(inventory)
    if sum(one.tensors for one in listed) == inventory.tensors and place.strategy in sharding.GATHERS:
        found: dict[str, int] = {}
        for one in listed:
            if not one.sizes and place.strategy == "fsdp2":
                return None  # fully_shard takes no scalar
            if one.trained or not trained:
                flat = stored.flattened(elements(one.sizes), place.ranks)
                part = stored.by_rows(one.sizes, place.ranks) if place.strategy == "fsdp2" else flat
                found[one.dtype] = found.get(one.dtype, 0) + part.slice * one.tensors
        return converted(found, precision)
    if inventory.ranks != place.ranks or inventory.rank_parameters is None:
        return None
    if trained and inventory.trainable_parameters != inventory.unique_parameters:
        return None
    dtypes = weight_dtypes(inventory, precision)
    return None if dtypes is None or len(dtypes) != 1 else dict.fromkeys(dtypes, inventory.rank_parameters)


def as_float32(dtypes: Mapping[str, int] | None) -> dict[str, int] | None:
    """The same elements in fp32."""
    return None if dtypes is None else {"float32": sum(dtypes.values())}


def product(
    dtypes: Mapping[str, int],
    copies: int,
    spec: Spec,
    inventory: Inventory,
    *,
    key: str,
    full: Mapping[str, int] | None = None,
) -> Declared:
    """``copies`` of the elements in their dtypes, divided as the placement divides the row ``key``.

    Args:
        dtypes: elements of the whole model by dtype name.
        copies: how many times they are there.
        spec: whose placement it is.
        inventory: tells which elements are of experts.
        key: a row of the ledger; "": no strategy divides it.
        full: elements of the fullest rank by the same names; None: not known.
    """
    unknown = [name for name in dtypes if name not in ITEM_BYTES]
    if unknown:
        return Declared(None, unknown=f"bytes of one {unknown[0]} element are not known")
    if not dtypes:
        return Declared(0, "nothing is trained")
    items = {name: ITEM_BYTES[name] * copies for name in dtypes}
    itemsize = next(iter(items.values())) if len(items) == 1 else None
    if spec.placement.expert_parallel > 1 and key:
        told = spec.ledger.expert_parameters
        return _with_experts(
            dtypes, itemsize, spec, inventory.expert_parameters if told is None else told, key
        )
    size = sum(count * items[name] for name, count in dtypes.items())
    if full is not None and full.keys() == items.keys() and _gathers(spec.placement, key):
        held = sum(count * items[name] for name, count in full.items())
        if held * spec.placement.ranks != size:
            return Declared(held, f"{_terms(full, items)} on the fullest of {spec.placement.ranks} ranks")
    found = declared_ranks.divided(spec.placement, key, size, _terms(dtypes, items))
    return Declared(found.bytes, found.text, found.unknown)


def _terms(dtypes: Mapping[str, int], items: Mapping[str, int]) -> str:
    return " + ".join(f"{count:,} x {items[name]} B" for name, count in dtypes.items())


def _gathers(place: PlacementSpec, key: str) -> bool:
    """Whether ranks alone divide the row, each tensor by itself."""
    alone = place.ranks > 1 and place.tensor_parallel * place.pipeline_parallel == 1
    return alone and place.strategy in sharding.GATHERS and key in sharding.DIVIDED[place.strategy]


def _with_experts(
    dtypes: Mapping[str, int], itemsize: int | None, spec: Spec, experts: int | None, key: str
) -> Declared:
    """Experts are shared out over groups of ranks; a strategy divides each over the ranks that hold the same ones."""
    place, total = spec.placement, sum(dtypes.values())
    if experts is None:
        said = "which elements are of experts was not counted, and [ledger] expert_parameters does not say it"
        return Declared(None, unknown=said)
    if itemsize is None:
        return Declared(None, unknown="in which of several dtypes the experts are is not declared")
    if experts > total:
        return Declared(
            None, unknown=f"{experts:,} elements are of experts, more than the {total:,} of this row"
        )
    over = place.expert_parallel
    rest = declared_ranks.divided(
        place, key, (total - experts) * itemsize, f"{total - experts:,} x {itemsize} B"
    )
    fewer = replace(place, ranks=place.ranks // over)
    text = f"{experts:,} x {itemsize} B / {over} (expert parallel)"
    own = declared_ranks.divided(fewer, key, -(-experts // over) * itemsize, text)
    if rest.bytes is None or own.bytes is None:
        return Declared(None, unknown=rest.unknown or own.unknown)
    return Declared(rest.bytes + own.bytes, f"{rest.text} + {own.text}")


def placed(where: str, row: Declared, device: str) -> Declared:
    """``row`` as the device has it: nothing of it, where it rests elsewhere.

    Args:
        where: device | host-pinned | host | disk.
        row: as large as it is wherever it rests.
        device: cpu | cuda; on the CPU main memory is the device.
    """
    if where == "device" or not row.bytes or (device == "cpu" and where != "disk"):
        return row
    name = {"host-pinned": "pinned on the host", "host": "on the host", "disk": "on disk"}[where]
    return Declared(0, f"{name}: {row.text}", residence=where, away=row.bytes, origin=row.origin)
