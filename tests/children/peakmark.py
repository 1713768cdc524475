"""Plays the command ``peakmark run`` with steps of its own.

Called as ``peakmark.py run PROJECT --steps a,b --run-id ID [--device ID]``.  The runner is the real one; its
steps measure with the playing child.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

from children.helpers import PLAYER, plan

from tui.engine import runner
from tui.engine.context import Options, StepResult
from tui.engine.device import Device
from tui.errors import PeakmarkError


def step(act, **results):
    """A step that measures once with the player's function ``act``."""

    async def run(context):
        name = f"{context.run_id}-{context.step}"
        made = plan(context.state / "runs", act, name, child=str(context.project_path.parent / "child"))
        outcome = await context.measure(made, f"plays {act}", boot=PLAYER)
        return StepResult(outcome.word, results.get("code", 0), outcome.sentence, name)

    return run


runner.STEPS.update(params=step("finishes"), verify=step("finishes"), probe=step("waits"))


def main():
    project, flags = Path(sys.argv[2]), dict(zip(sys.argv[3::2], sys.argv[4::2], strict=True))
    try:
        return asyncio.run(
            runner.run(
                project,
                flags["--steps"].split(","),
                Options(),
                lambda event: print(event, flush=True),
                run_id=flags["--run-id"],
                find_device=lambda *_: Device("cpu", flags.get("--device", "cpu"), "a device", 1),
            )
        )
    except PeakmarkError as error:
        print(f"peakmark: {error.sentence()}", file=sys.stderr)
        return error.code


if __name__ == "__main__":
    sys.exit(main())
