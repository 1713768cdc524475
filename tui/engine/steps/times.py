"""Times and rates of a probe from the table of its timed child."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from statistics import median
from typing import Any

from tui.budget import throughput
from tui.engine import host
from tui.engine.nvml_live import Watched
from tui.engine.outcome import Outcome
from tui.engine.steps import common
from tui.engine.steps.clocks import clocks_of
from tui.project.measured import Probe

TIMES = (*throughput.TIMES, "loss_first", "loss_last")


def with_times(probe: Probe, timed: Outcome | None) -> Probe:
    """``probe`` with the times of its timed child, or why there are none."""
    probe = _with_clocks(probe, timed)
    table = timed.results.get("timed") if timed is not None else None
    diverged = timed is not None and timed.failure is not None and timed.failure.kind == "nonfinite"
    if not table or not table["step_ms"] or diverged:
        reason = "the loss is not finite" if diverged else "no iteration was timed to its end"
        return _untimed(probe, timed, reason)
    samples, tokens = _completed(table)
    found = throughput.summary(table["step_ms"], samples, tokens)
    loader = table.get("loader_ms")
    loader_period = throughput.slow_every(loader or ())
    kept = common.thinned(table["step_ms"])
    trace = table["allocated_trace"]
    whole = len(trace) == 3 * len(table["step_ms"])
    unknown = dict(found.unknown)
    if not loader:
        unknown["loader_ms_median"] = "making the batches was not timed"
    first_loss, last_loss = common.finite(table["loss_first"]), common.finite((table["losses"] or [None])[-1])
    if last_loss is None or first_loss is None:
        unknown["loss_last"] = (
            "the loss is not finite" if table["losses"] else "the iteration returns no loss"
        )
        if first_loss is None:
            unknown["loss_first"] = unknown["loss_last"]
    return dataclasses.replace(
        probe,
        iterations=len(table["step_ms"]),
        others_cpu_ratio=_rounded(table["others_cpu_ratio"]),
        warmup=table["warmup"],
        first_ms=round(table["first_ms"], 4),
        step_ms_median=round(found.step_ms_median, 4),
        step_ms_mean=round(found.step_ms_mean, 4),
        step_ms_p90=round(found.step_ms_p90, 4),
        samples_per_s=round(found.samples_per_s, 4),
        samples_per_s_low=_rounded(found.samples_per_s_low),
        samples_per_s_high=_rounded(found.samples_per_s_high),
        tokens_per_s=_rounded(found.tokens_per_s),
        loader_ms_median=round(median(loader), 4) if loader else None,
        cpus_allowed=host.cpus_allowed(),
        drift_ratio=found.drift_ratio,
        slow_every=found.slow_every or loader_period,
        slow_part="step" if found.slow_every else "loader" if loader_period else "",
        loss_first=first_loss,
        loss_last=last_loss,
        step_ms=tuple(round(table["step_ms"][place], 4) for place in kept),
        allocated_trace=tuple(trace[3 * place + edge] for place in kept for edge in range(3))
        if whole
        else (),
        allocated_source=table["allocated_source"] if whole else "",
        unknown={**probe.unknown, **unknown},
    )


def _completed(table: Mapping[str, Any]) -> tuple[list[int], list[int] | None]:
    """Samples and tokens of every timed iteration; a step that the scaler skipped completed none of them."""
    count = len(table["step_ms"])
    done = table.get("completed") or [True] * count
    samples = [table["samples_per_iteration"] if one else 0 for one in done]
    tokens = table.get("tokens")
    if tokens is None:
        mean = table["tokens_per_iteration"]
        return samples, [round(mean) if one else 0 for one in done] if mean else None
    return samples, [number if one else 0 for number, one in zip(tokens, done, strict=True)]


def _with_clocks(probe: Probe, timed: Outcome | None) -> Probe:
    """``probe`` with what the device's clocks did while it was timed."""
    if probe.device == "cpu":
        why = "of a CPU the clocks are not read"
        return dataclasses.replace(probe, unknown={**probe.unknown, "throttled": why, "clocks": why})
    table = timed.results.get("timed", {}) if timed is not None else {}
    begun, ended = table.get("timed_ns") or (None, None)
    found = clocks_of(timed.watched if timed is not None else Watched(), begun, ended)
    return dataclasses.replace(
        probe,
        throttled=found.throttled,
        throttle=found.throttle,
        clocks=found.clocks,
        clock_ratio=found.clock_ratio,
        unknown={**probe.unknown, **found.unknown},
    )


def _untimed(probe: Probe, timed: Outcome | None, reason: str) -> Probe:
    """``probe`` with the time of the first iteration, if there is one, and ``reason`` for all others."""
    first = next((one.ms for one in timed.iterations if one.kind == "first"), None) if timed else None
    unknown = {name: reason for name in TIMES if name != "first_ms" or first is None}
    return dataclasses.replace(probe, first_ms=first, unknown={**probe.unknown, **unknown})


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
