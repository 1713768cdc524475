"""What a prediction says of a process, a budget and the largest batch, and which prediction stands beside a probe.

Pure.  Sizes are bytes; a range is (at least, at most).  Nothing predicted is ever mixed into what was measured:
a prediction of one kind of device never stands beside a measurement on another.
"""

from __future__ import annotations

from dataclasses import replace

from tui.budget import gpus
from tui.budget.verdict import Verdict, verdict
from tui.project.calibration import Calibration
from tui.project.measured import Environment, Measured, Probe
from tui.project.model import Spec
from tui.project.prediction import PredictedPeak, Prediction

LEAST_DIGITS = len("sha256:") + 8
RESERVED_BAND = 0.006
"""Share by which reserved bytes may be off for the history of the cache alone, as recorded traces show."""
NCCL_BYTES = (920 * 2**20, 2970 * 2**20)
"""NCCL and its buffers of one communicator on 8 x H100, in public logs of torch 2.10 and of 2.4."""
NO_CONTEXT = "published for Ampere to Hopper GPUs, none for {}: torch 2.1 or newer"
ON_CPU = "Python, libraries and kept heap are not predicted on the CPU"


def context_of(
    target: gpus.Gpu | None, measured: Measured, ranks: int = 1
) -> tuple[tuple[int, int] | None, str]:
    """What a process holds beside the caching allocator, and where that range comes from.

    The latest calibration of the same GPU comes first, then what is published of it, then the widest of the table.
    NCCL's published range is added for several ranks unless a calibration has it.
    """
    found = calibration_of(target, measured)
    if found is not None and ranks == 1:
        key, one = found
        versions = f"torch {one.torch}" + (f", driver {one.driver}" if one.driver else "")
        return (one.context_bytes, one.context_bytes), f"calibrated by {one.probe} ({key}, {versions})"
    if target is not None and target.context_bytes is not None:
        (low, high), origin = target.context_bytes, target.context_from
    else:
        low, high = gpus.widest_context()
        origin = NO_CONTEXT.format("this one" if target is None or target.bytes_alone else target.name)
    if ranks > 1:
        low, high = low + NCCL_BYTES[0], high + NCCL_BYTES[1]
        origin += "; NCCL as published for 8 x H100"
    return (low, high), origin


def calibration_of(target: gpus.Gpu | None, measured: Measured) -> tuple[str, Calibration] | None:
    """The latest calibration of the GPU that is named, with the id of its environment."""
    if target is None:
        return None
    own = [(key, one) for key, one in measured.calibration.items() if gpus.same(one.device, target.name)]
    return max(own, key=lambda item: (item[1].at, item[0]), default=None)


def workspaces_of(target: gpus.Gpu | None, measured: Measured) -> dict[str, int]:
    """Measured sizes of library workspaces on that GPU, for the child; empty: rules stand in for them."""
    found = calibration_of(target, measured)
    size = None if found is None else found[1].cublas_bytes
    return {} if size is None else {"cublas_bytes": size}


def process_range(found: Prediction, phase: str | None = None) -> tuple[int, int] | None:
    """What the device will charge to the process; None: not known.

    Args:
        found: the prediction.
        phase: at whose peak; None: at its most.
    """
    peaks = found.phases.values() if phase is None else [found.phases[phase]]
    held = [one.reserved_bytes for one in peaks]
    known = [size for size in held if size is not None]
    low, high = found.context_low_bytes, found.context_high_bytes
    if len(known) < len(held) or not known or low is None or high is None:
        return None
    return max(known) + low, max(known) + high


def most(found: Prediction, name: str) -> int | None:
    """The largest ``requested_bytes``, ``allocated_bytes`` or ``reserved_bytes`` of any phase; None: not known."""
    sizes = [getattr(one, name) for one in found.phases.values()]
    return None if None in sizes else max(sizes, default=None)


def worst_peak(found: Prediction) -> PredictedPeak | None:
    """The peak of the worst phase."""
    return found.phases.get(found.worst_phase or "")


