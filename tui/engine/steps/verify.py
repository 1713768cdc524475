"""Step 2: a small step of the real workload, and a checkpoint reloaded in a fresh process."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from tui.engine.context import Context, StepResult
from tui.engine.outcome import Outcome
from tui.engine.steps import common
from tui.probe.protocol import CheckDone
from tui.project.ids import new_id
from tui.project.measured import Check, Verify

LARGEST_MICRO = 2
"""The smallest batch that is still a batch: some layers refuse a single sample."""


async def run(context: Context) -> StepResult:
    """Both children, then one Verify entry; code 1 when a check failed."""
    project, spec = common.ready(context)
    id = new_id("v")
    micro = min(LARGEST_MICRO, project.spec.workload.batch.micro)
    folder = context.state / "checkpoints" / id
    checkpoint = str(folder / "checkpoint.pt")
    extra = {"checkpoint": checkpoint}
    try:
        first = await context.measure(
            common.plan(context, project, "verify", id=id, micro=micro, accumulate=1, extra=extra),
            "a small step",
        )
        if first.word != "done":
            return _ended(context, spec, [first], id, project.spec.precision.use)
        second = await context.measure(
            common.plan(context, project, "reload", micro=micro, accumulate=1, extra=extra),
            "the checkpoint in a fresh process",
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for check in compared(first, second, project.spec.precision.use):
        context.say(check)
    return _ended(context, spec, [first, second], id, project.spec.precision.use)


def compared(first: Outcome, second: Outcome, precision: str) -> list[CheckDone]:
    """The lines that need both processes."""
    group = "checkpoint"
    if second.word != "done":
        return [CheckDone("reloaded", group, "reloaded", "fail", second.sentence)]
    left, right = first.results["fingerprint"], second.results["fingerprint"]
    lines: list[CheckDone] = []
    for key, title, field in (
        ("next_loss", "next loss", "losses"),
        ("parameters", "parameters after it", "parameters"),
    ):
        if field == "losses" and "nan" in left[field]:
            lines.append(CheckDone(key, group, title, "fail", "the loss is not finite"))
            continue
        same = left[field] == right[field]
        text = "equal, bit for bit" if same else _apart(left, right, field)
        lines.append(CheckDone(key, group, title, "pass" if same else "fail", text))
    if precision != "fp16-autocast":
        lines.append(CheckDone("scaler", group, "gradient scaler", "n/a", f"{precision} uses none"))
    return lines


def _apart(left: dict[str, list[str]], right: dict[str, list[str]], field: str) -> str:
    if field != "losses":
        return "not equal to those of the run that went on"
    distance = abs(float.fromhex(left[field][0]) - float.fromhex(right[field][0]))
    return f"differs by {distance:.1e} from the run that went on"


def _ended(context: Context, spec: str, outcomes: Sequence[Outcome], id: str, precision: str) -> StepResult:
    first = outcomes[0]
    lines = [one for outcome in outcomes for one in outcome.checks]
    if len(outcomes) == 2:
        lines += compared(first, outcomes[1], precision)
    if first.word == "cancelled" or (len(outcomes) == 2 and outcomes[1].word == "cancelled"):
        return common.failed(outcomes[-1])
    if first.word != "done":
        if common.code_of(first) != 1:
            return common.failed(first)
        lines.append(CheckDone("ended", "step", "ended early", "fail", first.sentence))
    bad = [one.title for one in lines if one.outcome == "fail"]
    saved = first.results.get("checkpoint", {})
    key, _ = common.environment(context, outcomes)
    result = Verify(
        at=common.now(),
        spec=spec,
        environment=key,
        outcome="failed" if bad else "verified",
        precision=precision,
        seconds=round(sum((one.ended - one.started).total_seconds() for one in outcomes), 2),
        checks={one.key: Check(one.group, one.title, one.outcome, one.text) for one in lines},
        checkpoint_bytes=saved.get("bytes"),
        checkpoint_sha256=saved.get("sha256"),
        checkpoint_parts=saved.get("parts", {}),
        gradient_receiving=first.results.get("receiving", {}).get("gradient_receiving"),
        journal=common.journal_name([first]),
        unknown={} if saved else {"checkpoint_bytes": "no checkpoint was saved"},
    )
    common.keep(context, outcomes, id, "verify", result)
    passed = sum(one.outcome == "pass" for one in lines)
    if bad:
        return StepResult("failed", 1, f"{len(bad)} of {len(lines)} checks failed: {', '.join(bad)}", id)
    return StepResult("verified", 0, f"{passed} of {len(lines)} checks pass, 0 fail", id)
