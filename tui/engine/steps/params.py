"""Step 1: the parameter formula against the framework's unique inventory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tui.budget import alike, checked, configurations, difference
from tui.budget.params import FAMILIES, Formula
from tui.engine.context import Context, StepResult
from tui.engine.outcome import Outcome
from tui.engine.steps import common
from tui.errors import ProjectError, RunError
from tui.probe.protocol import Plan
from tui.project import configuration, modules, save, trust
from tui.project.fingerprint import model_hash, spec_hash
from tui.project.load import Project
from tui.project.measured import Inventory, Measured


async def run(context: Context) -> StepResult:
    """Count in a child, compare, save ``measured.inventory``; code 1 when formula and inventory disagree.

    Nothing is placed, so a placement that cannot be measured here is no obstacle: its share of a rank is arithmetic.
    """
    project = context.load()
    trust.require(project, context.options.trust)
    spec, found = spec_hash(project), configuration.of(project)
    formula = formula_of(project, found)
    outcome = await context.measure(_plan(context, project), "parameter inventory")
    table = counted(outcome)
    if table is None:
        return common.failed(outcome)
    journal = common.journal_name([outcome])
    inventory = Inventory(
        spec=spec,
        model=model_hash(project),
        **table,
        formula=formula.family if formula else None,
        formula_parameters=formula.total if formula else None,
        formula_parts=formula.parts if formula else {},
        formula_text=formula.text if formula else "",
        journal=journal,
    )
    if formula is not None:
        inventory = _beside(inventory, formula, arguments_of(project, found))

    def put(measured: Measured) -> Measured:
        return dataclasses.replace(measured, inventory=_with_old(inventory, measured.inventory))

    save.record(context.project_path, put, kept_in=journal)
    return _result(inventory)


def _plan(context: Context, project: Project) -> Plan:
    """The plan of the count; a backward runs at the shortest length, memory is of no interest here."""
    plan = common.plan(context, project, "inventory", device="cpu")
    length = project.spec.workload.batch.length
    if length is not None:
        plan.batch["length_min"] = length.min
    return plan


def counted(outcome: Outcome) -> dict[str, Any] | None:
    """The inventory's table of a child; None: it has none.

    The count is told before the backward is run: a crash in that one costs its own figures, not the count.
    """
    table = outcome.results.get("inventory")
    if table is None or outcome.word not in ("done", "crashed"):
        return None
    unknown: dict[str, str] = dict(table["unknown"])
    if outcome.word == "crashed":
        unknown["gradient_receiving"] = outcome.sentence
    return {**table, "shared": tuple(table["shared"]), "unknown": unknown}


def _with_old(inventory: Inventory, old: Inventory | None) -> Inventory:
    """``inventory`` with what Verify or a probe of the same model saw of the gradients, where it saw none itself."""
    if inventory.gradient_receiving is not None or old is None or old.model != inventory.model:
        return inventory
    if old.gradient_receiving is None:
        return inventory
    unknown = {key: why for key, why in inventory.unknown.items() if key != "gradient_receiving"}
    return dataclasses.replace(inventory, gradient_receiving=old.gradient_receiving, unknown=unknown)


def _beside(inventory: Inventory, formula: Formula, args: Mapping[str, Any] | None) -> Inventory:
    """``inventory`` with its parts under the formula's names where they are the same, and what the difference is."""
    differs = formula.total != inventory.unique_parameters
    try:
        tree = modules.read(modules.path_of(inventory.journal))
    except RunError as error:
        said = f"explained 0 of {abs(inventory.unique_parameters - formula.total):,}: {error}"
        return dataclasses.replace(inventory, difference=said) if differs else inventory
    groups = alike.named(formula.parts, tree, inventory.groups)
    said = difference.explain(formula, tree, inventory.groups, args).sentence if differs else ""
    return dataclasses.replace(inventory, groups=groups, difference=said)


def _result(inventory: Inventory) -> StepResult:
    count = f"{inventory.unique_parameters:,} parameters"
    if inventory.formula_parameters is None:
        return StepResult("done", 0, f"{count}, no formula to check against")
    more = inventory.unique_parameters - inventory.formula_parameters
    if more:
        return StepResult("disagree", 1, f"inventory and formula differ by {more:+,} parameters")
    return StepResult("agree", 0, f"{count} by formula and by inventory")


def formula_of(project: Project, found: Mapping[str, Any] | None) -> Formula | None:
    """The formula that the project asks to be checked; None without one.

    Args:
        project: the project.
        found: the configuration that its source names, see ``project.configuration``.

    Raises:
        ProjectError: there is no such formula, or its arguments are wrong.
    """
    try:
        return checked.formula_of(project.spec, found)
    except ValueError as error:
        workload = project.spec.workload
        key = "workload.args" if workload.formula_args is None else "workload.formula_args"
        if workload.formula is not None and workload.formula not in FAMILIES:
            key = "workload.formula"
        own = workload.source in FAMILIES and key == "workload.args"  # it cannot be built with them either
        hint = "" if own else 'formula = "none" skips the check'
        raise ProjectError(str(error), where=project.at(key), hint=hint) from error


def arguments_of(project: Project, found: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The arguments that ``formula_of`` was given, None where they are not the project's own to change."""
    workload = project.spec.workload
    if workload.formula_args is not None:
        return workload.formula_args
    if found is not None:
        mapped = configurations.arguments_of(found)
        return mapped[1] if mapped is not None else None
    return workload.args
