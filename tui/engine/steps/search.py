"""A search for the largest micro-batch that fits: each candidate in a fresh child, saved at once, resumed later.

Candidates that only decide whether they fit have one child, the timed one, by whose process the verdict is.  The
largest is soaked: more iterations and every validation batch, then traced.  The fastest of those tested is measured
in full when it is another one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from contextlib import suppress

from tui import units
from tui.budget import durations
from tui.budget import search as policy
from tui.budget.ledger import probe_verdict
from tui.budget.search import Decision, Trial
from tui.engine.context import Context, StepResult
from tui.engine.steps import common
from tui.engine.steps import probe as probes
from tui.engine.steps.candidates import LEAST_WARMUP, Candidate, Manner
from tui.engine.steps.evidence import earlier, host_bound, limit_bytes, resumable, trial_of
from tui.engine.steps.search_predicted import predicted_largest
from tui.engine.steps.sweep import comparable, late_sentence
from tui.errors import PeakmarkError, RunError, SaveError, VerdictError
from tui.probe.protocol import Planned, Progress
from tui.project import save
from tui.project.ids import new_id
from tui.project.load import Project
from tui.project.measured import Measured, Probe, Search

DECIDING, QUICK_DECIDING = 5, 2
"""Timed iterations of a candidate, after the first one and two of warm-up."""
SOAK, QUICK_SOAK = 50, policy.LEAST_SOAK
"""Timed iterations of the confirmation."""
USUAL = 4
"""Measurements that a search with a good line takes: two that decide, the soak, the fastest."""
FASTEST_TRIES = 2
ORIGINS = {
    "line": "by the line through earlier measurements",
    "predicted": "by prediction",
    "start": "nothing was measured yet",
}


async def run(context: Context) -> StepResult:
    """One search for each length asked; the code is 1 when at one of them nothing that was tried fits."""
    project, spec = common.ready(context)
    batch = project.spec.workload.batch
    lengths = context.options.lengths or ((batch.length.max,) if batch.length else (None,))
    results: list[StepResult] = []
    for length in lengths:
        results.append(await _Search(context, project, spec, length).go())
        if results[-1].outcome != "done":
            break
    if len(results) == 1:
        return results[0]
    text = "; ".join(f"length {length}: {one.text}" for length, one in zip(lengths, results, strict=False))
    return dataclasses.replace(results[-1], code=max(one.code for one in results), text=text)


class _Stop(Exception):
    """The search ends before its decision: ``outcome`` of the entry, and the step's result."""

    def __init__(self, outcome: str, result: StepResult) -> None:
        super().__init__(result.text)
        self.outcome, self.result = outcome, result


