"""Step 1: the parameter formula against the framework's unique inventory."""

from __future__ import annotations

import dataclasses

from tui.budget import params
from tui.engine.context import Context, StepResult
from tui.engine.steps import common
from tui.errors import ProjectError
from tui.project import save
from tui.project.load import Project
from tui.project.measured import Inventory, Measured


async def run(context: Context) -> StepResult:
    """Count in a child, compare, save ``measured.inventory``; code 1 when formula and inventory disagree."""
    project, spec = common.ready(context)
    formula = formula_of(project)
    outcome = await context.measure(
        common.plan(context, project, "inventory", device="cpu"), "parameter inventory"
    )
    if outcome.word != "done":
        return common.failed(outcome)
    table = dict(outcome.results["inventory"])
    table["shared"] = tuple(table["shared"])
    inventory = Inventory(
        spec=spec,
        **table,
        formula=formula.family if formula else None,
        formula_parameters=formula.total if formula else None,
        formula_parts=formula.parts if formula else {},
        formula_text=formula.text if formula else "",
    )

    def put(measured: Measured) -> Measured:
        old = measured.inventory
        kept = old.gradient_receiving if old is not None and old.spec == spec else None
        return dataclasses.replace(
            measured, inventory=dataclasses.replace(inventory, gradient_receiving=kept)
        )

    save.record(context.project_path, put, kept_in=common.journal_name([outcome]))
    if formula is None:
        return StepResult(
            "done", 0, f"{inventory.unique_parameters:,} parameters, no formula to check against"
        )
    difference = inventory.unique_parameters - formula.total
    if difference:
        return StepResult("disagree", 1, f"inventory and formula differ by {difference:+,} parameters")
    return StepResult("agree", 0, f"{inventory.unique_parameters:,} parameters by formula and by inventory")


def formula_of(project: Project) -> params.Formula | None:
    """The formula that the project asks to be checked; None without one.

    Raises:
        ProjectError: there is no such formula, or its arguments are wrong.
    """
    workload = project.spec.workload
    family = workload.formula or (workload.source if workload.source in params.FAMILIES else "none")
    if family == "none":
        return None
    try:
        return params.formula(family, workload.args)
    except ValueError as error:
        key = "workload.args" if family in params.FAMILIES else "workload.formula"
        raise ProjectError(
            str(error), where=project.at(key), hint='formula = "none" skips the check'
        ) from error
