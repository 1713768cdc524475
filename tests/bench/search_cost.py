"""What a search costs: measurements and wall time against doubling and then bisecting, on five workloads, in one run.

``python tests/bench/search_cost.py [--quick]``: each workload gets a budget that bounds it, on the CPU, and both ways
of searching measure with the same children: whether it fits decided by a timed run, then the soak.  Prints a table.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tui.budget import search as policy  # noqa: E402
from tui.engine import device  # noqa: E402
from tui.engine.context import Context, Options, StepResult  # noqa: E402
from tui.engine.steps import search  # noqa: E402
from tui.project.load import load  # noqa: E402


@dataclass(frozen=True)
class Workload:
    """A project's source, its arguments, the batch to begin with, multiples of it, and the budget in MiB."""

    name: str
    source: str
    args: str
    start: int
    budget: int
    more: str = ""


WORKLOADS = (
    Workload("perceptron", "mlp", "{ inputs = 16, hidden = [2048], outputs = 4 }", 512, 600),
    Workload(
        "decoder",
        "decoder",
        "{ layers = 2, heads = 2, width = 64, vocab = 2048, context = 64 }",
        4,
        600,
        "length = 64",
    ),
    Workload(
        "decoder, recomputed",
        "decoder",
        "{ layers = 4, heads = 2, width = 64, vocab = 512, context = 64 }",
        8,
        550,
        "length = 64\n[workload.step]\ncheckpoint = ['Block']",
    ),
    Workload("convnet", "convnet", "{ channels = [16, 32], size = 32 }", 32, 600),
    Workload(
        "encoder",
        "encoder",
        "{ layers = 2, heads = 2, width = 64, vocab = 512, context = 64 }",
        8,
        600,
        "length = 64",
    ),
)
TEXT = """\
schema = 1
[workload]
source = "{source}"
args = {args}
[workload.batch]
micro = {start}
{more}
[budget]
job = "{budget} MiB"
reserve = "50 MiB"
[quality]
batches = 1
[environment]
device = "cpu"
"""


guided = policy.advance


def unguided(asked: policy.Asked, trials: Any) -> Any:
    """The same rules without any line: doubling until it fails, then bisecting."""
    plain = [replace(one, process_bytes=None) for one in trials]
    return guided(replace(asked, points=None, predicted=None, limit_bytes=None), plain)


async def searched(
    one: Workload, folder: Path, quick: bool, advance: Any
) -> tuple[int, float, int | None, StepResult]:
    """(measurements, seconds, the largest found, the step's result)."""
    path = folder / f"{one.name.split(',')[0]}-{advance.__name__}.toml"
    path.write_text(TEXT.format(**vars(one)))
    options = Options(search=True, quick=quick, multiple_of=one.start)
    held = device.resolve("cpu")
    context = Context(
        path, options, "run-bench", folder / "state", held, lambda event: None, lambda event: None
    )
    kept, search.policy.advance = search.policy.advance, advance
    begun = time.monotonic()
    try:
        result = await search.run(context)
    finally:
        search.policy.advance = kept
    took = time.monotonic() - begun
    measured = load(path).measured
    found = measured.search[max(measured.search)]
    return len(found.probes), took, found.largest, result


async def main(quick: bool) -> None:
    """Both ways for every workload, one after the other."""
    print(
        f"{'workload':<20}{'probes':>8}{'s':>8}{'largest':>9}   {'doubling':>8}{'s':>8}{'largest':>9}{'ratio':>8}"
    )
    totals = [0, 0.0, 0, 0.0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.update(PEAKMARK_STATE=str(folder / "state"), PEAKMARK_LOCKS=str(folder / "locks"))
        (folder / "state" / "runs").mkdir(parents=True)
        for one in WORKLOADS:
            cells = []
            for advance in (guided, unguided):
                count, took, largest, result = await searched(one, folder, quick, advance)
                if result.outcome != "done":
                    sys.exit(f"{one.name}: {result.text}")
                cells.append((count, took, largest))
            (count, took, largest), (other, longer, twin) = cells
            totals = [a + b for a, b in zip(totals, (count, took, other, longer), strict=True)]
            print(
                f"{one.name:<20}{count:>8}{took:>8.1f}{largest or 0:>9}   {other:>8}{longer:>8.1f}{twin or 0:>9}"
                f"{longer / took:>8.2f}",
                flush=True,
            )
    print(f"{'all':<20}{totals[0]:>8}{totals[1]:>8.1f}{'':>9}   {totals[2]:>8}{totals[3]:>8.1f}{'':>9}"
          f"{totals[3] / totals[1]:>8.2f}")  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main("--quick" in sys.argv[1:]))