class _Search:
    """One search from its plan to its decision."""

    def __init__(self, context: Context, project: Project, spec: str, length: int | None) -> None:
        self.context, self.project, self.spec = context, project, spec
        options, batch = context.options, project.spec.workload.batch
        self.accumulate = options.accumulate or batch.accumulate
        self.length = length
        self.begun = time.monotonic()
        self.trials: list[Trial] = []
        self.probes: dict[str, Probe] = {}
        """Everything that decided something, by id."""
        self.guides = earlier(project, spec, self.accumulate, length)
        found = resumable(project, self._blank())
        self.id, self.entry = found or (new_id("s"), self._blank())
        self.before_s = self.entry.seconds
        self.note = ""
        """What is missing beside the decision."""
        self.predicted: int | None = None
        if found:
            self._reuse()

    def _blank(self) -> Search:
        options, budget = self.context.options, self.project.spec.budget
        dataset = self.project.spec.workload.batch.dataset
        bounds = [(options.upper, "--upper"), (dataset, "workload.batch.dataset")]
        known = [(size, origin) for size, origin in bounds if size is not None]
        upper, origin = min(known, default=(None, ""))
        return Search(
            at=common.now(),
            spec=self.spec,
            environment="",
            precision=self.project.spec.precision.use,
            length=self.length,
            accumulate=self.accumulate,
            multiple_of=options.multiple_of,
            upper=upper,
            upper_from=origin,
            budget_bytes=budget.job,
            reserve_bytes=budget.reserve,
            quick=options.quick,
        )

    def _reuse(self) -> None:
        """Take in what the interrupted search had measured, also what it had no time left to list."""
        limit = probes.limit_of(self.context, self.project)
        before = self.entry
        self.entry = dataclasses.replace(before, candidates={}, probes=())
        for id, probe in sorted(self.project.measured.probe.items()):
            listed = id in before.probes
            later = probe.at >= before.at and before.environment in ("", probe.environment)
            same = probe in comparable(self.project, self.spec, self._batch(probe.micro_batch))
            trial = trial_of(self.project.spec, probe, limit) if same and (listed or later) else None
            if trial is not None and trial.micro % self.entry.multiple_of == 0:
                self._take(id, probe, trial)
        self.entry = dataclasses.replace(
            self.entry, reused=tuple(self.probes), why="", quick=self.context.options.quick
        )

    def _take(self, id: str, probe: Probe, trial: Trial) -> None:
        self.trials.append(trial)
        self.probes[id] = probe
        changed = {**self.entry.candidates, str(probe.micro_batch): id}
        ids = tuple(dict.fromkeys((*self.entry.probes, id)))
        self.entry = dataclasses.replace(
            self.entry, candidates=changed, probes=ids, environment=probe.environment
        )

    def _batch(self, micro: int) -> Candidate:
        return Candidate(micro, self.accumulate, self.length)

    async def go(self) -> StepResult:
        """Search until the decision, an error, or the end of the time for it."""
        try:
            self._save()
            await self._predict()
            self._say_plan()
            decision = await self._decided()
            await self._time_fastest(decision)
            return self._ended(decision)
        except _Stop as stop:
            self._conclude(outcome=stop.outcome, why=stop.result.text)
            return stop.result
        except asyncio.CancelledError:
            with suppress(SaveError):
                self._conclude(outcome="interrupted", why="it was stopped")
            raise
        except PeakmarkError as error:
            if not isinstance(error, SaveError):
                self._conclude(outcome="failed", why=error.sentence())
            raise

    # --- measuring ------------------------------------------------------------------------------------

    async def _predict(self) -> None:
        """Begin where a prediction points, unless earlier measurements do."""
        if policy.expected(self._asked(), self.trials) is not None:
            return
        asked = self.project, self.spec, self.accumulate, self.length
        self.predicted, said = await predicted_largest(self.context, *asked)
        if said:
            self.context.say(Planned(said))

    async def _decided(self) -> Decision:
        while True:
            step = policy.advance(self._asked(), self.trials)
            if isinstance(step, Decision):
                return step
            manner = self._manner(step.soak, step.validation)
            self._stop_when_late(self._batch(step.micro), manner)
            self.context.say(Progress(len(self.trials), len(self.trials) + 1, "candidates"))
            await self._try(self._batch(step.micro), manner)

    def _asked(self) -> policy.Asked:
        entry, options = self.entry, self.context.options
        upper, origin = entry.upper, entry.upper_from
        bound = host_bound(self.project.spec, self.context.device, self.probes.values())
        if bound is not None and (upper is None or bound < upper):
            upper, origin = bound, "the host's memory"
            self.entry = dataclasses.replace(entry, upper=upper, upper_from=origin)
        if upper is not None and upper < entry.multiple_of:
            why = f"no multiple of {entry.multiple_of} is within the upper bound {upper} ({origin})"
            raise RunError(why, hint="lower --multiple-of")
        guides = {**self.guides, **self.probes}.values()
        return policy.Asked(
            multiple_of=entry.multiple_of,
            upper=upper,
            start=(options.batches or (self.project.spec.workload.batch.micro,))[0],
            limit_bytes=limit_bytes(self.project, self.context.device, [*guides]),
            points={one.micro_batch: size for one in guides if (size := self._process(one)) is not None},
            predicted=self.predicted,
        )

    def _process(self, probe: Probe) -> int | None:
        if probe.training_process_bytes is not None:
            return probe.training_process_bytes
        return probe_verdict(self.project.spec, probe).process_bytes

    def _manner(self, soak: bool, validation: int | None = None) -> Manner:
        options = self.context.options
        count = QUICK_DECIDING if options.quick else DECIDING
        if soak:
            count = max(policy.LEAST_SOAK, options.iterations or (QUICK_SOAK if options.quick else SOAK))
        return Manner(
            traced=soak and not options.quick,
            iterations=count,
            warmup=options.warmup or LEAST_WARMUP,
            soak=soak,
            validation=validation,
            several=True,
        )

    async def _try(self, one: Candidate, manner: Manner) -> None:
        """Measure, take the trial in, save; a contended measurement is made once more."""
        for last in (False, True):
            result = await probes.measure(self.context, self.project, self.spec, one, manner)
            probe = self.context.load().measured.probe.get(result.result_id)
            if result.outcome == "cancelled":
                text = f"{result.text}; what was measured is saved, the same command goes on from it"
                raise _Stop("interrupted", dataclasses.replace(result, text=text))
            if probe is None or result.outcome == "failed":
                code = max(result.code, VerdictError.code)
                text = f"micro-batch {one.micro} failed, not for memory: {result.text}"
                raise _Stop("failed", StepResult("failed", code, text, self.id))
            if not probe.contended or last:
                break
        self._check_environment(probe)
        trial = None if probe.contended else trial_of(self.project.spec, probe, probe.limit_bytes)
        if trial is None:
            why = "what others hold changed while it was measured, twice" if probe.contended else result.text
            text = f"micro-batch {one.micro} gave no verdict: {why}"
            raise _Stop("failed", StepResult("failed", RunError.code, text, self.id))
        self._take(result.result_id, probe, trial)
        self._save()
        self._say_trial(trial, probe)

    def _check_environment(self, probe: Probe) -> None:
        """What was measured earlier counts only for the environment in which it was."""
        now = probe.environment
        if self.entry.environment and now != self.entry.environment:
            if not self.entry.reused:
                text = "the environment became another one while it was searched"
                raise _Stop("failed", StepResult("failed", RunError.code, text, self.id))
            self.context.say(
                Planned("the environment is another one than before: nothing of the earlier search counts")
            )
            self.trials, self.probes = [], {}
            self.entry = dataclasses.replace(self.entry, candidates={}, probes=(), reused=(), environment=now)
        self.guides = {id: one for id, one in self.guides.items() if one.environment == now}

    async def _time_fastest(self, decision: Decision) -> None:
        """Measure the fastest in full where only a few iterations say that it is."""
        if decision.largest is None or self.context.options.quick:
            return
        for _ in range(FASTEST_TRIES):
            micro = policy.fastest(self._rates())
            if micro is None or self._deciding(micro).tasks != ("timed",):
                return
            manner = Manner(several=True, warmup=self.context.options.warmup or LEAST_WARMUP)
            try:
                self._stop_when_late(self._batch(micro), manner)
                await self._try(self._batch(micro), manner)
            except _Stop as stop:
                if stop.result.outcome == "cancelled":
                    raise
                self.note = f"the fastest was not measured in full: {stop.result.text}"
                return

    def _rates(self) -> dict[int, float | None]:
        fitting = policy.holding(self._multiple(), self.trials)
        return {micro: self._deciding(micro).samples_per_s for micro in fitting}

    def _deciding(self, micro: int) -> Probe:
        return self.probes[self.entry.candidates[str(micro)]]

    # --- time -----------------------------------------------------------------------------------------

    def _expected(self, one: Candidate, manner: Manner) -> float | None:
        known = [*self.guides.values(), *self.probes.values()]
        return durations.expected_s(known, one.micro, manner.iterations, manner.warmup, len(manner.order))

    def _stop_when_late(self, one: Candidate, manner: Manner) -> None:
        within = self.context.options.within_s
        if within is None:
            return
        left = within - (time.monotonic() - self.begun)
        needed = self._expected(one, manner)
        if left > 0 and (needed is None or needed <= left):
            return
        fits = any(one.word == "fits" for one in self.trials)
        code = 0 if fits or not self.trials else VerdictError.code
        raise _Stop(
            "interrupted", StepResult("interrupted", code, late_sentence(within, left, needed), self.id)
        )

    # --- telling --------------------------------------------------------------------------------------

    def _say_plan(self) -> None:
        asked = self._asked()
        step = policy.advance(asked, self.trials)
        points_at = policy.expected(asked, self.trials)
        if isinstance(step, Decision):
            return
        first = f"{step.micro} first"
        if self.trials:
            first = f"resumes {self.id}: {len(self.trials)} measured, {step.micro} next"
        parts = [f"{first} ({ORIGINS.get(step.why, step.why)})"]
        expected = self._whole(points_at)
        if expected is None:
            parts.append("doubled until a line can be drawn; duration n/a before the first one")
        else:
            parts.append(f"about {USUAL} measurements; expected {units.long_duration(expected)}")
        limit = probes.limit_of(self.context, self.project)
        if limit is not None:
            parts.append(f"each child is held to {units.size(limit)}")
        if self.context.options.quick:
            parts.append(
                f"--quick: {QUICK_DECIDING} timed iterations a candidate, soak {QUICK_SOAK}, nothing traced"
            )
        self.context.say(Planned("; ".join(parts), expected))

    def _whole(self, largest: int | None) -> float | None:
        """Seconds of all that is still to do when the largest is as the line says; None: not known."""
        if largest is None or largest < 1:
            return None
        one = self._batch(largest)
        parts = [self._expected(one, self._manner(False)), self._expected(one, self._manner(True))]
        known = [size for size in parts if size is not None]
        return None if len(known) < 2 else 2 * known[0] + known[1]

    def _say_trial(self, trial: Trial, probe: Probe) -> None:
        word = {"fits": "fits", "fails": "does not fit", "untested": "not tested"}[trial.word]
        size = "" if trial.process_bytes is None else f", process {units.size(trial.process_bytes)}"
        text = f"{trial.micro} {word}{size}"
        if trial.soaked:
            text = f"{trial.micro} held for {probe.soaked} iterations{size}"
        step = policy.advance(self._asked(), self.trials)
        if isinstance(step, Decision):
            return self.context.say(Planned(text))
        expected = self._whole(policy.expected(self._asked(), self.trials))
        rest = "" if expected is None or step.soak else f"; expected {units.long_duration(expected)} more"
        self.context.say(Planned(f"{text}; next {step.micro} ({step.why}){rest}", expected))

    # --- saving ---------------------------------------------------------------------------------------

    def _ended(self, decision: Decision) -> StepResult:
        why = ""
        if decision.bound == "upper":
            why = (
                f"above {decision.largest} nothing was tried: {self.entry.upper_from} is {self.entry.upper:,}"
            )
        elif decision.bound == "data":
            why = f"above {decision.largest or 0} nothing was tested: the data are too few"
        self._conclude(outcome="done", why="; ".join(filter(None, (why, self.note))), decision=decision)
        if decision.largest is None:
            return StepResult("done", VerdictError.code, "nothing that was tried fits", self.id)
        fastest = f", fastest {self.entry.fastest}" if self.entry.fastest is not None else ""
        return StepResult("done", 0, f"largest {decision.largest}{fastest}", self.id)

    def _conclude(self, *, outcome: str, why: str, decision: Decision | None = None) -> None:
        """Save the entry with what is known now; without a decision as what was found so far."""
        found = decision or policy.so_far(self._multiple(), self.trials)
        fastest = policy.fastest(self._rates())
        candidates = self.entry.candidates
        self.entry = dataclasses.replace(
            self.entry,
            outcome=outcome,
            why=why,
            largest=found.largest,
            largest_probe=candidates.get(str(found.largest)),
            failed_at=found.failed_at,
            failed_probe=candidates.get(str(found.failed_at)),
            validation_batch=found.validation,
            fastest=fastest,
            fastest_probe=None if fastest is None else candidates[str(fastest)],
        )
        self._save()

    def _multiple(self) -> policy.Asked:
        return policy.Asked(multiple_of=self.entry.multiple_of, upper=self.entry.upper)

    def _save(self) -> None:
        seconds = round(self.before_s + time.monotonic() - self.begun, 3)
        self.entry = dataclasses.replace(self.entry, seconds=seconds)

        def put(measured: Measured) -> Measured:
            return dataclasses.replace(measured, search={**measured.search, self.id: self.entry})

        save.record(self.context.project_path, put)
