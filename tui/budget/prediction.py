"""What a prediction says of a process, a budget and the largest batch, and which prediction stands beside a probe.

Pure.  Sizes are bytes; a range is (at least, at most).  Nothing predicted is ever mixed into what was measured:
a prediction of one kind of device never stands beside a measurement on another.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from tui import units
from tui.budget import gpus
from tui.budget.verdict import Verdict, Word, verdict
from tui.project.calibration import Calibration
from tui.project.measured import Environment, Measured, Probe
from tui.project.model import Spec
from tui.project.prediction import PredictedPeak, Prediction, Within

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


@dataclass(frozen=True, slots=True)
class PredictedVerdict(Verdict):
    """A verdict by prediction; the allocator may have to empty its cache for it."""

    retries: int = 0
    """How often it empties its cache in all that was predicted."""
    steady_retries: int = 0
    """How often in every later iteration."""
    held_to: int | None = None
    """Bytes that the allocator must be held to for that; None: the GPU itself holds it."""


def prediction_verdict(spec: Spec, found: Prediction) -> PredictedVerdict:
    """Whether it fits, by prediction, in the spec's budget or the target's whole memory.

    What the process holds beside the allocator is a range: the allocator was simulated within what either end leaves
    of the budget.  The word is that of the largest context, and UNKNOWN where it does not fit then and does with the
    smallest, or where a part is not known.
    """
    process = process_range(found)
    plain = verdict(
        process[1] if process else None,
        spec.budget.job,
        spec.budget.reserve,
        found.worst_phase,
        device_total=found.target_total_bytes if found.semantics == "cuda" else None,
        unknown=_why_no_process(found),
    )
    made = PredictedVerdict(**{one.name: getattr(plain, one.name) for one in fields(plain)})
    origin = "the GPU's total" if made.budget_from.startswith("device total") else made.budget_from
    made = replace(made, by="prediction", budget_from=origin)
    if made.budget_bytes is None:
        return made
    floor = _floor(found)
    over = floor is not None and floor > made.budget_bytes
    if process is None:
        return _short(made, "DOES NOT FIT", floor, "") if over else made
    high = _at(found, found.context_high_bytes or 0, made.budget_bytes, made.reserve_bytes)
    low = _at(found, found.context_low_bytes or 0, made.budget_bytes, made.reserve_bytes)
    if over or high.word == low.word == "DOES NOT FIT":
        return _short(made, "DOES NOT FIT", floor if over else process[1], _where(low.within))
    if high.word is None or low.word is None:
        return _short(made, "UNKNOWN", process[1], NOT_SIMULATED)
    if "DOES NOT FIT" in (high.word, low.word):
        return _short(made, "UNKNOWN", process[1], _ends(found, high, low))
    return _within_budget(made, found, high, low)


NOT_SIMULATED = (
    "it fits only if the allocator empties its cache, and that was not simulated within this budget: "
    "predict again"
)


class _End(NamedTuple):
    """The verdict at one end of the range of contexts."""

    word: Word | None
    context: int
    within: Within | None
    """The simulation that decided; None: none was needed, or there is none."""


def _at(found: Prediction, context: int, budget: int, reserve: int) -> _End:
    by_capacity = {one.capacity_bytes: one for one in found.within}
    reserved = most(found, "reserved_bytes") or 0
    limits: tuple[tuple[int, Word], ...] = (
        (budget - reserve, "FITS"),
        (budget, "FITS ONLY WITHOUT THE RESERVE"),
    )
    missing, last = False, None
    for limit, word in limits:
        one = by_capacity.get(limit - context)
        if one is None and reserved <= limit - context:
            return _End(word, context, None)
        if one is not None and not one.phase:
            return _End(None if missing else word, context, one)
        missing = missing or (one is None and limit > context)
        last = one
    if missing and last is None:
        return _End(None, context, None)
    return _End("DOES NOT FIT", context, last)


def _within_budget(made: PredictedVerdict, found: Prediction, high: _End, low: _End) -> PredictedVerdict:
    reserved = most(found, "reserved_bytes") or 0
    held = [
        (reserved if one.within is None else one.within.reserved_bytes or 0) + one.context
        for one in (high, low)
    ]
    size = max(held)
    assert high.word is not None
    assert made.budget_bytes is not None
    simulated = [one.within for one in (high, low) if one.within is not None]
    retries = max((one.retries for one in simulated), default=0)
    limit = made.budget_bytes - (made.reserve_bytes if high.word == "FITS" else 0)
    below = found.target_total_bytes is not None and limit < found.target_total_bytes
    return replace(
        made,
        word=high.word,
        process_bytes=size,
        spare_bytes=made.budget_bytes - made.reserve_bytes - size,
        why="",
        retries=retries,
        steady_retries=max((one.steady_retries for one in simulated), default=0),
        held_to=limit - high.context if retries and below else None,
    )


def _short(made: PredictedVerdict, word: Word, size: int | None, why: str) -> PredictedVerdict:
    """``made`` with another word, and what is missing of ``size`` bytes."""
    spare = (
        None if size is None or made.budget_bytes is None else made.budget_bytes - made.reserve_bytes - size
    )
    return replace(made, word=word, process_bytes=size, spare_bytes=spare, why=why)


def _floor(found: Prediction) -> int | None:
    """What it takes however well the allocator does: tensors, and the smallest context."""
    least = most(found, "allocated_bytes" if found.semantics == "cuda" else "requested_bytes")
    return None if least is None else least + (found.context_low_bytes or 0)


def _where(one: Within | None) -> str:
    """Where the allocator ran out of memory, and why; "" where it was not simulated."""
    if one is None:
        return ""
    place = f" in operator {one.operator}" if one.operator else ""
    place += f" of {one.module}" if one.module else ""
    allocated, capacity = units.size(one.allocated_bytes), units.size(one.capacity_bytes)
    said = (
        f"out of memory in {one.phase}{place}: it asks for {units.size(one.asked_bytes)} and {allocated} of "
    )
    said += f"{capacity} are allocated"
    if one.cause == "fragmentation":
        return f"{said}; the largest free block has {units.size(one.largest_free_block_bytes)}: fragmentation"
    return f"{said}: capacity"


def _ends(found: Prediction, high: _End, low: _End) -> str:
    """Why the verdict depends on the context."""
    said: list[str] = []
    for one in (low, high):
        word = {"FITS": "it fits", "DOES NOT FIT": "it does not fit"}.get(
            one.word or "", "it takes of the reserve"
        )
        retried = one.within.retries if one.within is not None and not one.within.phase else 0
        word += f", its cache emptied {times(retried)}" if retried else ""
        word += f" ({_where(one.within)})" if one.word == "DOES NOT FIT" and one.within else ""
        said.append(f"with a context of {one.context // 2**20:,} MiB {word}")
    return "; ".join(said) + "; measure once on that GPU to know its context"


def times(count: int) -> str:
    """``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def capacities(spec: Spec, target_total: int | None, context: tuple[int, int] | None) -> list[int]:
    """What the allocator may reserve of the budget, with its reserve and without, at both ends of the context.

    Bytes, the smallest first; empty where a part is not known.
    """
    total = whole_budget(spec, target_total)
    if total is None or context is None:
        return []
    left = {limit - one for limit in (total, total - spec.budget.reserve) for one in context}
    return sorted(one for one in left if one > 0)


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
