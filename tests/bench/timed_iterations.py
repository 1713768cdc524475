"""Do iterations take longer because the probe runs them?  Prints the ratio of medians with its 95 % interval.

``python tests/bench/timed_iterations.py [PAIRS]``: in one process, on one model, an iteration as the timed child runs
it (its stopwatch, its phase edges, its journal) and the same loop written bare take turns, at the same nice value,
so that what the machine does meanwhile happens to both.  The ratio should lie within 0.98 to 1.02.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from decoder_session import MICRO, session  # noqa: E402

from tui.probe.protocol import IterationDone  # noqa: E402
from tui.probe.session import Session  # noqa: E402
from tui.probe.tasks.timed import Clocked  # noqa: E402

NICE = 10
WARMUP = 10
MODEL = {"layers": 4, "heads": 4, "width": 128, "vocab": 256, "context": 64}


def bare(built: Session) -> float:
    """Milliseconds of one iteration of the loop as anybody would write it."""
    batch = next(iter(built.host_batches()))
    begun = time.perf_counter_ns()
    built.optimizer.zero_grad(set_to_none=True)
    loss = built.model(**batch)
    loss.backward()
    built.optimizer.step()
    return (time.perf_counter_ns() - begun) / 1e6


def probed(clocked: Clocked) -> float:
    """Milliseconds of one iteration as the timed child runs it, told to the journal afterwards."""
    _, ends = clocked.iterate()
    ms = clocked.watch.finished()[0]
    whole: Any = None if None in ends else ends
    clocked.session.report(IterationDone(0, "timed", ms, None, MICRO, allocated=whole))
    return ms


def main() -> None:
    """Warm both up, take turns, print one line."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    os.nice(NICE)
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        built = session(folder, "timed", MODEL)
        clocked = Clocked(built)
        built.observe(clocked.enter)
        for place in range(WARMUP + pairs):
            if place % 2:
                left, right = probed(clocked), bare(built)
            else:
                right, left = bare(built), probed(clocked)
            if place >= WARMUP:
                ours.append(left)
                theirs.append(right)
    draw = random.Random(1)

    def ratio(chosen: list[int]) -> float:
        return statistics.median(ours[one] for one in chosen) / statistics.median(
            theirs[one] for one in chosen
        )

    ratios = sorted(ratio(draw.choices(range(pairs), k=pairs)) for _ in range(2000))
    print(
        f"{pairs} pairs at nice {NICE}: probe {statistics.median(ours):.3f} ms, bare "
        f"{statistics.median(theirs):.3f} ms, ratio of medians {ratio(list(range(pairs))):.4f}, "
        f"95 % interval {ratios[50]:.4f} to {ratios[-51]:.4f}"
    )


if __name__ == "__main__":
    main()
