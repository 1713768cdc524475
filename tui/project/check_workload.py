"""What no workload can mean: batches that do not multiply, schedulers without a class, patterns without text."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn, cast

from tui.errors import ProjectError
from tui.project.keys import Place, join, quote
from tui.project.model import Spec, WorkloadSpec

CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*([.:][A-Za-z_]\w*)", re.ASCII)
"""The name of a class in full: ``package.module.Class`` or ``module:Class``."""
_FLAGS = ("foreach", "fused")
"""Arguments of torch's optimizers that ``implementation`` stands for."""

MOST_SCHEDULER_STEPS = 1_000
"""After one optimizer step; the largest that means something is the number of ranks or of micro-batches."""


def check_workload(spec: Spec, place: Place, families: Collection[str]) -> None:
    """Refuse a workload that contradicts itself; ``families`` are the sources that have a formula of their own.

    Raises:
        ProjectError: with the key, its line and what to write instead.
    """
    _check_batch(spec, place)
    _check_classes(spec.workload, place)
    for key in ("workload.optimizer.args", "workload.scheduler.args"):
        _check_numbers(_args(spec.workload, key), key, place)
    _check_implementation(spec.workload, place)
    _check_frozen(spec.workload, place)
    _check_formula_args(spec.workload, place, families)


def _fail(place: Place, key: str, message: str, hint: str) -> NoReturn:
    raise ProjectError(f"{key} {message}", where=place.at(key), hint=hint)


def _check_batch(spec: Spec, place: Place) -> None:
    batch, ranks = spec.workload.batch, spec.placement.ranks
    samples = batch.micro * batch.accumulate * ranks
    ranked = f"{ranks:,} rank{'' if ranks == 1 else 's'}"
    if batch.global_batch is not None and batch.global_batch != samples:
        _fail(
            place,
            "workload.batch.global_batch",
            f"= {batch.global_batch:,} is not micro {batch.micro:,} x accumulate {batch.accumulate:,} x "
            f"{ranked} = {samples:,} samples",
            f"write {_instead(batch.global_batch, batch.micro, batch.accumulate, ranks)}",
        )
    if batch.weight_by == "tokens" and batch.tokens is None:
        _fail(
            place,
            "workload.batch.weight_by",
            '= "tokens" needs to know which entry of a batch holds the labels',
            'name it, such as tokens = "labels", or write weight_by = "micro-batch"',
        )
    if batch.tokens is not None and not batch.tokens.strip():
        _fail(place, "workload.batch.tokens", "is empty", 'name an entry of the batch, such as "labels"')
    if not batch.length_of.strip():
        _fail(place, "workload.batch.length_of", "is empty", 'say what length counts, such as "tokens"')
    if batch.dataset is not None and batch.remainder == "drop" and batch.dataset < samples:
        _fail(
            place,
            "workload.batch.dataset",
            f"= {batch.dataset:,} is less than one step's {samples:,} samples, which are dropped: "
            "an epoch has no step",
            'write remainder = "keep" or "pad", or a smaller batch',
        )


def _instead(wanted: int, micro: int, accumulate: int, ranks: int) -> str:
    """What would make the product: the sum itself, another accumulate, another micro."""
    ways = [f"global_batch = {micro * accumulate * ranks}"]
    if wanted % (micro * ranks) == 0:
        ways.append(f"accumulate = {wanted // (micro * ranks)}")
    if wanted % (accumulate * ranks) == 0:
        ways.append(f"micro = {wanted // (accumulate * ranks)}")
    return " or ".join(filter(None, (", ".join(ways[:-1]), ways[-1])))


def scheduler_names(workload: WorkloadSpec) -> Iterator[tuple[str, str]]:
    """(key, class name) of the scheduler, and of those that it is made of (``args.schedulers``)."""
    if workload.scheduler is not None:
        yield "workload.scheduler.name", workload.scheduler.name
        yield from _inner_names(workload.scheduler.args, "workload.scheduler.args")


