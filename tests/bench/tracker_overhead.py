"""What does labelling storages cost an iteration?  Prints ratios of medians with their 95 % intervals.

``python tests/bench/tracker_overhead.py [PAIRS]``: in one process, on one decoder, an iteration under the tracker and a
bare one take turns, so that what the machine does meanwhile happens to both.  Times are of the process's CPUs, with
one thread.  The ratio should be at most 1.25 where an iteration takes a tenth of a second or more: an operator costs
some 10 us more, two thirds of them torch's own, which is much for an iteration of a few milliseconds.  A second line
of each has the allocator's recorder around both, as a traced run does, against the bare iteration.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from decoder_session import session  # noqa: E402

from tui.probe.record_cpu import CpuRecorder  # noqa: E402
from tui.probe.session import Session  # noqa: E402
from tui.probe.tracker import Tracker  # noqa: E402

WARMUP = 3
SIZES: dict[str, dict[str, Any]] = {
    "4 layers, 128 wide, 4 x 64 tokens": {"layers": 4, "heads": 4, "width": 128, "vocab": 256, "context": 64},
    "4 layers, 256 wide, 4 x 128 tokens": {
        "layers": 4,
        "heads": 4,
        "width": 256,
        "vocab": 256,
        "context": 128,
    },
}


def timed(work: Callable[[], Any]) -> float:
    """CPU milliseconds of ``work``."""
    begun = time.process_time_ns()
    work()
    return (time.process_time_ns() - begun) / 1e6


def tracked(built: Session) -> None:
    """An iteration under the tracker as a traced run has it, its set-up included."""
    tracker = Tracker(built.model, False)

    def watched() -> Iterator[Any]:
        batches = built.host_batches()
        while True:
            with tracker.paused():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    with tracker:
        built.iterate(watched())


def recorded(built: Session) -> float:
    """CPU milliseconds of an iteration under recorder and tracker, reading the record excluded."""
    recorder = CpuRecorder()
    recorder.start()
    found = timed(lambda: tracked(built))
    recorder.stop()
    return found


def ratio_line(name: str, ours: list[float], theirs: list[float]) -> str:
    """Medians, their ratio and its bootstrap interval over pairs."""
    draw = random.Random(1)

    def ratio(chosen: list[int]) -> float:
        return statistics.median(ours[one] for one in chosen) / statistics.median(
            theirs[one] for one in chosen
        )

    count = len(ours)
    ratios = sorted(ratio(draw.choices(range(count), k=count)) for _ in range(2000))
    return (
        f"{name}: {statistics.median(ours):.2f} ms against {statistics.median(theirs):.2f} ms bare, ratio of medians "
        f"{ratio(list(range(count))):.3f}, 95 % interval {ratios[50]:.3f} to {ratios[-51]:.3f}, {count} pairs"
    )


def main() -> None:
    """For each size warm up, take turns, print two lines."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    torch.set_num_threads(1)
    for name, args in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            built = session(folder, "traced", args)
            one: list[float] = []
            both: list[float] = []
            bare: list[float] = []
            for place in range(WARMUP + pairs):
                turns = [
                    (one, lambda built=built: timed(lambda: tracked(built))),
                    (bare, lambda built=built: timed(built.iterate)),
                ]
                for kept, work in turns if place % 2 else turns[::-1]:
                    found = work()
                    if place >= WARMUP:
                        kept.append(found)
                if place >= WARMUP:
                    both.append(recorded(built))
        print(ratio_line(f"{name}, tracked", one, bare))
        print(ratio_line(f"{name}, tracked and recorded", both, bare), flush=True)


if __name__ == "__main__":
    main()
