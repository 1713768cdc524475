"""Figures and verdict of every precision setting, from the children that ran it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from tui.budget import compare, throughput
from tui.engine.outcome import Outcome
from tui.engine.steps import common
from tui.project.measured import PhasePeak, Setting
from tui.project.model import Spec

if TYPE_CHECKING:
    from tui.engine.steps.precision import Block

KEEP_LOSSES = 48
GRADIENT_LIMIT = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Noise:
    """How far the reference's own seeds lie apart."""

    validation: float | None
    training: float | None
    unknown: dict[str, str]


def build(
    spec: Spec, wanted: Sequence[str], outcomes: Mapping[Block, Outcome], memory: Mapping[str, PhasePeak]
) -> tuple[dict[str, Setting], Noise]:
    """(settings in the order asked, the noise floor)."""
    trains = {block: one for block, one in outcomes.items() if block.task == "train"}
    reference = [one for block, one in trains.items() if block.setting == wanted[0] and one.word == "done"]
    noise = _noise(reference)
    figures: dict[str, Setting] = {}
    for name in wanted:
        first = next((one for block, one in trains.items() if block.setting == name and not block.seed), None)
        if first is None:
            continue
        traced = next(
            (one for block, one in outcomes.items() if block.setting == name and block.task == "traced"), None
        )
        runs = reference if name == wanted[0] else [first]
        figures[name] = _figures(spec, first, runs, _worst(name, traced, memory))
    return _judged(spec, wanted[0], figures, noise), noise


def _noise(reference: Sequence[Outcome]) -> Noise:
    tables = [one.results["train"] for one in reference]
    validation, why = compare.noise_floor([_number(table["validation_loss"]) for table in tables])
    training, _ = compare.noise_floor([_number(_final(table)) for table in tables])
    unknown = {} if validation is not None else {"noise_floor": why, "noise_floor_training": why}
    return Noise(validation, training, unknown)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _worst(name: str, traced: Outcome | None, memory: Mapping[str, PhasePeak]) -> PhasePeak | str:
    """The worst phase of a setting, or why there is none."""
    if name in memory:
        return memory[name]
    phases: dict[str, Any] = traced.results.get("traced", {}).get("phases", {}) if traced is not None else {}
    if not phases:
        return (traced.sentence if traced is not None else "") or "its memory was not traced"
    worst = max(phases.values(), key=lambda phase: phase["requested_bytes"])
    return PhasePeak(requested_bytes=worst["requested_bytes"])