def _inner_names(args: Mapping[str, Any], key: str) -> Iterator[tuple[str, str]]:
    parts = args.get("schedulers")
    if not isinstance(parts, list):
        return
    for place, part in enumerate(cast(list[Any], parts)):
        inner = f"{key}.schedulers[{place}]"
        table = cast(dict[str, Any], part) if isinstance(part, dict) else {}
        yield f"{inner}.name", str(table.get("name", ""))
        below = table.get("args", {})
        if isinstance(below, dict):
            yield from _inner_names(cast(dict[str, Any], below), f"{inner}.args")


def _check_parts(args: Mapping[str, Any], key: str, place: Place) -> None:
    """Refuse a scheduler of a list that is not a table of its own, such as its bare name."""
    parts = args.get("schedulers")
    for at, part in enumerate(cast(list[Any], parts) if isinstance(parts, list) else ()):
        inner = f"{key}.schedulers[{at}]"
        if not isinstance(part, dict) or "name" not in part:
            _fail(
                place,
                inner,
                f"= {json.dumps(part, ensure_ascii=False, default=str)} does not name a scheduler",
                'write { name = "torch.optim.lr_scheduler.LinearLR", args = { ... } }',
            )
        below = cast(dict[str, Any], part).get("args")
        if isinstance(below, dict):
            _check_parts(cast(dict[str, Any], below), f"{inner}.args", place)


def _check_classes(workload: WorkloadSpec, place: Place) -> None:
    named = [("workload.optimizer.name", workload.optimizer.name), *scheduler_names(workload)]
    if workload.scheduler is not None:
        if workload.scheduler.steps > MOST_SCHEDULER_STEPS:
            _fail(
                place,
                "workload.scheduler.steps",
                f"= {workload.scheduler.steps:,} after every optimizer step is more than "
                f"{MOST_SCHEDULER_STEPS:,}",
                "write how often the scheduler steps for one step of the optimizer, which is 1 in most loops",
            )
        _check_parts(workload.scheduler.args, "workload.scheduler.args", place)
    for key, name in named:
        if CLASS.fullmatch(name):
            continue
        optimizer = key == "workload.optimizer.name"
        example = "torch.optim.AdamW" if optimizer else "torch.optim.lr_scheduler.CosineAnnealingLR"
        _fail(
            place,
            key,
            f'= "{name}" is not the name of a class',
            f'write it in full, such as "{example}" or "module:Class"',
        )


def _args(workload: WorkloadSpec, key: str) -> Mapping[str, Any]:
    if key == "workload.optimizer.args":
        return workload.optimizer.args
    return {} if workload.scheduler is None else workload.scheduler.args


def _check_numbers(args: Mapping[str, Any], key: str, place: Place) -> None:
    """Refuse a number in quotes: no constructor of an optimizer or scheduler takes one."""
    for name, value in args.items():
        inner = join(key, quote(name))
        if isinstance(value, dict):
            _check_numbers(cast(dict[str, Any], value), inner, place)
        elif isinstance(value, str) and _is_number(value):
            _fail(place, inner, f'must be a number, got the text "{value}"', "remove the quotes")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_implementation(workload: WorkloadSpec, place: Place) -> None:
    optimizer = workload.optimizer
    for name in _FLAGS:
        if name in optimizer.args and optimizer.implementation != "default":
            _fail(
                place,
                f"workload.optimizer.args.{name}",
                f'and implementation = "{optimizer.implementation}" both choose the implementation',
                "delete the argument",
            )


def _check_frozen(workload: WorkloadSpec, place: Place) -> None:
    for index, pattern in enumerate(workload.frozen):
        if not pattern.strip():
            _fail(
                place,
                f"workload.frozen[{index}]",
                "is empty, so it names no parameter",
                'write a pattern of names, such as "wte.*", or delete it',
            )


def _check_formula_args(workload: WorkloadSpec, place: Place, families: Collection[str]) -> None:
    if workload.formula_args is None:
        return
    if workload.formula == "none" or (workload.formula is None and workload.source not in families):
        _fail(
            place,
            "workload.formula_args",
            "are the arguments of no family: "
            + ('formula = "none"' if workload.formula else "no formula is named"),
            'name it, such as formula = "decoder", or delete formula_args',
        )
