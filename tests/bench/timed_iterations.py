"""Do iterations take longer because the probe runs them?  Prints the ratio of medians with its 95 % interval.

``python tests/bench/timed_iterations.py [ROUNDS]``: the probe's timed child and the same loop written bare, each in
fresh processes at the same nice value, interleaved; the ratio should lie within 0.98 to 1.02.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tui.probe.protocol import Plan, ResultReady, decode  # noqa: E402

NICE = 10
ITERATIONS = 40
WARMUP = 4
MODEL = {"layers": 4, "heads": 4, "width": 128, "vocab": 256, "context": 64}
MICRO = 4

BARE = """
import importlib.util, json, os, sys, time
os.nice({nice})
sys.path.insert(0, {folder!r})
import boot
boot.load_package({folder!r})
sys.path.pop(0)
import torch
from _peakmark_probe import families
family, cfg = families.load("decoder", {model!r})
torch.manual_seed(0)
model = family.build(cfg)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
times = []
for index in range({warmup} + 1 + {iterations}):
    batch = family.batch({micro}, index, "train", None, cfg)
    begun = time.perf_counter_ns()
    optimizer.zero_grad(set_to_none=True)
    loss = model(**batch)
    loss.backward()
    optimizer.step()
    times.append((time.perf_counter_ns() - begun) / 1e6)
print(json.dumps(times[{warmup} + 1:]))
"""


def bare() -> list[float]:
    """Milliseconds of the bare loop's iterations."""
    folder = str(ROOT / "tui" / "probe")
    code = BARE.format(
        nice=NICE, folder=folder, model=MODEL, warmup=WARMUP, iterations=ITERATIONS, micro=MICRO
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def probed() -> list[float]:
    """Milliseconds of the probe's timed iterations."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal.jsonl"
        plan = Plan(
            "bench",
            "timed",
            str(journal),
            {"source": "decoder", "args": MODEL},
            {"micro": MICRO, "accumulate": 1, "length": None, "tokens": None},
            {
                "name": "torch.optim.AdamW",
                "implementation": "default",
                "args": {"lr": 1e-3},
                "clip_norm": None,
            },
            {"compile": False, "checkpoint": []},
            {"batches": 1},
            iterations=ITERATIONS,
            warmup=WARMUP,
            nice=NICE,
            folder=folder,
            parent=os.getpid(),
        )
        path = Path(folder) / "plan.json"
        path.write_text(plan.dump())
        child = subprocess.Popen(
            [sys.executable, str(ROOT / "tui/probe/boot.py"), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        child.wait()
        events = [decode(line) for line in journal.read_bytes().splitlines()]
        tables = [event.table for event in events if isinstance(event, ResultReady) and event.kind == "timed"]
        return tables[0]["step_ms"]


def interval(ours: list[list[float]], theirs: list[list[float]]) -> tuple[float, float, float]:
    """(ratio of medians over all rounds, 95 % bootstrap interval), resampling rounds as pairs."""
    draw = random.Random(1)

    def ratio(rounds: list[int]) -> float:
        left = statistics.median([ms for one in rounds for ms in ours[one]])
        return left / statistics.median([ms for one in rounds for ms in theirs[one]])

    everything = list(range(len(ours)))
    ratios = sorted(ratio(draw.choices(everything, k=len(everything))) for _ in range(2000))
    return ratio(everything), ratios[50], ratios[-51]


def main() -> None:
    """Run the rounds and print one line each."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    for place in range(rounds):
        order = (probed, bare) if place % 2 else (bare, probed)
        for one in order:
            (ours if one is probed else theirs).append(one())
        left, right = statistics.median(ours[-1]), statistics.median(theirs[-1])
        print(
            f"round {place + 1}: probe {left:.2f} ms, bare {right:.2f} ms, ratio {left / right:.4f}",
            flush=True,
        )
    middle, low, high = interval(ours, theirs)
    print(f"ratio of medians {middle:.4f}, 95 % interval {low:.4f} to {high:.4f}, nice {NICE}")


if __name__ == "__main__":
    main()
