"""What a project may say beyond the types of its values: special forms, choices, ranges, contradictions."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from tui import units
from tui.errors import ProjectError
from tui.probe.protocol import PHASES, REQUESTED_ROWS, SETTINGS
from tui.project.aliases import ALIASES
from tui.project.check_budget import check_budget, check_ledger
from tui.project.check_placement import STRATEGIES, check_placement
from tui.project.check_workload import check_workload
from tui.project.decode import Rules, closest, hints_of, names
from tui.project.keys import Place, join, quote
from tui.project.measured import Measured, PhasePeak
from tui.project.model import ENTERED_ROWS, LengthSpec, Spec
from tui.project.prediction import PredictedPeak

FAMILIES = ("decoder", "encoder", "mlp", "convnet")
"""Models that peakmark builds itself: nothing of the user's runs."""
PACKAGES = ("timm:", "torchvision:")
"""Packages whose models are taken by name, where they are installed."""
RESIDENCE = ("device", "host-pinned", "host", "disk")
UNDO = "undo the edit (git checkout) or delete that table and measure again"

CHOICES: Mapping[str, tuple[str, ...]] = {
    "workload.formula": (*FAMILIES, "none"),
    "workload.batch.remainder": ("drop", "pad", "keep"),
    "workload.batch.weight_by": ("micro-batch", "tokens"),
    "workload.optimizer.implementation": ("default", "foreach", "fused", "loop"),
    "placement.strategy": STRATEGIES,
    "placement.param_dtype": ("fp32", "bf16", "fp16"),
    "placement.reduce_dtype": ("fp32", "bf16", "fp16"),
    "placement.weights": RESIDENCE,
    "placement.gradients": RESIDENCE,
    "placement.optimizer": RESIDENCE,
    "placement.activations": RESIDENCE,
    "precision.use": SETTINGS,
    "precision.compare": SETTINGS,
    "quality.direction": ("min", "max"),
}
"""Keys whose text is one of a closed list; of an array, every element."""

AT_LEAST_ONE = (
    "workload.batch.micro",
    "workload.batch.accumulate",
    "workload.batch.length.min",
    "workload.batch.length.typical",
    "workload.batch.length.max",
    "workload.batch.global_batch",
    "workload.batch.dataset",
    "workload.scheduler.steps",
    "placement.ranks",
    "placement.reduce_bucket",
    "placement.tensor_parallel",
    "placement.pipeline_parallel",
    "placement.expert_parallel",
    "ledger.device_total",
    "ledger.host.prefetch",
    "precision.seeds",
    "precision.steps",
    "quality.batches",
    "budget.job",
)

_SOURCE = re.compile(
    r"[^\x00-\x1f:]+\.py(:[A-Za-z_][A-Za-z0-9_]*)?|[^\x00-\x1f:]+\.json|(timm|torchvision):[A-Za-z0-9_.-]+"
)
_SHAPE = re.compile(r"(scalar|[0-9]{1,18}(x[0-9]{1,18})*) [a-z][a-z0-9_]*( frozen)?")
_DEVICE = re.compile(r"auto|cpu|(GPU|MIG)-[0-9A-Za-z/-]+")


def _length(value: Any) -> Any:
    """``length = 1024`` is short for ``length = { max = 1024 }``."""
    return {"max": value} if isinstance(value, int | float | str) else value


def _size(value: Any) -> Any:
    return units.parse_bytes(value) if isinstance(value, str | float | int) else value


def _index(cls: type[Any], key: str = "") -> Iterator[tuple[str, str]]:
    for name, hint in hints_of(cls).items():
        inner = join(key, name)
        yield name, inner
        options = [hint, *typing.get_args(hint)]
        for one in options:
            if dataclasses.is_dataclass(one):
                yield from _index(typing.cast(type[Any], one), inner)


def _elsewhere() -> dict[str, str]:
    """Aliases, and every name that only one of our tables has."""
    found = list(_index(Spec))
    seen = [name for name, _ in found]
    return {name: key for name, key in found if seen.count(name) == 1} | dict(ALIASES)


SPEC_RULES = Rules(
    prepare={
        "workload.batch.length": _length,
        "budget.job": _size,
        "budget.reserve": _size,
        "budget.reserve_parts.*": _size,
        **{f"ledger.{key}": _size for key in (*ENTERED_ROWS, "other_processes", "device_total")},
    },
    elsewhere=_elsewhere(),
    say_booleans={"workload.batch.accumulate": "write 1 for no accumulation"},
)
MEASURED_RULES = Rules(advice=UNDO, finite_items=False)


