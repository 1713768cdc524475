"""A restore rehearsal: save, be killed by SIGKILL, go on in a new process, compare with a run that never stopped."""

from __future__ import annotations

import shutil
from typing import Any

from tui.engine.context import Context, StepResult
from tui.engine.outcome import Outcome
from tui.engine.steps import common
from tui.project.ids import new_id
from tui.project.measured import Check, Restore

SAVED_AFTER = 6
KILLED_IN = 9
ITERATIONS = 14
"""Two iterations more than the checkpoint holds are lost at the kill, and run twice."""


async def run(context: Context) -> StepResult:
    """Three children: one saves and is killed, one never stops, one goes on; code 1 when they differ."""
    project, spec = common.ready(context)
    id = new_id("r")
    folder = context.state / "checkpoints" / id
    saved = {"save_after": SAVED_AFTER, "checkpoint": str(folder / "checkpoint.pt"), "load": None}
    try:
        killed = await context.measure(
            common.plan(
                context, project, "resume", iterations=ITERATIONS, extra={**saved, "kill_in": KILLED_IN}
            ),
            "saved, then killed",
        )
        if killed.word in ("failed", "cancelled", "out-of-memory"):
            return common.failed(killed)
        whole = await context.measure(
            common.plan(context, project, "resume", iterations=ITERATIONS, extra={"load": None}),
            "never stopped",
        )
        if whole.word != "done":
            return common.failed(whole)
        resumed = await context.measure(
            common.plan(
                context, project, "resume", id=id, iterations=ITERATIONS, extra={"load": saved["checkpoint"]}
            ),
            "restored in a new process",
        )
        if resumed.word == "cancelled":
            return common.failed(resumed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _ended(context, spec, id, killed, whole, resumed)


def _ended(
    context: Context, spec: str, id: str, killed: Outcome, whole: Outcome, resumed: Outcome
) -> StepResult:
    checks = compared(killed, whole, resumed)
    good = all(one.outcome == "pass" for one in checks.values())
    outcomes = [resumed, whole, killed]
    key, _ = common.environment(context, outcomes)
    checkpoint = killed.results.get("checkpoint", {})
    peak = next((one for one in resumed.readings if one.name in ("requested", "process")), None)
    unknown: dict[str, str] = {}
    if peak is None or peak.bytes is None:
        unknown["restore_peak_bytes"] = (peak.unknown if peak else "") or "not read"
    loaded = resumed.results.get("resume", {}).get("loaded_s")
    if loaded is None:
        unknown["recovery_s"] = "it did not get that far"
    result = Restore(
        at=common.now(),
        spec=spec,
        environment=key,
        outcome="restores" if good else "failed",
        saved_after=SAVED_AFTER,
        killed_in=KILLED_IN,
        iterations=ITERATIONS,
        checks=checks,
        checkpoint_bytes=checkpoint.get("bytes"),
        checkpoint_sha256=checkpoint.get("sha256"),
        recovery_s=round(loaded, 2) if loaded is not None else None,
        restore_peak_bytes=peak.bytes if peak is not None else None,
        restore_peak_of=peak.name if peak is not None else "requested",
        journal=common.journal_name([resumed]),
        unknown=unknown,
    )
    common.keep(context, outcomes, id, "restore", result)
    bad = [one.title for one in checks.values() if one.outcome == "fail"]
    if bad:
        return StepResult("failed", 1, f"not restored: {', '.join(bad)}", id)
    return StepResult(
        "restores", 0, f"killed in iteration {KILLED_IN}, back with equal losses, bit for bit", id
    )


def compared(killed: Outcome, whole: Outcome, resumed: Outcome) -> dict[str, Check]:
    """Was it really killed; are samples, losses and parameters those of the run that never stopped?"""
    ended = "by SIGKILL" if killed.returncode in (-9, 137) else f"with {killed.returncode}"
    lines = {
        "killed": Check(
            "run",
            "killed",
            "pass" if killed.returncode in (-9, 137) else "fail",
            f"saved after iteration {SAVED_AFTER}, ended {ended} in iteration {KILLED_IN}",
        )
    }
    if resumed.word != "done":
        return {**lines, "loaded": Check("run", "loaded", "fail", resumed.sentence)}
    left, right = whole.results["resume"], resumed.results["resume"]
    for key, title in (("samples", "samples"), ("losses", "losses")):
        expected = left[key][-len(right[key]) :]
        equal = sum(a == b for a, b in zip(expected, right[key], strict=False))
        lines[key] = Check(
            "run",
            title,
            "pass" if expected == right[key] and right[key] else "fail",
            f"{equal} of {len(right[key])} equal{_apart(key, expected, right[key])}",
        )
    same = left["parameters"] == right["parameters"]
    lines["parameters"] = Check(
        "run",
        "parameters",
        "pass" if same else "fail",
        "equal, bit for bit" if same else "not equal at the end",
    )
    return lines


def _apart(key: str, expected: list[Any], found: list[Any]) -> str:
    if key != "losses" or expected == found:
        return ", bit for bit"
    pairs = zip(expected, found, strict=False)
    return f", largest difference {max(abs(float.fromhex(a) - float.fromhex(b)) for a, b in pairs):.1e}"
