"""The closed list of causes for a row that was measured otherwise than predicted, each with its evidence.

A rule returns what the data shows, or None; it never says more than that.  Sizes are bytes, differences are measured
less predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tui import units
from tui.budget import reconcile_evidence as evidence
from tui.budget.forecast import LEAST_BYTES, SEGMENTS_BYTES, UNEXPLAINED, needs_cause
from tui.budget.prediction import RESERVED_BAND
from tui.budget.reconcile_evidence import Case
from tui.project.measured import PhasePeak
from tui.project.prediction import PredictedPeak

KERNEL = "other kernel"
OPTIMIZER = "other optimizer implementation"
TORCH = "other torch version"
SCRATCH = "operator scratch"
HISTORY = "history of the cache"
RESIDENT = "resident object"
INSTANT = "other instant of the peak"
NUMBERS = "Python numbers on the CPU"
APPROXIMATE = "approximate rule"
CAUSES = (KERNEL, OPTIMIZER, TORCH, SCRATCH, HISTORY, RESIDENT, INSTANT, NUMBERS, APPROXIMATE, UNEXPLAINED)
"""Every word that a row's cause can be."""

SEGMENT = 2 * units.MIB
"""The allocator asks the driver for whole multiples of it."""
TRACED = 3
"""Iterations of a traced run: the first, the tracked and the steady one."""
MOST_NUMBERS = 64
"""Bytes of Python numbers in a row, as recorded on the CPU."""
PASSING = (
    "unsharded_weights",
    "gradients",
    "reduction_buckets",
    "input_batch",
    "retained_activations",
    "step_temporaries",
    "operator_scratch",
)
"""Rows that come and go within an iteration."""
_OF_KERNELS = (
    "retained_activations",
    "step_temporaries",
    "operator_scratch",
    "library_workspaces",
    "unattributed",
)
_OF_OPTIMIZER = ("step_temporaries", "operator_scratch", "optimizer_state", "unattributed")
_OF_RESIDENTS = (
    "buffers",
    "input_batch",
    "retained_activations",
    "step_temporaries",
    "library_workspaces",
    "unattributed",
)
_OF_SCRATCH = ("operator_scratch", "unattributed")


@dataclass(frozen=True, slots=True)
class Cause:
    """One word of ``CAUSES`` and what shows it."""

    word: str
    evidence: str = ""

    @property
    def text(self) -> str:
        """``history of the cache: reserved differs by 100 MiB in whole segments``."""
        return f"{self.word}: {self.evidence}" if self.evidence else self.word


Figures = dict[str, tuple[int | None, int | None]]
"""(predicted, measured) by row."""


def shown(key: str, figures: Figures, case: Case) -> Cause | None:
    """The first rule that the data itself shows to explain a row's difference; None: none does."""
    predicted, measured = figures[key]
    if predicted is None or measured is None or case.found is None:
        return None
    difference = measured - predicted
    rules: tuple[Callable[[], Cause | None], ...] = (
        lambda: _history(key, figures, case),
        lambda: numbers(key, difference, case),
        lambda: _resident(difference, predicted, case) or staying(key, difference, predicted, case),
        lambda: _kernel(key, difference, case),
        lambda: _optimizer(key, case),
        lambda: _scratch(key, difference, case),
    )
    return next((found for rule in rules if (found := rule()) is not None), None)


def likely(key: str, case: Case) -> Cause | None:
    """What was known beforehand to make predictions differ; for rows that nothing else explains."""
    return _torch(case) or _approximate(key, case)


def _history(key: str, figures: Figures, case: Case) -> Cause | None:
    if key != "cached" or case.found is None:
        return None
    (told, seen), (inner, around) = figures["allocator_reserved"], figures["tensor_allocated"]
    if told is None or seen is None or inner is None or around is None:
        return None
    # Cached is what is left of two sums: only a difference of the outer one is the cache's own.
    if needs_cause(around - inner, inner) or (seen - told) % SEGMENT:
        return None
    if abs(seen - told) > max(SEGMENTS_BYTES, round(RESERVED_BAND * told)):
        return None
    count = case.found.segments
    held = "" if count is None else f"; the prediction ends with {count:,} segments"
    change = f"{signed(seen - told)} of allocator-reserved in whole segments, tensor-allocated agrees"
    return Cause(HISTORY, change + held)


def numbers(key: str, difference: int, case: Case) -> Cause | None:
    """Tensors of 8 bytes that kernels of the CPU make of Python numbers, which no operator shows."""
    if case.device != "cpu" or difference <= 0:
        return None
    seen = evidence.numbers(case.measured, case.phase, key)
    told = evidence.numbers(case.predicted, case.phase, key)
    if seen is not None and told is not None and 0 < difference <= 8 * (seen - told):
        return Cause(NUMBERS, f"{seen - told:,} tensors of at most 8 B more at the peak")
    if difference <= MOST_NUMBERS and (seen is None or told is None) and key != "input_batch":
        return Cause(NUMBERS, f"{difference:,} B, and kernels of the CPU make a tensor of 8 B of each")
    return None


