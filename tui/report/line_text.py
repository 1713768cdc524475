"""The line through measured batches in a sentence: a planning aid, with how far the points lie from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui import units
from tui.budget import batch
from tui.budget.batch import Line
from tui.project.measured import Probe
from tui.project.model import Spec
from tui.report.figures import Unit

ONLY_MEASURED = "only the measured peak counts"


def requested_line(spec: Spec, probes: Sequence[Probe], unit: Unit) -> str:
    """The line of requested bytes in the worst phase; "" with fewer than two sizes that were traced to the end."""
    points = {
        one.micro_batch: max(peak.requested_bytes for peak in one.phases.values())
        for one in probes
        if one.phases and one.tasks != ("traced",)
    }
    return line_sentence(spec, "requested", points, unit)


def line_sentence(spec: Spec, name: str, points: Mapping[int, int], unit: Unit) -> str:
    """``requested = 2.147 GiB + 918.2 MiB x micro, residual 0 B (0 %): a planning aid.``

    Or why it is none; "" for one point.
    """
    if len(points) < 2:
        return ""
    line = batch.fit(points)
    told = f"{name} = {unit.text(line.fixed_bytes)} + {units.size(line.per_sample_bytes)} x micro"
    if len(points) == 2:
        told += ", residual n/a of 2 sizes"  # a line goes through any two
    else:
        told += (
            f", residual {units.size(line.residual_max_bytes)} ({units.percent(batch.residual_share(line))})"
        )
    if why := departs(spec, line):
        return f"{told}: {why}, so {ONLY_MEASURED}."
    return f"{told}: a planning aid."


def departs(spec: Spec, line: Line) -> str:
    """Why the line says too little even for planning; "" when shapes are fixed and the points follow it."""
    if line.per_sample_bytes <= 0:
        return "it does not grow with the batch"
    if not batch.follows(line):
        return f"a point lies more than {units.percent(batch.FOLLOWS_SHARE)} off"
    length = spec.workload.batch.length
    if length is not None and any(
        one is not None and one != length.max for one in (length.min, length.typical)
    ):
        return "lengths vary and it is of the longest"
    return ""
