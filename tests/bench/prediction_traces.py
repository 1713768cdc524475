"""Every recorded allocator trace through the simulator: addresses, segments, peaks and time."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path
from typing import Any

from memory_records import traces

from tui.probe import recorded

QUANTITIES = ("requested", "allocated", "reserved")
NOTHING = "The recorded traces are not here; the environment variable PEAKMARK_TRACES names their folder."


def row(expected: dict[str, Any], folder: Path) -> tuple[str, bool]:
    """The line of one trace, and whether all of it is right."""
    begun = time.process_time()
    history = recorded.load(folder / expected["file"])
    spent = time.process_time() - begun
    peaks = {
        "requested": history.peak_requested.bytes,
        "allocated": history.peak_allocated.bytes if history.peak_allocated else None,
        "reserved": history.peak_reserved.bytes,
    }
    wrong = [one for one in QUANTITIES if peaks[one] != expected["peak"][one]]
    addresses = history.played.wrong_addresses
    segments = history.count("segment_alloc") - expected["segments"]
    events = len(history.events)
    cells = [
        expected["file"].removesuffix(".pickle"),
        f"{events:,}",
        f"{history.count('alloc'):,}",
        "n/a" if addresses is None else f"{addresses:,}",
        f"{abs(segments) + len(history.played.ignored):,}",
        *(f"{peaks[one] or 0:,}" for one in QUANTITIES),
        "exact" if not wrong else "wrong: " + ", ".join(wrong),
        f"{spent * 1e5 / events:.2f}",
    ]
    return f"| {' | '.join(cells)} |", not wrong and addresses == 0 and segments == 0


def simulated(folder: Path) -> str:
    """Seconds of the simulator alone for 100,000 events, over the longest trace."""
    from tui.probe.allocator import CachingAllocator

    history = max((recorded.load(one) for one in folder.glob("*.pickle")), key=lambda one: len(one.events))
    steps = [(one.kind, one.address, one.nbytes) for one in history.events if one.kind in ("alloc", "free")]
    allocator, alive, count = CachingAllocator(), {}, 0
    begun = time.process_time()
    for number, (kind, address, nbytes) in enumerate(steps):
        if kind == "alloc":
            alive[address] = number
            allocator.malloc(number, nbytes)
            count += 1
        elif address in alive:
            allocator.free(alive.pop(address))
            count += 1
    return f"{(time.process_time() - begun) * 1e5 / count:.2f}"


def section() -> list[str]:
    """The lines of the page."""
    folder = traces()
    lines = ["## The allocator's simulator against recorded traces", ""]
    if folder is None:
        return [*lines, NOTHING, ""]
    expected = tomllib.loads((folder / "expected.toml").read_text())["trace"]
    found = [row(one, folder) for one in expected]
    exact = sum(1 for _, right in found if right)
    return [
        *lines,
        f"Recorded on real GPUs by `torch.cuda.memory`. {exact} of {len(found)} are exact: every address, every "
        "segment, every peak. The last column is the CPU time of reading a file, finding the state before its first "
        f"event and replaying it; playing events alone takes {simulated(folder)} s per 100,000 (aim: 0.25 s).",
        "",
        "| trace | events | allocations | wrong addresses | wrong segments | requested peak B | allocated peak B "
        "| reserved peak B | peaks | s per 100,000 events |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |",
        *(line for line, _ in found),
        "",
    ]
