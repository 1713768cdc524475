"""Under which conditions a figure was measured: the environment's facts, and what was taken for granted."""

from __future__ import annotations

from dataclasses import fields

from tui.project.measured import Environment, Probe
from tui.project.model import Spec
from tui.report.batch_text import frozen
from tui.report.envelope import Document, Source
from tui.report.json_values import Missing, known


def environment_facts(source: Source, environment: str) -> Document | Missing:
    """Every fact of the environment that a measurement found itself in, by its name in the project file."""
    found = source.measured.environment.get(environment)
    if found is None:
        return Missing("the project no longer has this environment's entry")
    names = [one.name for one in fields(Environment) if one.name != "unknown"]
    return {name: known(getattr(found, name), found.unknown.get(name)) for name in names}


def assumptions(spec: Spec, probe: Probe) -> list[Document]:
    """What a measurement takes for granted, each with why; a list of {what, value, because}."""
    workload = spec.workload
    optimizer, step = workload.optimizer, workload.step
    said = [
        ("seed", "0", "every measurement starts from the same weights and batches"),
        ("gradients", "set to None before each iteration", "torch's default"),
        ("batches", "made outside the timed part", "peakmark precision measures the loader"),
        ("mode", "train, dropout as the model has it", "an iteration of training is measured"),
        ("validation", "one batch of the same micro-batch", "its peak is a phase of its own"),
        (
            "labels",
            "of one tracked iteration, joined by address, else by order and size",
            "tracking changes the backward a little, so totals come from untracked iterations",
        ),
        ("optimizer implementation", optimizer.implementation, "workload.optimizer"),
        ("activation checkpointing", ", ".join(step.checkpoint) or "none", "workload.step.checkpoint"),
        ("torch.compile", "the model" if step.compile else "no", "workload.step.compile"),
        ("loss of micro-batches", f"weighted by {workload.batch.weight_by}", "workload.batch.weight_by"),
        ("remainder of an epoch", workload.batch.remainder, "no step is larger than the one measured"),
        ("scheduler", workload.scheduler.name if workload.scheduler else "none", "workload.scheduler"),
        ("frozen parameters", frozen(spec), "workload.frozen"),
        ("nice", str(probe.nice), "--nice"),
    ]
    if probe.length is not None:
        said.append(("length", str(probe.length), "memory is measured at the longest"))
    return [{"what": what, "value": value, "because": because} for what, value, because in said]