def check_spec(spec: Spec, place: Place) -> None:
    """Refuse values that no run could have.

    Raises:
        ProjectError: out of range, not one of a closed list, or two keys that contradict each other.
    """
    for key in AT_LEAST_ONE:
        value = _get(spec, key)
        if value is not None and value < 1:
            raise ProjectError(
                f"{key} must be at least 1, got {value}", where=place.at(key), hint="write 1 or more"
            )
    clip = spec.workload.optimizer.clip_norm
    if clip is not None and clip <= 0:
        raise ProjectError(
            f"workload.optimizer.clip_norm must be greater than 0, got {clip:g}",
            where=place.at("workload.optimizer.clip_norm"),
            hint="delete the line for no clipping",
        )
    for key, choices in CHOICES.items():
        _check_choice(_get(spec, key), key, choices, place)
    _check_names(spec, place)
    if spec.workload.batch.length is not None:
        _check_length(spec.workload.batch.length, place)
    check_workload(spec, place, FAMILIES)
    check_placement(spec, place)
    _check_compare(spec.precision.compare, place)
    check_budget(spec.budget, place)
    check_ledger(spec, place)


def _get(spec: Spec, key: str) -> Any:
    value: Any = spec
    for name in key.split("."):
        value = None if value is None else getattr(value, name)
    return value


def _check_choice(
    value: str | tuple[str, ...] | None, key: str, choices: tuple[str, ...], place: Place
) -> None:
    for one in (value,) if isinstance(value, str) else value or ():
        if one not in choices:
            meant = closest(one, choices)
            raise ProjectError(
                f'{key} must be {names(choices)}, got "{one}"',
                where=place.at(key),
                hint=f"did you mean {meant}?" if meant else "write one of them",
            )


def _check_names(spec: Spec, place: Place) -> None:
    """The texts that name a model or a device."""
    source, device = spec.workload.source, spec.environment.device
    if source not in FAMILIES and not _SOURCE.fullmatch(source):
        meant = closest(source, FAMILIES)
        raise ProjectError(
            f'workload.source = "{source}" is not {names(FAMILIES)}, FILE.py, FILE.py:NAME, FILE.json, '
            "timm:NAME or torchvision:NAME",
            where=place.at("workload.source"),
            hint=f"did you mean {meant}?" if meant else "write one of them",
        )
    if not _DEVICE.fullmatch(device):
        raise ProjectError(
            f'environment.device must be auto, cpu, a GPU-uuid or a MIG-uuid, got "{device}"',
            where=place.at("environment.device"),
            hint='write "auto" for the first GPU there is',
        )


def _check_length(length: LengthSpec, place: Place) -> None:
    for low, high in (("min", "typical"), ("typical", "max"), ("min", "max")):
        less, more = getattr(length, low), getattr(length, high)
        if less is not None and more is not None and less > more:
            key = f"workload.batch.length.{low}"
            raise ProjectError(
                f"{key} ({less:,}) is larger than {high} ({more:,})",
                where=place.at(key),
                hint="memory is measured at max: order them min, typical, max",
            )


def _check_compare(compare: tuple[str, ...], place: Place) -> None:
    if not compare or len(set(compare)) < len(compare):
        raise ProjectError(
            "precision.compare " + ("names a setting twice" if compare else "is empty"),
            where=place.at("precision.compare"),
            hint='name each setting once, the reference first, such as ["fp32", "bf16-autocast"]',
        )


def check_measured(measured: Measured, place: Place) -> None:
    """Refuse a measured part that somebody edited: every phase's rows add up to what it requested.

    Raises:
        ProjectError: an unknown phase, row or shape, a negative row, or a sum that is not ``requested_bytes``.
    """
    for name, count in (measured.inventory.shapes if measured.inventory is not None else {}).items():
        if not _SHAPE.fullmatch(name) or count < 1:
            key = f"measured.inventory.shapes.{quote(name)}"
            raise ProjectError(
                f"{key} = {count} is not a number of tensors of one shape", where=place.at(key), hint=UNDO
            )
    for name, probe in measured.probe.items():
        for phase, peak in probe.phases.items():
            _check_peak(phase, peak, f"measured.probe.{quote(name)}.phases.{quote(phase)}", "probe", place)
    for name, found in measured.prediction.items():
        for phase, peak in found.phases.items():
            key = f"measured.prediction.{quote(name)}.phases.{quote(phase)}"
            _check_peak(phase, peak, key, "predict", place)


def _check_peak(phase: str, peak: PhasePeak | PredictedPeak, key: str, again: str, place: Place) -> None:
    _check_known(phase, key, "a phase", PHASES, place)
    for row, size in peak.rows.items():
        _check_known(row, f"{key}.rows.{quote(row)}", "a row of the ledger", REQUESTED_ROWS, place)
        if size < 0:
            raise ProjectError(
                f"{key}.rows.{row} is negative", where=place.at(f"{key}.rows.{row}"), hint=UNDO
            )
    total = sum(peak.rows.values())
    if total != peak.requested_bytes:
        raise ProjectError(
            f"{key}.rows sum to {total:,}, requested_bytes says {peak.requested_bytes:,}",
            where=place.at(f"{key}.rows"),
            hint=f"undo the edit (git checkout) or delete that table and {again} again",
        )


def _check_known(name: str, key: str, what: str, known: tuple[str, ...], place: Place) -> None:
    if name not in known:
        meant = closest(name, known)
        raise ProjectError(
            f"{key} is not {what}",
            where=place.at(key),
            hint=(f"did you mean {meant}? Or " if meant else "") + UNDO,
        )
