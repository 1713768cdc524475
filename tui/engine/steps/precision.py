"""Step 5: the same weights, batches and order under several precision settings, each in fresh processes.

The blocks are interleaved (the reference's further seeds come between the others), so that a machine that slows
down does not favour one setting.  Memory comes from traced runs of their own.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path

from tui.engine.context import Context, StepResult
from tui.engine.outcome import Outcome
from tui.engine.steps import common
from tui.engine.steps.settings import build, loader_rates
from tui.errors import ProjectError
from tui.probe.protocol import SETTINGS, Progress
from tui.project.ids import new_id
from tui.project.load import Project
from tui.project.measured import PhasePeak, Precision

QUICK_STEPS = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """One child: a training run of ``setting`` with ``seed``, or its traced memory."""

    setting: str
    seed: int
    task: str


async def run(context: Context) -> StepResult:
    """All blocks, then one Precision entry; code 1 when the reference itself failed."""
    project, spec = common.ready(context)
    wanted = context.options.settings or project.spec.precision.compare
    for name in wanted:
        if name not in SETTINGS:
            raise ProjectError(
                f"{name} is not a precision setting", hint=f"settings are {', '.join(SETTINGS)}"
            )
    id = new_id("c")
    folder = context.state / "gradients" / id
    blocks = planned(wanted, project.spec.precision.seeds, known_memory(project, spec))
    outcomes: dict[Block, Outcome] = {}
    try:
        for place, block in enumerate(blocks):
            if block.task == "traced" and outcomes[dataclasses.replace(block, task="train")].word != "done":
                continue  # a setting that cannot be trained here needs no figure of its memory
            context.say(Progress(place, len(blocks), "blocks"))
            outcome = await _block(context, project, block, folder, id, block == blocks[0])
            outcomes[block] = outcome
            if outcome.word == "cancelled":
                # A part of a comparison decides nothing, and must not stand in the place of a whole one.
                return StepResult(
                    "cancelled", 4, "stopped before every setting was measured: nothing is saved"
                )
            if block == blocks[0] and outcome.word != "done":
                return common.failed(outcome)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _ended(context, project, spec, id, wanted, outcomes)


def planned(wanted: Sequence[str], seeds: int, memory: dict[str, PhasePeak]) -> list[Block]:
    """Blocks in the order they run: reference, the others, the reference's further seeds, memory.

    >>> [(b.setting, b.seed, b.task) for b in planned(("fp32", "bf16"), 2, {})]
    [('fp32', 0, 'train'), ('bf16', 0, 'train'), ('fp32', 1, 'train'), ('fp32', 0, 'traced'), ('bf16', 0, 'traced')]
    """
    reference = wanted[0]
    others = [Block(name, 0, "train") for name in wanted[1:]]
    seeded = [Block(reference, seed, "train") for seed in range(1, seeds)]
    mixed: list[Block] = []
    for place in range(max(len(others), len(seeded))):
        mixed += others[place : place + 1] + seeded[place : place + 1]
    traced = [Block(name, 0, "traced") for name in wanted if name not in memory]
    return [Block(reference, 0, "train"), *mixed, *traced]


def known_memory(project: Project, spec: str) -> dict[str, PhasePeak]:
    """Worst phases of probes of this very spec, by setting: what need not be traced again."""
    batch = project.spec.workload.batch
    longest = batch.length.max if batch.length else None
    found: dict[str, PhasePeak] = {}
    for probe in project.measured.probe.values():
        same = (
            probe.spec == spec and probe.micro_batch == batch.micro and probe.accumulate == batch.accumulate
        )
        if same and probe.length == longest and probe.worst_phase in probe.phases and not probe.failure:
            found[probe.precision] = probe.phases[probe.worst_phase]
    return found


async def _block(
    context: Context, project: Project, block: Block, folder: Path, id: str, is_reference: bool
) -> Outcome:
    if block.task == "traced":
        return await context.measure(
            common.plan(context, project, "traced", precision=block.setting, iterations=3),
            f"{block.setting}, memory",
        )
    path = str(folder / "reference.pt")
    extra = {} if block.seed else {"write_gradients" if is_reference else "compare_gradients": path}
    steps = QUICK_STEPS if context.options.quick else project.spec.precision.steps
    return await context.measure(
        common.plan(
            context,
            project,
            "train",
            id=id if is_reference else "",
            precision=block.setting,
            seed=block.seed,
            iterations=context.options.iterations or steps,
            extra=extra,
        ),
        f"{block.setting}, seed {block.seed}" if block.seed else block.setting,
    )


def _ended(
    context: Context,
    project: Project,
    spec: str,
    id: str,
    wanted: Sequence[str],
    outcomes: dict[Block, Outcome],
) -> StepResult:
    done = list(outcomes.values())
    memory = known_memory(project, spec)
    settings, noise = build(project.spec, wanted, outcomes, memory)
    reference_runs = [
        one for block, one in outcomes.items() if block.setting == wanted[0] and block.task == "train"
    ]
    key, _ = common.environment(context, done)
    loader, unknown = loader_rates([one for one in reference_runs if one.word == "done"])
    first = reference_runs[0].results.get("train", {}) if reference_runs else {}
    result = Precision(
        at=common.now(),
        spec=spec,
        environment=key,
        reference=wanted[0],
        steps=len(first.get("losses", ())),
        seeds=sum(one.word == "done" for one in reference_runs),
        micro_batch=project.spec.workload.batch.micro,
        outcome="done",
        noise_floor=noise.validation,
        noise_floor_training=noise.training,
        settings=settings,
        journal=common.journal_name(done[:1]),
        unknown={**noise.unknown, **unknown},
        loader_samples_per_s=loader["loader_samples_per_s"],
        compute_samples_per_s=loader["compute_samples_per_s"],
        together_samples_per_s=loader["together_samples_per_s"],
        stall_ratio=loader["stall_ratio"],
    )
    common.keep(context, done, id, "precision", result)
    return StepResult("done", 0, said(result), id)


def said(result: Precision) -> str:
    """One sentence: which settings are worth something, or that none is.

    >>> from datetime import datetime
    >>> said(Precision(datetime(2026, 1, 1), "s", "e", "fp32", 1, 1, 1, "done"))
    'fp32 measured; nothing to compare it with'
    """
    others = {name: one for name, one in result.settings.items() if name != result.reference}
    if not others:
        return f"{result.reference} measured; nothing to compare it with"
    words: list[str] = []
    for name, one in others.items():
        if one.verdict == "usable":
            gain = f"gain in {' and '.join(one.gain)}" if one.gain else "no gain here"
            words.append(f"{name} usable, {gain}")
        else:
            words.append(f"{name} {one.verdict or one.outcome}")
    return "; ".join(words)
