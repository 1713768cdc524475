"""What no budget can mean: a reserve that leaves nothing or is not the sum of its parts, rows of no ledger."""

from __future__ import annotations

import dataclasses

from tui import units
from tui.errors import ProjectError
from tui.project.keys import Place
from tui.project.model import BudgetSpec, Spec


def with_reserve(budget: BudgetSpec, *, said: bool) -> BudgetSpec:
    """The budget whose reserve is the sum of its parts, and is for what they are for, unless that was said.

    Args:
        budget: as it was written.
        said: whether ``budget.reserve`` is there; then it stays what it is.

    >>> found = with_reserve(BudgetSpec(reserve_parts={"checkpoint": 2 * units.GIB, "validation": 5}), said=False)
    >>> found.reserve, found.reserve_for
    (2147483653, 'checkpoint 2 GiB, validation 5 B')
    """
    parts = budget.reserve_parts
    if not parts:
        return budget
    told = budget.reserve_for or ", ".join(f"{name} {short(size)}" for name, size in parts.items())
    return dataclasses.replace(
        budget, reserve=budget.reserve if said else sum(parts.values()), reserve_for=told
    )


def check_budget(budget: BudgetSpec, place: Place) -> None:
    """Refuse a reserve that is not the sum of its parts, or under which nothing could fit.

    Raises:
        ProjectError: with the key, its line and how to mend it.
    """
    parts = budget.reserve_parts
    if any(not name.strip() for name in parts):
        raise ProjectError(
            "budget.reserve_parts has a part without a name",
            where=place.at("budget.reserve_parts"),
            hint='name what it is for, such as "longest batch"',
        )
    if parts and sum(parts.values()) != budget.reserve:
        raise ProjectError(
            f"budget.reserve ({short(budget.reserve)}) is not the sum of budget.reserve_parts "
            f"({short(sum(parts.values()))})",
            where=place.at("budget.reserve"),
            hint="delete the line reserve: the parts add up to it",
        )
    if budget.job is not None and budget.reserve >= budget.job:
        key = "budget.reserve" if "budget.reserve" in place.lines or not parts else "budget.reserve_parts"
        line = place.line("budget.job")
        raise ProjectError(
            f"budget.reserve ({short(budget.reserve)}) is not smaller than budget.job "
            f"({short(budget.job)}{f', line {line}' if line else ''}), so nothing could fit",
            where=place.at(key),
            hint="lower it or raise the job's budget",
        )


def check_ledger(spec: Spec, place: Place) -> None:
    """Refuse entered sizes that contradict one another or the placement.

    Raises:
        ProjectError: with the key, its line and how to mend it.
    """
    found, host = spec.ledger, spec.ledger.host
    for key, value in (
        ("ledger.host.workers", host.workers),
        ("ledger.expert_parameters", found.expert_parameters),
    ):
        if value is not None and value < 0:
            raise ProjectError(
                f"{key} must be at least 0, got {value}", where=place.at(key), hint="write 0 or more"
            )
    taken = (found.other_processes or 0) + (found.driver_reserved or 0)
    if found.device_total is not None and taken >= found.device_total:
        raise ProjectError(
            f"ledger.device_total ({short(found.device_total)}) is not larger than what others and the driver "
            f"hold of it ({short(taken)}), so nothing could fit",
            where=place.at("ledger.device_total"),
            hint="correct one of them",
        )
    if found.expert_parameters is not None and spec.placement.expert_parallel == 1:
        raise ProjectError(
            "ledger.expert_parameters is what placement.expert_parallel divides, which is 1",
            where=place.at("ledger.expert_parameters"),
            hint="delete the line, or set placement.expert_parallel",
        )


def short(size: int) -> str:
    """``60 GiB`` where that is exact, as a person would have written it."""
    whole, left = divmod(size, units.GIB)
    return f"{whole:,} GiB" if whole and not left else units.size(size)
