"""What to try after a batch that did not fit."""

from __future__ import annotations

from collections.abc import Sequence

from tui.budget.held import beyond
from tui.project.measured import Measured, Probe
from tui.project.model import Spec
from tui.report.figures import Unit

NEGATIVE = ("out-of-memory", "does-not-fit", "fits-without-reserve")


def at_any_batch(spec: Spec, measured: Measured, probe: Probe, unit: Unit) -> str:
    """Why no batch fits, with the sum, when weights and what belongs to them reach the cap; else ""."""
    found = beyond(spec, measured.inventory, probe)
    if found is None:
        return ""
    rows, cap = found
    names = " + ".join(f"{key.replace('_', ' ')} {unit.text(size)}" for key, size in rows.items())
    total = f"declared {names} = {unit.text(sum(rows.values()))}"
    mend = "take a smaller model, an optimizer with less state, or a larger budget"
    return f"No batch fits: {total}, the cap is {unit.text(cap)}; {mend}."


def smaller(measured: Measured, probes: Sequence[Probe], most: int | None = None) -> int | None:
    """Half of the smallest micro-batch, or half of that, the first that is not known to fit not; None: none.

    Args:
        measured: every probe of the project.
        probes: of one spec, none of which fits.
        most: the largest that a line through measured ones lets fit, if there is one.
    """
    least = min(probes, key=lambda one: one.micro_batch)
    known = {
        one.micro_batch
        for one in measured.probe.values()
        if one.outcome in NEGATIVE
        and (one.spec, one.length, one.precision) == (least.spec, least.length, least.precision)
    }
    micro = least.micro_batch // 2
    while micro in known or (most is not None and micro > most):
        micro //= 2
    return micro or None