def _final(table: Mapping[str, Any]) -> float | None:
    losses = [one for one in table["losses"] if one is not None]
    last = losses[-max(1, len(losses) // 10) :]
    return sum(last) / len(last) if last else None


def _figures(spec: Spec, first: Outcome, runs: Sequence[Outcome], worst: PhasePeak | str) -> Setting:
    if first.word != "done":
        unsupported = first.failure is not None and first.failure.kind == "unsupported"
        outcome = "unsupported" if unsupported else "failed"
        return Setting(effective="", outcome=outcome, verdict="unusable", why=first.sentence)
    table = first.results["train"]
    losses = [one for one in table["losses"] if one is not None]
    bad = sum(1 for one in table["losses"] if one is None)
    gradients = table["gradients"]
    step_ms = [ms for one in runs for ms in one.results["train"]["step_ms"]]
    unknown: dict[str, str] = {}
    rate = throughput.summary(step_ms, table["samples_per_iteration"]) if step_ms else None
    if rate is None or rate.samples_per_s_low is None:
        unknown["samples_per_s_low"] = unknown["samples_per_s_high"] = "too few timed steps for an interval"
    if rate is None:
        unknown["samples_per_s"] = unknown["step_ms_median"] = "no step was timed after the warm-up"
    if isinstance(worst, str):
        unknown["requested_bytes"] = worst
    validation = common.finite(table["validation_loss"])
    if validation is None:
        unknown["validation_loss"] = "it is not finite"
    nothing_to_compare = "this is the reference" if not gradients else ""
    for name in ("gradient_error", "gradient_cosine"):
        if nothing_to_compare:
            unknown[name] = nothing_to_compare
    target = spec.quality.target
    if target is None:
        unknown["quality_met"] = "no quality target is entered"
    return Setting(
        effective=table["effective"],
        outcome="done",
        losses=tuple(round(losses[place], 5) for place in common.thinned(losses, KEEP_LOSSES)),
        final_loss=_final(table),
        validation_loss=validation,
        gradient_error=gradients.get("error"),
        gradient_cosine=gradients.get("cosine"),
        gradient_worst=_worst_module(gradients),
        nonfinite=gradients.get("nonfinite", 0) + bad,
        skipped=table["skipped"],
        requested_bytes=worst.requested_bytes if isinstance(worst, PhasePeak) else None,
        allocated_bytes=worst.allocated_bytes if isinstance(worst, PhasePeak) else None,
        reserved_bytes=worst.reserved_bytes if isinstance(worst, PhasePeak) else None,
        process_bytes=worst.process_bytes if isinstance(worst, PhasePeak) else None,
        step_ms_median=round(rate.step_ms_median, 4) if rate else None,
        samples_per_s=round(rate.samples_per_s, 4) if rate else None,
        samples_per_s_low=_round(rate.samples_per_s_low) if rate else None,
        samples_per_s_high=_round(rate.samples_per_s_high) if rate else None,
        quality_met=None if target is None or validation is None else _met(spec, validation, target),
        unknown=unknown,
    )


def _met(spec: Spec, value: float, target: float) -> bool:
    return value <= target if spec.quality.direction == "min" else value >= target


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _worst_module(gradients: Mapping[str, Any]) -> str:
    if not gradients.get("worst"):
        return ""
    return f"{gradients['worst']} {gradients['worst_error']:.1e}"


def _judged(spec: Spec, reference: str, figures: Mapping[str, Setting], noise: Noise) -> dict[str, Setting]:
    if reference not in figures or figures[reference].outcome != "done":
        return dict(figures)
    base = figures[reference]
    out: dict[str, Setting] = {}
    for name, one in figures.items():
        if name == reference:
            out[name] = dataclasses.replace(one, verdict="reference", distance=0.0, validation_distance=0.0)
        elif one.outcome != "done":
            out[name] = one
        else:
            found = compare.judge(
                _plain(one), _plain(base), noise.validation, GRADIENT_LIMIT, spec.quality.direction
            )
            out[name] = dataclasses.replace(
                one,
                verdict=found.verdict,
                gain=found.gain,
                why=found.why,
                distance=_minus(one.final_loss, base.final_loss),
                validation_distance=_minus(one.validation_loss, base.validation_loss),
            )
    return out


def _plain(one: Setting) -> compare.Figures:
    names = [field.name for field in dataclasses.fields(compare.Figures)]
    return compare.Figures(**{name: getattr(one, name) for name in names})


def _minus(value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None or not isfinite(value - base) else round(value - base, 6)


def loader_rates(reference: Sequence[Outcome]) -> tuple[dict[str, float | None], dict[str, str]]:
    """Samples a second of ``batch()`` alone, of compute alone, and of both in turn, and the stall between them."""
    names = ("loader_samples_per_s", "compute_samples_per_s", "together_samples_per_s", "stall_ratio")
    tables = [one.results["train"] for one in reference]
    waits = sum(sum(table["batch_ms"]) for table in tables)
    steps = sum(sum(table["step_ms"]) for table in tables)
    samples = sum(table["samples_per_iteration"] * len(table["step_ms"]) for table in tables)
    if not samples or not steps or not waits:
        reason = "no step of the reference was timed"
        return dict.fromkeys(names), dict.fromkeys(names, reason)
    rates = (
        1000 * samples / waits,
        1000 * samples / steps,
        1000 * samples / (steps + waits),
        waits / (steps + waits),
    )
    return {name: round(rate, 4) for name, rate in zip(names, rates, strict=True)}, {}
