"""What one rank keeps in main memory beside the device: offloaded state, pinned buffers, batches of the loader.

Every byte is in one row.  On the CPU main memory is the device: then what rests on the host is in the ledger too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tui.budget import host, sharding, stored
from tui.budget.declared import Declared, Situation, declared, situation
from tui.budget.declared_optimizer import counters_away, rests
from tui.budget.declared_parts import ITEM_BYTES, Shape, converted, elements, shapes
from tui.budget.optimizers import COUNTER_BYTES
from tui.budget.pinned import pinned
from tui.project.inventory import Inventory
from tui.project.measured import Measured, Probe
from tui.project.model import Spec

_STATES = {
    "weights": ("host_weights", "weights"),
    "gradients": ("host_gradients", "gradients"),
    "master_weights": ("host_master_weights", "master weights"),
    "optimizer_state": ("host_optimizer", "optimizer state"),
}
"""By row of the device's ledger: the key of the host's, which is also the reading's, and its label."""
_WHERE = {"host-pinned": "pinned", "host": "pageable", "disk": "on disk"}
NOT_MEASURED = "not measured: peakmark probe"
NOT_READ = "no reading tells it apart"
NOT_ENTERED = "not entered: [ledger.host] workers"
_THRESHOLD = re.compile(r"pinned_max_round_threshold_mb:\s*(\d+)")


@dataclass(frozen=True, slots=True)
class HostRow:
    """One line of the host's ledger; a column that is None has its reason in ``reasons``."""

    key: str
    label: str
    declared: int | None
    declared_as: str
    """The arithmetic of ``declared``; "" when nothing is declared."""
    measured: int | None = None
    origin: str = ""
    """How ``measured`` was read, "" when it was not."""
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    """Why a column is None, by column: declared, measured."""


def host_ledger(
    spec: Spec, measured: Measured, probe: Probe | None = None, at: Situation | None = None
) -> tuple[HostRow, ...]:
    """The rows that the placement and the loader put in main memory; () when there are none.

    Args:
        spec: says what rests where, and [ledger.host] what the loader keeps.
        measured: holds the inventory and the environment's allocator settings.
        probe: whose readings the measured column has; None: there is none.
        at: what is declared; None: the spec's own situation on the probe's device.
    """
    device = (
        probe.device if probe else "cuda" if spec.environment.device.startswith(("GPU", "MIG")) else "cpu"
    )
    at = at or situation(spec, device)
    # as a GPU has it: what rests on the host is 0 in these rows, with its bytes apart
    rows = declared(spec, measured.inventory, replace(at, device="cuda"))
    found = [*_states(spec, rows, probe)]
    count = counters_away(spec, measured.inventory, at.device)
    if count is not None:
        text = f"{count:,} x {COUNTER_BYTES} B"
        told = Declared(COUNTER_BYTES * count, text)
        found.append(_row("step_counters", "step counters", told, probe, apart=False))
    found += _activations(spec, rows, probe)
    found += _pinned(spec, measured, rows, at, probe)
    # workers keep batches ready in every phase
    ready = declared(spec, measured.inventory, replace(at, device="cuda", phase=None))
    found += _batches(spec, ready["input_batch"], probe)
    return tuple(found)


def _states(spec: Spec, rows: dict[str, Declared], probe: Probe | None) -> Iterator[HostRow]:
    place = spec.placement
    homes = (place.weights, place.gradients, place.optimizer, rests(spec))
    for (key, (own, label)), where in zip(_STATES.items(), homes, strict=True):
        row = rows[key]
        if where == "device" or (key == "master_weights" and not place.master_weights):
            continue
        name = own if where != "disk" else own.replace("host_", "disk_")
        text = row.text.partition(": ")[2] if row.away else row.text
        told = row if row.bytes is None else Declared(row.away, text)
        yield _row(name, f"{label}, {_WHERE[where]}", told, probe)


def _activations(spec: Spec, rows: dict[str, Declared], probe: Probe | None) -> Iterator[HostRow]:
    where = spec.placement.activations
    if where == "device":
        return
    saved = rows.get("retained_activations", Declared(None, unknown="no formula gives it"))
    known = saved if saved.bytes is None else Declared(saved.away, "entered")
    yield _row("host_activations", f"saved tensors, {_WHERE[where]}", known, probe)


