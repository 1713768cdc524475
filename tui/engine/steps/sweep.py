"""Several batches and lengths, a grid in the order asked, each in fresh children and saved at once."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

from tui import units
from tui.budget.durations import expected_s
from tui.engine.context import Context, StepResult
from tui.engine.steps import common
from tui.engine.steps import probe as probes
from tui.engine.steps.candidates import Candidate, Manner, manner_of
from tui.errors import VerdictError
from tui.probe.protocol import Planned, Progress
from tui.project.load import Project
from tui.project.measured import Probe

MOST_LISTED = 8
"""Sizes that a plan names one by one."""


async def run(context: Context) -> StepResult:
    """Measure every asked batch, saving each; the code is 1 when a single one does not fit, or none of several."""
    project, spec = common.ready(context)
    options = context.options
    batch = project.spec.workload.batch
    lengths = options.lengths or ((batch.length.max,) if batch.length else (None,))
    micros = options.batches or (batch.micro,)
    accumulate = options.accumulate or batch.accumulate
    wanted = [Candidate(micro, accumulate, length) for length in lengths for micro in micros]
    manner = manner_of(options, several=len(wanted) > 1)
    if len(wanted) > 1:
        context.say(_plan(project, spec, wanted, manner, options.quick))
    begun = time.monotonic()
    results: list[StepResult] = []
    for place, one in enumerate(wanted):
        if len(wanted) > 1:
            context.say(Progress(place, len(wanted), "batches"))
            if place and (late := _too_late(context, spec, one, manner, begun)):
                return _stopped(wanted, results, late)
        result = await probes.measure(context, project, spec, one, manner)
        results.append(result)
        if result.outcome != "not-tested" and (
            result.code > VerdictError.code or result.outcome == "cancelled"
        ):
            return _ended_early(result, len(wanted), results[:-1])
    return results[0] if len(results) == 1 else _several(wanted, results)


def comparable(project: Project, spec: str, one: Candidate) -> list[Probe]:
    """Probes that took what ``one`` would take, but for its micro-batch."""
    key = (spec, project.spec.precision.use, one.accumulate, one.length)
    return [
        probe
        for probe in project.measured.probe.values()
        if (probe.spec, probe.precision, probe.accumulate, probe.length) == key
    ]


def _expected(project: Project, spec: str, one: Candidate, manner: Manner) -> float | None:
    known = comparable(project, spec, one)
    return expected_s(known, one.micro, manner.iterations, manner.warmup, len(manner.order))


def _plan(project: Project, spec: str, wanted: Sequence[Candidate], manner: Manner, quick: bool) -> Planned:
    expected = [_expected(project, spec, one, manner) for one in wanted]
    known = [one for one in expected if one is not None]
    total = sum(known) if len(known) == len(expected) else None
    micros = _listed([one.micro for one in wanted])
    lengths = list(dict.fromkeys(one.length for one in wanted))
    grid = "" if lengths == [None] else f" at length {_listed([one or 0 for one in lengths])}"
    told = f"{len(wanted)} measurements, micro-batch {micros}{grid}, a fresh process each"
    told += (
        f"; --quick: {manner.iterations} timed iterations instead of {Manner().iterations}" if quick else ""
    )
    told += (
        "; duration n/a before the first one" if total is None else f"; expected {units.long_duration(total)}"
    )
    return Planned(told, total)


def _listed(values: Sequence[int]) -> str:
    """Each value once: all of a few, of many the first, the last and how many."""
    shown = list(dict.fromkeys(values))
    if len(shown) > MOST_LISTED:
        return f"{shown[0]} to {shown[-1]} ({len(shown)} of them)"
    return ", ".join(str(one) for one in shown)


def _too_late(context: Context, spec: str, one: Candidate, manner: Manner, begun: float) -> str:
    """Why ``one`` is not begun any more; "" when time is left for it."""
    if context.options.within_s is None:
        return ""
    took = time.monotonic() - begun
    left = context.options.within_s - took
    needed = _expected(context.load(), spec, one, manner)
    if left > 0 and (needed is None or needed <= left):
        return ""
    return late_sentence(context.options.within_s, left, needed)


def late_sentence(within_s: float, left: float, needed: float | None) -> str:
    """Why a candidate is not begun: what ``--within`` leaves, and what it would take."""
    told = f"--within {units.long_duration(within_s)} leaves {units.long_duration(max(0.0, left))}"
    return (
        told
        if needed is None or left <= 0
        else f"{told}, the next one would take {units.long_duration(needed)}"
    )


def _stopped(wanted: Sequence[Candidate], results: Sequence[StepResult], late: str) -> StepResult:
    found = _several(wanted[: len(results)], results)
    rest = ", ".join(str(one.micro) for one in wanted[len(results) :])
    return dataclasses.replace(found, text=f"{found.text}; not tried: {rest}, because {late}")


def _ended_early(result: StepResult, asked: int, before: Sequence[StepResult]) -> StepResult:
    """``result``, saying what of a sweep was saved before it."""
    if not before:
        return result
    text = f"{result.text}; the {len(before)} of {asked} batches before it are saved"
    return dataclasses.replace(result, text=text, result_id=result.result_id or before[-1].result_id)


def _several(wanted: Sequence[Candidate], results: Sequence[StepResult]) -> StepResult:
    fitting = [one.micro for one, result in zip(wanted, results, strict=True) if result.outcome == "fits"]
    largest = f"; the largest that fits is {max(fitting)}" if fitting else ""
    text = f"{len(fitting)} of {len(results)} batches fit{largest}"
    if untested := sum(result.outcome == "not-tested" for result in results):
        text += f"; {untested} not tested, the data are too few"
    return StepResult("done", 0 if fitting else 1, text, results[-1].result_id)