def prediction_verdict(spec: Spec, found: Prediction) -> Verdict:
    """Whether it fits, by prediction: FITS by the most that it may take, DOES NOT FIT by the least.

    The budget is the spec's, or the target's whole memory.  Between the two the word is UNKNOWN: the allocator empties
    its cache before it gives up, and the context is a range.
    """
    process = process_range(found)
    made = verdict(
        process[1] if process else None,
        spec.budget.job,
        spec.budget.reserve,
        found.worst_phase,
        device_total=found.target_total_bytes if found.semantics == "cuda" else None,
        unknown=_why_no_process(found),
    )
    if made.budget_from.startswith("device total"):
        made = replace(made, budget_from="the GPU's total")
    made = replace(made, by="prediction")
    if made.budget_bytes is None:
        return made
    least = most(found, "allocated_bytes" if found.semantics == "cuda" else "requested_bytes")
    floor = None if least is None else least + (found.context_low_bytes or 0)
    if floor is not None and floor > made.budget_bytes:
        short = made.budget_bytes - made.reserve_bytes - floor
        return replace(made, word="DOES NOT FIT", process_bytes=floor, spare_bytes=short, why="")
    if made.word != "DOES NOT FIT":
        return made
    why = "it fits only if the allocator empties its cache, or the context is small: measure it"
    return replace(made, word="UNKNOWN", why=why, spare_bytes=None)


def _why_no_process(found: Prediction) -> str:
    if found.semantics == "cpu":
        return ON_CPU
    return found.unknown.get("context_low_bytes", "what the process holds beside the allocator is not known")


def reserved_limit(
    spec: Spec, target_total: int | None, context: tuple[int, int] | None
) -> tuple[int | None, str]:
    """Bytes that the allocator may hold so that budget less reserve is kept, and how they come about.

    Returns:
        (None, the reason) where a part is not known.
    """
    total = whole_budget(spec, target_total)
    if total is None:
        return None, "no budget is entered and no GPU is named"
    if context is None:
        return None, "what a process holds beside the allocator is not known"
    left = total - spec.budget.reserve - context[1]
    return (left, "") if left > 0 else (None, "the context alone takes the budget less the reserve")


def whole_budget(spec: Spec, target_total: int | None) -> int | None:
    """The entered budget or the GPU's memory, whichever is smaller; None: neither is known."""
    return min((size for size in (spec.budget.job, target_total) if size is not None), default=None)


def is_same_spec(one: str, other: str) -> bool:
    """Whether two fingerprints are of the same spec; a shortened one counts from 8 digits on."""
    short, long = sorted((one, other), key=len)
    return len(short) >= LEAST_DIGITS and long.startswith(short)


def beside(measured: Measured, probe: Probe) -> tuple[str, Prediction] | None:
    """The latest prediction of what ``probe`` measured: the same spec, batch and precision, for the same device."""
    place = measured.environment.get(probe.environment)
    own = [
        (id, one)
        for id, one in measured.prediction.items()
        if one.phases
        and is_same_spec(one.spec, probe.spec)
        and (one.precision, one.micro_batch, one.accumulate, one.length, one.semantics)
        == (probe.precision, probe.micro_batch, probe.accumulate, probe.length, probe.device)
        and one.ranks == 1
        and _same_place(one, place)
    ]
    return max(own, default=None, key=lambda item: item[0])


def _same_place(found: Prediction, place: Environment | None) -> bool:
    """A prediction without a named GPU is of none in particular, so it is not of this one either."""
    if found.semantics == "cpu":
        return True
    return place is not None and gpus.same(found.target, place.device) and found.allocator == place.allocator


def of_spec(spec: Spec, measured: Measured) -> tuple[str, Prediction] | None:
    """The latest prediction of the batch, length and precision that the spec asks for; else the latest of all."""
    batch = spec.workload.batch
    longest = batch.length.max if batch.length else None
    asked = (batch.micro, batch.accumulate, longest, spec.precision.use)
    found = [(id, one) for id, one in sorted(measured.prediction.items()) if one.phases]
    own = [
        (id, one)
        for id, one in found
        if (one.micro_batch, one.accumulate, one.length, one.precision) == asked
    ]
    return next((group[-1] for group in (own, found) if group), None)