def _pinned(
    spec: Spec, measured: Measured, rows: dict[str, Declared], at: Situation, probe: Probe | None
) -> Iterator[HostRow]:
    """What is locked beyond what was asked for, each buffer rounded up to a power of two, and all that is locked."""
    here = {key: rows[key] for key in _STATES if rows[key].residence == "host-pinned"}
    if not here:
        return
    place = measured.environment.get(probe.environment) if probe else None
    limit = _THRESHOLD.search(place.allocator) if place else None
    sizes = _buffers(spec, measured.inventory, here, at)
    if isinstance(sizes, str):
        beyond = whole = Declared(None, unknown=sizes)
    else:
        found = pinned(sizes, int(limit[1]) << 20 if limit else None)
        text = f"{len(sizes):,} buffers, each rounded up to a power of two"
        beyond, whole = Declared(found.locked - found.requested, text), Declared(found.locked, text)
    yield _row("pinned_rounding", "rounding of pinned buffers", beyond, probe, apart=False)
    yield _row("pinned", "= locked by pinning", whole, probe)


def _buffers(
    spec: Spec, inventory: Inventory | None, here: dict[str, Declared], at: Situation
) -> list[int] | str:
    """Sizes of the pinned buffers of one rank; a sentence when they are not known."""
    away = sum(row.away for row in here.values())
    if spec.placement.strategy.startswith("zero"):
        return [row.away for row in here.values()]  # flat buffers, one a row
    known = () if inventory is None else shapes(inventory)
    if inventory is None or sum(one.tensors for one in known) != inventory.tensors:
        return "shapes of the tensors were not counted, and each is rounded by itself: peakmark params"
    if "optimizer_state" in here:
        return "how another library lays out its state is not known"
    sizes: list[int] = []
    for one in known:
        for key in here:
            sizes += _of_tensor(spec, key, one, at) * one.tensors
    if sum(sizes) != away:
        return "the tensors' bytes do not add up to those of the rows"
    return sizes


def _of_tensor(spec: Spec, key: str, one: Shape, at: Situation) -> list[int]:
    """Bytes of each buffer that the row ``key`` has for one tensor on the fullest rank."""
    if key != "weights" and not one.trained:
        return []
    place = spec.placement
    divided = key in sharding.DIVIDED[place.strategy] and place.ranks > 1 and one.sizes
    count = stored.by_rows(one.sizes, place.ranks).slice if divided else elements(one.sizes)
    (name,) = converted({one.dtype: 1}, at.precision)
    item = 4 if key == "master_weights" else ITEM_BYTES[name]
    return [count * item]


def _batches(spec: Spec, batch: Declared, probe: Probe | None) -> Iterator[HostRow]:
    """Batches that workers keep ready, and those that are pinned on their way to the device."""
    said = spec.ledger.host
    if said.workers is None:
        if said.pin_memory:
            yield _row(
                "loader_batches",
                "batches kept ready",
                Declared(None, unknown=NOT_ENTERED),
                probe,
                apart=False,
            )
        return
    if batch.bytes is None:
        ready = pins = Declared(None, unknown=batch.unknown)
    else:
        size = host.prefetch_bytes(batch.bytes, said.workers, said.prefetch)
        each = f"{batch.bytes:,} B x "
        ready = Declared(
            size, each + (f"{said.workers} workers x {said.prefetch}" if said.workers else "1, no workers")
        )
        pins = Declared(
            batch.bytes, f"{each}1 pinned on its way, before each tensor is rounded up to a power of two"
        )
    yield _row("loader_batches", "batches kept ready", ready, probe, apart=False)
    if said.pin_memory:
        yield _row("pinned_batch", "batch on its way, pinned", pins, probe, apart=False)


def _row(key: str, label: str, told: Declared, probe: Probe | None, *, apart: bool = True) -> HostRow:
    """A row with the reading of its key.

    Args:
        key: of the row and of the reading.
        label: for people.
        told: the declared column.
        probe: whose readings are taken; None: nothing was measured.
        apart: whether there is a reading of it by itself.
    """
    reading = probe.readings.get(key) if probe and apart else None
    size = reading.bytes if reading else None
    reasons = {} if told.bytes is not None else {"declared": told.unknown}
    if size is None:
        said = reading.unknown if reading else ""
        reasons["measured"] = NOT_MEASURED if probe is None else said or NOT_READ
    origin = reading.source if reading and size is not None else ""
    return HostRow(key, label, told.bytes, told.text, size, origin, reasons)
