"""Memory of full iterations on a device that need not be here: traced without values, allocated by its rules.

``plan.extra["predict"]``: ``semantics`` ("cuda" or "cpu"), ``target`` (see ``semantics.Target``), ``allocator``
(settings as in PYTORCH_CUDA_ALLOC_CONF), ``capacity_bytes`` (what may be reserved; None: no limit; a list: no limit,
and then ``within`` each of them), ``points``
([{"micro", "accumulate", "length"}], the first is the one asked for), ``largest`` (None, or {"reserved_limit_bytes",
"upper"}: the largest micro-batch within that limit).
"""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence

from .. import peaks, timeline
from ..allocator import CachingAllocator
from ..allocator_settings import AllocatorSettings, SettingsError, parse
from ..faults import TaskError
from ..predict import point as points
from ..predict import refuse, search, within
from ..predict.semantics import Target, open_semantics
from ..protocol import Progress, ResultReady

if TYPE_CHECKING:
    from ..predict.point import Point
    from ..predict.semantics import Semantics
    from ..protocol import Plan
    from ..reporter import Reporter


def run(plan: Plan, report: Reporter) -> None:
    """See the module."""
    refuse.before(plan)
    _Predicting(plan, report, plan.extra["predict"]).run()


class _Predicting:
    def __init__(self, plan: Plan, report: Reporter, asked: Dict[str, Any]) -> None:
        self.plan = plan
        self.report = report
        self.asked = asked
        self.semantics = self._semantics()
        """Of the last trace: what it met is told with it."""
        self._settings = _settings(asked.get("allocator") or "")
        self.tracing = 0
        self.total = len(asked["points"]) + (2 if asked.get("largest") else 0)

    def run(self) -> None:
        first: Optional[Point] = None
        for one in self.asked["points"]:
            traced = self._trace(one)
            begun = time.monotonic()
            limit = self.asked.get("capacity_bytes")
            several: Sequence[int] = limit if isinstance(limit, list) else ()
            allocator = self._allocator(None if isinstance(limit, list) else limit)
            simulated = traced.simulate(allocator)
            found = points.table(traced, simulated)
            found["allocator"] = self.asked.get("allocator") or ""
            if self.semantics.kind == "cuda":
                found["within"] = within.tables(
                    traced, simulated, several, self._limited, self._settings.default
                )
            found.update(self._told(one, allocator), simulate_s=time.monotonic() - begun)
            if self.semantics.kind == "cpu":
                _drop_allocator(found)
            if first is None:
                first = traced
                if self.plan.journal:
                    found["unknown"].update(timeline.keep(traced.labelled, peaks.STEADY, self.plan.journal))
            self.report(ResultReady("predicted", found))
        if self.asked.get("largest") and first is not None and self.semantics.kind == "cuda":
            self._largest(self.asked["points"][0], first)

    def _largest(self, one: Dict[str, Any], first: Point) -> None:
        wanted = self.asked["largest"]
        limit, upper = wanted["reserved_limit_bytes"], wanted.get("upper")
        traced = {one["micro"]: first}

        def trace(micro: int) -> Point:
            if micro not in traced:
                traced[micro] = self._trace({**one, "micro": micro})
            return traced[micro]

        found = search.Search(one["micro"], first, trace, limit, self._allocator, upper).run()
        if not found["unknown"]:
            best = found["micro"] or 0
            found["emptying"] = within.Emptying(traced, trace, limit, self._limited, best, upper).run()
        self.report(ResultReady("predicted_largest", found))

    def _trace(self, one: Dict[str, Any]) -> Point:
        self.report(Progress(self.tracing, max(self.total, self.tracing + 1), "batches traced"))
        self.tracing += 1
        made = copy.copy(self.plan)
        made.batch = {**self.plan.batch, **one}
        self.semantics = self._semantics()
        self.semantics.open()
        try:
            return points.trace(made, self.report, self.semantics)
        finally:
            self.semantics.close()

    def _semantics(self) -> Semantics:
        target = Target.of(self.asked.get("target"))
        return open_semantics(self.asked["semantics"], target, self.asked.get("workspaces"))

    def _allocator(self, capacity: Optional[int]) -> CachingAllocator:
        return CachingAllocator(capacity, settings=self._settings)

    def _limited(self, capacity: Optional[int]) -> CachingAllocator:
        """One that reserves at most ``capacity`` bytes of the target's memory."""
        if capacity is None:
            return self._allocator(None)
        total = (self.asked.get("target") or {}).get("total_bytes")
        return self._allocator(within.capacity_under(self._settings, capacity, total))

    def _told(self, one: Dict[str, Any], allocator: CachingAllocator) -> Dict[str, Any]:
        """What else the table says of a point."""
        assumptions = self.semantics.assumptions
        assumptions.not_covered("whether indices are in range, which only values tell")
        rules = "from source, not yet verified" if not self._settings.default else "proved by recorded traces"
        target = self.semantics.target
        return {
            "micro": one["micro"],
            "accumulate": one.get("accumulate", self.plan.batch.get("accumulate", 1)),
            "length": one.get("length"),
            "semantics": self.semantics.kind,
            "target": "" if target is None else target.name,
            "segments": allocator.segments_made,
            "retries": allocator.num_alloc_retries,
            "assumptions": assumptions.table(),
            "approximate": list(assumptions.approximations),
            "allocator_rules": rules,
            "allocator_notes": self._settings.notes(),
            "not_covered": list(assumptions.uncovered),
            "ranges": dict(assumptions.ranges),
            "unknown": {},
        }


def _settings(text: str) -> AllocatorSettings:
    try:
        return parse(text)
    except SettingsError as error:
        raise TaskError(
            "workload", "the allocator's settings: %s" % error, hint="correct or drop them"
        ) from error


def _drop_allocator(found: Dict[str, Any]) -> None:
    """Leave out what the CPU does not have."""
    for phase in found["phases"].values():
        for key in ("allocated_bytes", "reserved_bytes", "end_allocated_bytes", "end_reserved_bytes"):
            phase[key] = None
    found["segments"] = found["retries"] = None
    for key in ("allocated_bytes", "reserved_bytes", "segments", "retries"):
        found["unknown"][key] = "the CPU has no caching allocator of torch's"