def _resident(difference: int, predicted: int, case: Case) -> Cause | None:
    probe = case.probe
    if probe is None or difference <= 0:
        return None
    limit = max(LEAST_BYTES, predicted // 100)
    if probe.growth_bytes and difference <= TRACED * probe.growth_bytes + limit:
        times = next(
            (n for n in range(1, TRACED + 1) if abs(difference - n * probe.growth_bytes) <= limit), None
        )
        if times is not None:
            what = ", ".join(probe.growth_of) or "nothing names it"
            said = f"every iteration leaves {units.size(probe.growth_bytes)} over ({what}); {times} of them are here"
            return Cause(RESIDENT, said)
    before = _start(case)
    if before is None or probe.start_bytes is None:
        return None
    more = probe.start_bytes - before
    if more > LEAST_BYTES and abs(difference - more) <= limit:
        return Cause(
            RESIDENT, f"{units.size(more)} more were alive before the first iteration than predicted"
        )
    return None


def staying(key: str, difference: int, predicted: int, case: Case) -> Cause | None:
    """What is alive before and after the measured iteration, and of which the prediction knows nothing."""
    if key not in _OF_RESIDENTS or difference <= 0:
        return None
    seen, told = evidence.staying(case.measured, key), evidence.staying(case.predicted, key)
    if seen is None or told is None:
        return None
    changes = {name: size - told.get(name, 0) for name, size in seen.items() if size > told.get(name, 0)}
    total = sum(changes.values())
    close = total == difference or (total > LEAST_BYTES and not needs_cause(difference - total, predicted))
    if not changes or not close:
        return None
    most = sorted(changes.items(), key=lambda one: (-one[1], one[0]))[:3]
    said = ", ".join(f"{units.size(size)} by {name}" for name, size in most)
    return Cause(RESIDENT, f"alive before and after the iteration and not predicted: {said}")


def minor(key: str, difference: int, predicted: int, case: Case) -> Cause | None:
    """The cause of a difference that is too small to need one, where the data shows it."""
    return numbers(key, difference, case) or staying(key, difference, predicted, case)


def _start(case: Case) -> int | None:
    """Predicted bytes before the first iteration."""
    for name in ("optimizer", "build"):
        phase = case.found.phases.get(name) if case.found else None
        if phase is not None and phase.end_requested_bytes is not None:
            return phase.end_requested_bytes
    return None


def _kernel(key: str, difference: int, case: Case) -> Cause | None:
    if key not in _OF_KERNELS or case.found is None:
        return None
    for name, limits in case.found.ranges.items():
        inside = len(limits) == 2 and 0 <= difference <= limits[1]
        if inside and key in ("operator_scratch", "library_workspaces", "unattributed"):
            span = units.span(limits[0], limits[1])
            return Cause(KERNEL, f"{name.replace('_', ' ')}, declared as {span} GiB")
    seen, assumed = evidence.kernels_seen(case), evidence.kernels_assumed(case)
    if not seen or not assumed or seen == assumed:
        return None
    ran = ", ".join(evidence.operators_of(case, seen - assumed or seen))
    words = f"attention kernel {' and '.join(sorted(assumed))} assumed, {' and '.join(sorted(seen))} ran"
    return Cause(KERNEL, f"{words}: {ran}")


def _optimizer(key: str, case: Case) -> Cause | None:
    in_step = key == "optimizer_state" or (case.phase or "").endswith("step")
    if key not in _OF_OPTIMIZER or not in_step:
        return None
    seen, assumed = evidence.implementation_seen(case), evidence.implementation_assumed(case)
    if not seen or not assumed or seen == assumed:
        return None
    return Cause(OPTIMIZER, f"{assumed} assumed, the step's operators are those of {seen}")


def _scratch(key: str, difference: int, case: Case) -> Cause | None:
    """Scratch that operators are seen to have made, or not to have made, and that comes to the difference."""
    if key not in _OF_SCRATCH:
        return None
    seen = evidence.by_operator(case.measured, case.phase, key)
    told = evidence.by_operator(case.predicted, case.phase, key)
    if seen is None or told is None:
        return None
    changes = {name: seen.get(name, 0) - told.get(name, 0) for name in {**seen, **told}}
    changes.pop("unattributed", None)
    if needs_cause(difference - sum(changes.values()), 0):
        return None
    own = {name: size for name, size in changes.items() if size and (size > 0) == (difference > 0)}
    most = sorted(own.items(), key=lambda one: (-abs(one[1]), one[0]))[:3]
    said = ", ".join(f"{name} {signed(size)}" for name, size in most)
    more = f", {len(own) - len(most):,} more" if len(own) > len(most) else ""
    return Cause(SCRATCH, f"inside {said}{more}") if most else None


def _torch(case: Case) -> Cause | None:
    told, seen = case.found.torch if case.found else "", case.place.torch if case.place else ""
    if not told or not seen or told.split("+")[0] == seen.split("+")[0]:
        return None
    return Cause(TORCH, f"predicted with torch {told}, measured with {seen}")


def _approximate(key: str, case: Case) -> Cause | None:
    if case.found is None or not case.found.approximate or key not in _OF_KERNELS:
        return None
    return Cause(APPROXIMATE, f"the prediction said so of {case.found.approximate[0]}")


def instant(case: Case) -> str:
    """Where the two peaks are, when that is not the same place; "": it is, or is not known."""
    peak, told = case.peak, case.told
    if peak is None or told is None or not peak.operator or not told.operator:
        return ""
    here, there = ((one.operator, one.module, one.micro_batch) for one in (peak, told))
    if here == there:
        return ""
    return f"measured in {_place(peak)}, predicted in {_place(told)}"


def _place(peak: PhasePeak | PredictedPeak) -> str:
    where = f" of {peak.module}" if peak.module else ""
    micro = f", micro-batch {peak.micro_batch + 1}" if peak.micro_batch is not None else ""
    return f"{peak.operator}{where}{micro}"


def signed(size: int) -> str:
    """``+20.0 MiB``."""
    return ("-" if size < 0 else "+") + units.size(abs(size))
