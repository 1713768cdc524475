"""How a probe ended: by its verdict, or by what stopped it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tui.budget import exhausted
from tui.budget.exhausted import Numbers
from tui.budget.ledger import probe_verdict
from tui.budget.would_fit import SURVIVED, known, would_fit
from tui.engine.outcome import Outcome
from tui.project.measured import Probe
from tui.project.model import Spec

MAKING = "batch"
"""Where a batch is made on the host, which is no phase of an iteration (``probe.tracing.MAKING``)."""
NOT_TRACED = "it was not traced: only whether it fits was asked"
NO_CACHE = "the CPU has no caching allocator"


def with_outcome(spec: Spec, saved: Iterable[Probe], probe: Probe, outcomes: Sequence[Outcome]) -> Probe:
    """``probe`` with how it ended: by its verdict, or by what stopped it.

    Args:
        spec: budget and reserve.
        saved: probes of the project, which say what would fit when this one does not.
        probe: with its phases and readings.
        outcomes: of its children, traced, then timed; the last one decides.
    """
    last = outcomes[-1]
    if last.word == "out-of-memory":
        return _exhausted(spec, saved, probe, outcomes)
    if last.word == "done":
        unknown = dict(probe.unknown)
        if outcomes[0].word == "out-of-memory":
            told = _sentence(outcomes[0], _details(outcomes[0]))
            unknown["phases"] = f"tracing needs memory of its own, and did not have it ({told})"
        outcome = probe_verdict(spec, probe).outcome
        return dataclasses.replace(probe, outcome=outcome, unknown=unknown)
    word = "cancelled" if last.word == "cancelled" else "failed"
    return dataclasses.replace(probe, outcome=word, failure=last.sentence)


def _details(outcome: Outcome) -> dict[str, Any]:
    return outcome.failure.details if outcome.failure is not None else {}


def _exhausted(spec: Spec, saved: Iterable[Probe], probe: Probe, outcomes: Sequence[Outcome]) -> Probe:
    """The figures are those of the child that decides, what was alive is from the one that was traced."""
    details, traced = _details(outcomes[-1]), _details(outcomes[0])
    same = _place(outcomes[-1]) == _place(outcomes[0])
    shown = {
        **({key: traced[key] for key in ("operator", "module") if key in traced} if same else {}),
        **details,
    }
    numbers = _numbers(spec, probe, details)
    found = exhausted.classify(numbers)
    index = _iteration(outcomes[-1], shown)
    probe = dataclasses.replace(
        probe,
        outcome="out-of-memory",
        failure=_sentence(outcomes[-1], shown, probe.accumulate),
        asked_bytes=numbers.requested,
        limit_bytes=details.get("limit_bytes") or probe.limit_bytes,
        exhausted_class=found.word,
        exhausted_why=found.why,
        exhausted_phase=_phase(outcomes[-1], shown).removeprefix("first."),
        exhausted_iteration=index,
        exhausted_micro=shown.get("micro"),
        exhausted_operator=shown.get("operator") or None,
        exhausted_module=shown.get("module") or None,
        exhausted_allocated_bytes=numbers.allocated,
        exhausted_reserved_bytes=numbers.reserved,
        largest_free_block_bytes=numbers.largest_free,
        free_blocks_bytes=numbers.free,
        device_free_bytes=numbers.device_free,
        **_alive(probe, traced, outcomes, same),
    )
    budget = spec.budget
    limit = None if budget.job is None else budget.job - budget.reserve
    others = known(spec, probe, saved)
    fits = would_fit(probe, numbers, found.word, others, limit)
    probe = dataclasses.replace(probe, would_fit=fits or None)
    return dataclasses.replace(probe, unknown={**probe.unknown, **_reasons(probe, traced)})


def _alive(
    probe: Probe, traced: Mapping[str, Any], outcomes: Sequence[Outcome], same: bool
) -> dict[str, Any]:
    """What was alive by row, module and tensor, and where: the traced child seldom fails at the very same place."""
    names = ("alive", "alive_modules", "alive_top")
    source = str(traced.get("alive_source") or "") or None
    phase = _phase(outcomes[-1], _details(outcomes[-1]))
    survived: dict[str, Any] = traced.get("survived") or {}
    there = survived.get(phase)
    if not same and there:
        source = f"the traced run at its peak of {phase.removeprefix('first.')}, {SURVIVED}"
        return {name: dict(there[name]) for name in names} | {"alive_source": source}
    if traced.get("alive"):
        if not same:
            source = f"{source}; where the traced run failed ({_sentence(outcomes[0], traced)})"
        return {name: dict(traced.get(name) or {}) for name in names} | {"alive_source": source}
    worst = phase if phase in probe.phases else probe.worst_phase
    if worst and probe.phases:
        source = f"the traced run at its peak of {worst.removeprefix('first.')}, {SURVIVED}"
        return {"alive": dict(probe.phases[worst].rows), "alive_source": source}
    return {}


def _numbers(spec: Spec, probe: Probe, details: Mapping[str, Any]) -> Numbers:
    budget = spec.budget.job
    others = probe.readings.get("others")
    place: Any = details.get("place") or probe.device
    allocated = details.get("allocated_bytes")
    return Numbers(
        requested=details.get("asked_bytes"),
        device_free=details.get("device_free_bytes"),
        reserved=details.get("reserved_bytes"),
        allocated=details.get("requested_bytes") if allocated is None and place == "cpu" else allocated,
        largest_free=details.get("largest_free_block_bytes"),
        free_sum=details.get("free_blocks_bytes"),
        cap=None if budget is None else (details.get("limit_bytes") or budget),
        others=others.bytes if others is not None else None,
        device_total=details.get("device_total_bytes"),
        segment=details.get("segment_bytes"),
        place=place,
        baseline=details.get("baseline_bytes"),
        inside=bool(details.get("too_small_for_torch")),
    )


def _reasons(probe: Probe, traced: Mapping[str, Any]) -> dict[str, str]:
    """Why each figure of the moment that is not known is not."""
    cache = NO_CACHE if probe.device == "cpu" else "this torch does not tell, and nothing recorded it"
    reasons = {
        "asked_bytes": "the error does not say how much was asked for",
        "alive": str(traced.get("alive_unknown") or NOT_TRACED),
        "alive_modules": "no traced run failed at that place" if probe.alive else NOT_TRACED,
        "alive_top": "no traced run failed at that place" if probe.alive else NOT_TRACED,
        "exhausted_iteration": "it was not in an iteration, or not every iteration is told while it is timed",
        "exhausted_micro": "no micro-batch was being run, or it is not told while iterations are timed",
        "exhausted_operator": "an untraced run does not see operators",
        "exhausted_module": "the operator lies in no module, or was not seen",
        "exhausted_allocated_bytes": "not read as it failed",
        "exhausted_reserved_bytes": cache,
        "largest_free_block_bytes": cache,
        "free_blocks_bytes": cache,
        "device_free_bytes": "not read as it failed",
        "would_fit": "nothing that was measured says so",
    }
    return {name: why for name, why in reasons.items() if getattr(probe, name) in (None, {})}


def _phase(last: Outcome, details: Mapping[str, Any]) -> str:
    return str(details.get("phase") or (last.failure.phase if last.failure else "") or last.phase)


def _iteration(last: Outcome, details: Mapping[str, Any]) -> int | None:
    phase, index = _phase(last, details), details.get("iteration")
    if phase.startswith("first."):
        return 0
    if index is None and phase in ("forward", "backward", "step", MAKING) and last.iterations:
        timed = any(one.kind == "timed" for one in last.iterations)  # of these not every one is told
        return None if timed else last.iterations[-1].index + 1
    if index is None and phase == MAKING:
        return 0
    return index if isinstance(index, int) else None


def _place(outcome: Outcome) -> tuple[str, int | None, int | None]:
    """Phase, iteration and size of the failed allocation: where all are alike, two children failed alike."""
    details = _details(outcome)
    size = details.get("segment_bytes") or details.get("asked_bytes")
    return _phase(outcome, details).removeprefix("first."), _iteration(outcome, details), size


def _sentence(last: Outcome, details: Mapping[str, Any], accumulate: int = 1) -> str:
    """ "out of memory: iteration 1, backward, in mm of net.3, asked for N B", as far as the children could say."""
    index, asked = _iteration(last, details), details.get("asked_bytes")
    parts = [] if index is None else [f"iteration {index + 1}"]
    place = _phase(last, details).removeprefix("first.")
    place = "making a batch" if place == MAKING else place
    micro = details.get("micro")
    parts.append(
        f"{place} of micro-batch {micro + 1}" if isinstance(micro, int) and accumulate > 1 else place
    )
    if operator := details.get("operator"):
        module = details.get("module")
        parts.append(f"in {operator}" + (f" of {module}" if module else ""))
    if isinstance(asked, int):
        parts.append(f"asked for {asked:,} B")
    if isinstance(rank := details.get("rank"), int):
        parts.append(f"on rank {rank}")
    return "out of memory: " + ", ".join(parts)
