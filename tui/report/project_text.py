"""The hand-written part of a project as TOML: a whole project that can be saved and run."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any, cast

import tomli_w

from tui.project.measured import Probe
from tui.project.model import LengthSpec, Spec
from tui.units import GIB, MIB


def as_run(spec: Spec, probe: Probe) -> Spec:
    """``spec`` with the batch and precision that ``probe`` ran, and nothing that belongs to one machine."""
    batch = spec.workload.batch
    length = batch.length
    if probe.length is not None:
        kept = length if length and length.max == probe.length else None
        length = kept or LengthSpec(max=probe.length)
    ran = replace(batch, micro=probe.micro_batch, accumulate=probe.accumulate, length=length)
    samples = ran.micro * ran.accumulate * spec.placement.ranks
    if ran.global_batch is not None:
        ran = replace(ran, global_batch=samples)
    if ran.dataset is not None and ran.remainder == "drop" and ran.dataset < samples:
        ran = replace(ran, dataset=None)  # a file that says both is refused: an epoch would have no step
    return replace(
        spec,
        workload=replace(spec.workload, batch=ran),
        precision=replace(spec.precision, use=probe.precision),
        environment=replace(spec.environment, python=None, launch=None),
    )


def project_toml(spec: Spec) -> str:
    """``spec`` as TOML; what is the default is left out, except what a reader looks for.

    >>> from tui.project.model import WorkloadSpec
    >>> print(project_toml(Spec(WorkloadSpec("mlp"))), end="")
    schema = 1
    <BLANKLINE>
    [workload]
    source = "mlp"
    <BLANKLINE>
    [workload.batch]
    micro = 1
    accumulate = 1
    <BLANKLINE>
    [precision]
    use = "fp32"
    """
    table = _said(spec)
    batch = {"micro": spec.workload.batch.micro, "accumulate": spec.workload.batch.accumulate}
    workload = table.pop("workload")
    workload["batch"] = batch | workload.get("batch", {})
    table["precision"] = {"use": spec.precision.use} | table.get("precision", {})
    if "budget" in table:
        table["budget"] = {key: _size(value) for key, value in table["budget"].items()}
    head = {"schema": spec.schema} | {key: table.pop(key) for key in ("title",) if key in table}
    return tomli_w.dumps(head | {"workload": workload} | table)


def _size(value: object) -> object:
    """Whole GiB or MiB with their unit, other sizes as bytes."""
    if not isinstance(value, int) or not value:
        return value
    for unit, name in ((GIB, "GiB"), (MIB, "MiB")):
        if value % unit == 0:
            return f"{value // unit} {name}"
    return value


def _said(value: Any) -> dict[str, Any]:
    """Fields of a dataclass that are not their default, as TOML takes them."""
    table: dict[str, Any] = {}
    for spec in dataclasses.fields(value):
        one = getattr(value, spec.name)
        default = spec.default_factory() if callable(spec.default_factory) else spec.default
        if one == default or one is None:
            continue
        table[spec.name] = _said(one) if dataclasses.is_dataclass(one) else _plain(one)
    return table


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in cast("dict[str, Any]", value).items()}
    return value
