"""What a measurement and a prediction show of themselves: kernels that ran, the optimizer's loop, who made which bytes.

Pure.  A kernel and an implementation are told by the operators that made storages; where there is no timeline, by what
the prediction assumed and by the operator that set the measured peak.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tui.budget import timeline as timelines
from tui.project.measured import Environment, PhasePeak, Probe
from tui.project.prediction import PredictedPeak, Prediction
from tui.project.timeline import Timeline

_KERNELS = (
    ("flash", re.compile(r"flash_attention")),
    ("efficient", re.compile(r"efficient_attention")),
    ("cuDNN", re.compile(r"cudnn_attention")),
    ("math", re.compile(r"^(_safe_softmax|_scaled_dot_product_attention_math\w*)$")),
)
_ASSUMED_KERNEL = re.compile(r"^attention kernel: (\w+)")
_ASSUMED_LISTS = re.compile(r"^optimizer kernels: (\w+)")
_CLIPPING = ("_foreach_norm", "_foreach_mul_", "_foreach_pow")
_STEPS = re.compile(r"^(sqrt|addcdiv_?|addcmul_?|lerp_?)$")


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement beside its prediction, in one phase."""

    device: str
    phase: str | None
    found: Prediction | None = None
    probe: Probe | None = None
    place: Environment | None = None
    measured: Timeline | None = None
    """Of the probe; None: not read, or not kept."""
    predicted: Timeline | None = None

    @property
    def peak(self) -> PhasePeak | None:
        """The measured one."""
        return self.probe.phases.get(self.phase or "") if self.probe else None

    @property
    def told(self) -> PredictedPeak | None:
        """The predicted one."""
        return self.found.phases.get(self.phase or "") if self.found else None


def kernels_seen(case: Case) -> frozenset[str]:
    """Attention kernels that the measurement ran."""
    operators = _operators(case.measured)
    if case.peak is not None:
        operators |= {case.peak.operator}
    return _kernels(operators)


def kernels_assumed(case: Case) -> frozenset[str]:
    """Those that the prediction took."""
    said = [_ASSUMED_KERNEL.match(one) for one in (case.found.assumptions if case.found else ())]
    assumed = frozenset(one[1] for one in said if one)
    return assumed or _kernels(_operators(case.predicted))


def operators_of(case: Case, kernels: Iterable[str]) -> list[str]:
    """Operators by which the measurement showed ``kernels``."""
    rules = [pattern for name, pattern in _KERNELS if name in kernels]
    operators = _operators(case.measured)
    if case.peak is not None:
        operators |= {case.peak.operator}
    return sorted(one for one in operators if any(rule.search(one) for rule in rules))


def implementation_seen(case: Case) -> str:
    """foreach, fused or loop: how the measured optimizer went over its parameters; "": not seen."""
    return _implementation(case.measured)


def implementation_assumed(case: Case) -> str:
    """The same of the prediction."""
    said = [_ASSUMED_LISTS.match(one) for one in (case.found.assumptions if case.found else ())]
    return next((one[1] for one in said if one), "") or _implementation(case.predicted)


def by_operator(timeline: Timeline | None, phase: str | None, row: str) -> dict[str, int] | None:
    """Bytes of ``row`` at the peak of ``phase`` by the operator that made them; None: no such phase."""
    found = timelines.peak_in(timeline, phase) if timeline is not None and phase is not None else None
    if found is None or timeline is None:
        return None
    sizes = Counter[str]()
    for one in timelines.alive(timeline, found[0]):
        if one.row == row:
            sizes[one.operator or one.row.replace("_", " ")] += one.bytes
    return dict(sizes)


def staying(timeline: Timeline | None, row: str) -> dict[str, int] | None:
    """Bytes of ``row`` that are alive before and after the iteration, by what they are; None: no timeline."""
    if timeline is None:
        return None
    sizes = Counter[str]()
    for one in timeline.storages:
        if one.row == row and one.born < 0 and one.died is None:
            where = f" in {one.module}" if one.module else ""
            sizes[f"{one.operator or row.replace('_', ' ')}{where}"] += one.bytes
    return dict(sizes)


def numbers(timeline: Timeline | None, phase: str | None, row: str) -> int | None:
    """How many storages of at most 8 bytes of ``row`` are alive at the peak: Python numbers made tensors."""
    found = timelines.peak_in(timeline, phase) if timeline is not None and phase is not None else None
    if found is None or timeline is None:
        return None
    return sum(1 for one in timelines.alive(timeline, found[0]) if one.row == row and 0 < one.bytes <= 8)


def _operators(timeline: Timeline | None) -> set[str]:
    return {one.operator for one in timeline.storages if one.operator} if timeline is not None else set()


def _kernels(operators: Iterable[str]) -> frozenset[str]:
    fused = frozenset(
        name for name, rule in _KERNELS[:3] if any(rule.search(operator) for operator in operators)
    )
    return fused or frozenset("math" for operator in operators if _KERNELS[3][1].search(operator))


def _implementation(timeline: Timeline | None) -> str:
    if timeline is None:
        return ""
    made: set[str] = set()
    for one in timeline.storages:
        phase = timelines.phase_at(timeline, one.born) if one.born >= 0 else None
        if phase is not None and phase.name == "step":
            made.add(one.operator)
    if any(one.startswith("_fused_") for one in made):
        return "fused"
    if any(one.startswith("_foreach_") and one not in _CLIPPING for one in made):
        return "foreach"
    return "loop" if any(_STEPS.match(one) for one in made) else ""
