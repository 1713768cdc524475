"""Sentences that several outputs share, so that they say the same thing in the same words."""

from __future__ import annotations

from dataclasses import replace

from tui import units
from tui.budget.prediction import PredictedVerdict, times
from tui.budget.verdict import Verdict
from tui.project.measured import Environment, Precision, Probe
from tui.project.model import Spec
from tui.report.figures import Unit

UNTIMED_OTHERS = "timed for too short a time to tell, or not told by the kernel"


def batch(micro: int, accumulate: int, ranks: int, length: int | None) -> str:
    """``8 x 4 x 1 rank = 32 samples, length 1024``: micro x accumulate x ranks.

    >>> batch(8, 4, 2, None)
    '8 x 4 x 2 ranks = 64 samples'
    """
    ranked = f"{ranks} rank" if ranks == 1 else f"{ranks} ranks"
    total = micro * accumulate * ranks
    end = "" if length is None else f", length {length}"
    return f"{micro} x {accumulate} x {ranked} = {total} sample{'' if total == 1 else 's'}{end}"


def spec_batch(spec: Spec) -> str:
    """The batch that the spec asks for, at its longest."""
    asked = spec.workload.batch
    longest = asked.length.max if asked.length else None
    return batch(asked.micro, asked.accumulate, spec.placement.ranks, longest)


def probe_batch(spec: Spec, probe: Probe) -> str:
    """The batch that a probe ran."""
    return batch(probe.micro_batch, probe.accumulate, spec.placement.ranks, probe.length)


def title(spec: Spec) -> str:
    """The project's title, or its source when it has none."""
    return spec.title or spec.workload.source


def device(environment: Environment | None) -> str:
    """``NVIDIA H100 80GB HBM3 (GPU-1f0c)``."""
    if environment is None:
        return "device n/a: its environment was not saved"
    return f"{environment.device} ({environment.device_id})"


def verdict(found: Verdict, unit: Unit) -> str:
    """The verdict in one sentence that begins with its word and ends with a full stop."""
    if found.by != "measurement":
        word = f"{found.word}, by {found.by}"
        return verdict(replace(found, by="measurement"), unit).replace(found.word, word, 1)
    if found.why or found.spare_bytes is None:
        return f"{found.word}: {found.why or 'process or budget is n/a'}."
    where = f", in the worst phase ({found.worst_phase})" if found.worst_phase else ""
    where += emptied(found)
    if found.word == "FITS":
        beyond = "beyond the reserve" if found.reserve_bytes else "to spare"
        return f"FITS with {unit.text(found.spare_bytes)} {beyond}{where}."
    if found.word == "FITS ONLY WITHOUT THE RESERVE":
        used = f"it uses {unit.text(-found.spare_bytes)} of the {unit.text(found.reserve_bytes)} kept free"
        return f"{found.word}: {used}{where}."
    over = -found.spare_bytes - found.reserve_bytes
    return f"{found.word}: {unit.text(over)} more than the {unit.text(found.budget_bytes)} there are{where}."


def emptied(found: Verdict) -> str:
    """``, its cache emptied 3 times, once in every later iteration``; "" where it is not."""
    if not isinstance(found, PredictedVerdict) or not found.retries:
        return ""
    later = (
        f"{times(found.steady_retries)} in every later iteration"
        if found.steady_retries
        else "none of them later"
    )
    held = ""
    if found.held_to is not None:
        held = f", if the allocator is held to {units.size(found.held_to)}"
    return f", its cache emptied {times(found.retries)} ({later}){held}"


def budget(found: Verdict, unit: Unit) -> list[str]:
    """How process, reserve and budget come together; nothing when one of them is unknown."""
    if found.process_bytes is None or found.budget_bytes is None or found.spare_bytes is None:
        return []
    sign = "+ spare" if found.spare_bytes >= 0 else "- short"
    lines = [
        f"budget {unit.cell(found.budget_bytes)} = process {unit.cell(found.process_bytes)}"
        f" + reserve {unit.cell(found.reserve_bytes)} {sign} {unit.cell(abs(found.spare_bytes))} {unit.name}"
    ]
    if found.budget_from == "entered":
        if found.device_left_bytes is not None:
            left = unit.text(found.device_left_bytes)
            leaves = "GPU has" if found.by == "prediction" else "device leaves"
            lines.append(f"the {leaves} {left}: the entered budget is tighter")
    else:
        lines.append(f"the budget is what the device leaves: {found.budget_from}")
    return lines


def quality(spec: Spec, found: Precision | None, probe: Probe) -> str:
    """Whether the precision that ``probe`` ran reaches the quality target; "" when no target is entered."""
    target = spec.quality.target
    if target is None:
        return ""
    head = f"quality target {units.number(target)}"
    if found is None:
        return f"Not decided: {head}, no comparison of this spec was finished."
    met = [name for name, one in found.settings.items() if one.quality_met]
    if probe.precision in met:
        return f"Quality target met: {units.number(target)}, by {probe.precision} in {found.steps} steps."
    if not met:
        return f"Not decided: {head}, which no setting reaches in {found.steps} steps."
    missed = f"which {probe.precision} does not reach in {found.steps} steps"
    return f"Not decided: {head}, {missed} and {' and '.join(met)} does."


def others_cpu(probe: Probe) -> str:
    """``others took 3 % of the CPUs``, or why that is not known."""
    if probe.others_cpu_ratio is None:
        return f"others' share of the CPUs n/a: {probe.unknown.get('others_cpu_ratio', UNTIMED_OTHERS)}"
    return f"others took {whole_percent(probe.others_cpu_ratio)} of the CPUs"


def whole_percent(share: float) -> str:
    """A fraction of 1 in whole per cent; what is more than nothing never prints as it.

    >>> whole_percent(0.62), whole_percent(0.001), whole_percent(0.0)
    ('62 %', '<1 %', '0 %')
    """
    return "<1 %" if 0 < share < 0.005 else f"{share * 100:.0f} %"


def rate(probe: Probe) -> str:
    """``270.3 samples/s (95 %: 268.1-272.2)``, or why there is no interval."""
    if probe.samples_per_s is None:
        return "samples/s n/a: " + probe.unknown.get("samples_per_s", "not timed")
    shown = f"{units.rate(probe.samples_per_s)} samples/s"
    if probe.samples_per_s_low is None or probe.samples_per_s_high is None:
        return f"{shown} (95 % n/a: {probe.unknown.get('samples_per_s_low', 'not computed')})"
    return f"{shown} (95 %: {units.interval(probe.samples_per_s_low, probe.samples_per_s_high)})"
