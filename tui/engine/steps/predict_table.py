"""A saved prediction from what the predicting child told of one point."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tui.budget import prediction as predictions
from tui.engine.outcome import Outcome
from tui.engine.steps import common
from tui.engine.steps.predict_target import Target
from tui.probe.protocol import PHASES, REQUESTED_ROWS
from tui.project.load import Project
from tui.project.prediction import PredictedPeak, Prediction, Within


def prediction_of(
    project: Project,
    spec: str,
    target: Target,
    table: Mapping[str, Any],
    outcome: Outcome,
    around: tuple[int, int] | None,
    origin: str,
) -> Prediction:
    """The Prediction of one point, without its verdict.

    Args:
        project: what was predicted; ``spec`` is its fingerprint.
        target: for which device.
        table: of the child's event "predicted".
        outcome: of the child.
        around: what a process holds beside the allocator, at least and at most.
        origin: where that comes from.
    """
    asked = project.spec
    unknown = {str(key): str(why) for key, why in dict(table.get("unknown") or {}).items()}
    if around is None:
        unknown["context_low_bytes"] = (
            predictions.ON_CPU if target.kind == "cpu" else "no range of it is known"
        )
    return Prediction(
        at=common.now(),
        spec=spec,
        precision=asked.precision.use,
        micro_batch=table["micro"],
        accumulate=table["accumulate"],
        torch=str(table.get("torch", "")),
        semantics=str(table.get("semantics", target.kind)),
        length=table.get("length"),
        target=target.name,
        target_total_bytes=target.total_bytes,
        target_from=target.origin,
        ranks=asked.placement.ranks,
        strategy=asked.placement.strategy,
        worst_phase=table.get("worst_phase") or None,
        phases={
            name: _peak(table["phases"][name]) for name in PHASES if name in table["phases"]
        },
        context_low_bytes=around[0] if around else None,
        context_high_bytes=around[1] if around else None,
        context_from=origin,
        assumptions=tuple(_assumption(one) for one in table.get("assumptions") or ()),
        answered=tuple(_answered(one) for one in table.get("items_answered") or ()),
        approximate=tuple(table.get("approximate") or ()),
        not_covered=tuple(table.get("not_covered") or ()),
        ranges={name: tuple(limits) for name, limits in dict(table.get("ranges") or {}).items()},
        allocator=str(table.get("allocator", "")),
        allocator_rules=str(table.get("allocator_rules") or ""),
        within=tuple(_within(one) for one in table.get("within") or ()),
        segments=table.get("segments"),
        retries=int(table.get("retries") or 0),
        exhausted=_exhausted(table.get("out_of_memory")),
        operators=table.get("operators"),
        journal=common.journal_name([outcome]),
        seconds=round((outcome.ended - outcome.started).total_seconds(), 1),
        unknown=unknown,
    )  # fmt: skip


def _peak(phase: Mapping[str, Any]) -> PredictedPeak:
    return PredictedPeak(
        requested_bytes=phase["requested_bytes"],
        allocated_bytes=phase.get("allocated_bytes"),
        reserved_bytes=phase.get("reserved_bytes"),
        rows={row: phase["rows"][row] for row in REQUESTED_ROWS if phase["rows"].get(row)},
        operator=phase.get("operator") or "",
        module=phase.get("module") or "",
        micro_batch=phase.get("micro_batch"),
        end_requested_bytes=phase.get("end_bytes"),
        end_allocated_bytes=phase.get("end_allocated_bytes"),
        end_reserved_bytes=phase.get("end_reserved_bytes"),
    )


def _assumption(one: Mapping[str, Any]) -> str:
    """``attention kernel: flash (bf16, causal, no mask)``; how often, over all traced passes, says nothing."""
    because = f" ({one['because']})" if one.get("because") else ""
    return f"{one['what']}: {one['value']}{because}"


def _answered(one: Mapping[str, Any]) -> str:
    """``.item() at workload.py:57 in loss was told 1.0, 3 times``."""
    count = int(one.get("count") or 1)
    said = f".item() at {one['where']} was told {one['answer']}"
    return said + (f", {count:,} times" if count > 1 else "")


def _within(one: Mapping[str, Any]) -> Within:
    failed: Mapping[str, Any] = one.get("out_of_memory") or {}
    return Within(
        capacity_bytes=one["capacity_bytes"],
        retries=int(one.get("retries") or 0),
        steady_retries=int(one.get("steady_retries") or 0),
        reserved_bytes=one.get("reserved_bytes"),
        phase=failed.get("phase") or "",
        operator=failed.get("operator") or "",
        module=failed.get("module") or "",
        asked_bytes=failed.get("asked_bytes"),
        allocated_bytes=failed.get("allocated_bytes"),
        largest_free_block_bytes=failed.get("largest_free_block_bytes"),
        cause=failed.get("rule") or "",
    )


def _exhausted(found: Mapping[str, Any] | None) -> str:
    if not found:
        return ""
    return (
        f"out of memory in {found['phase']}: asked for {found['asked_bytes']:,} B, "
        f"reserved {found['reserved_bytes']:,} B, allocated {found['allocated_bytes']:,} B"
    )


def with_largest(found: Prediction, outcome: Outcome, limit: int | None, why: str) -> Prediction:
    """``found`` with the largest micro-batch and the batch line, or why there is none."""
    table = outcome.results.get("predicted_largest")
    if table is None:
        why = why or "the child gave none"
        return dataclasses.replace(found, unknown={**found.unknown, "largest": why})
    line: Mapping[str, Any] = table.get("line") or {}
    unknown = dict(found.unknown)
    if table.get("micro") is None:
        reasons: Mapping[str, Any] = table.get("unknown") or {}
        unknown["largest"] = str(
            reasons.get("micro") or "not even one sample fits without emptying the cache"
        )
    following: Mapping[str, Any] = table.get("next") or {}
    emptying: Mapping[str, Any] = table.get("emptying") or {}
    return dataclasses.replace(
        found,
        largest=table.get("micro"),
        largest_limit_bytes=limit,
        largest_reserved_bytes=table.get("reserved_bytes"),
        largest_next=following.get("micro"),
        emptying=emptying.get("micro"),
        emptying_retries=emptying.get("retries"),
        emptying_next=emptying.get("next"),
        largest_exact=bool(table.get("exact", True)),
        line_fixed_bytes=line.get("fixed_bytes"),
        line_per_sample_bytes=line.get("per_sample_bytes"),
        line_residual_bytes=line.get("residual_max_bytes"),
        unknown=unknown,
    )
