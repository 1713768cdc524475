"""How long the simulated allocator takes for 100,000 events, in seconds of CPU time: ``python -m`` it, or run it.

The promise is at most 0.25 s with the default settings on the two cores of the machine that builds peakmark.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tui.probe.allocator import CachingAllocator
from tui.probe.allocator_settings import parse

EVENTS = 100_000
PROMISE_S = 0.25
SIZES = (4, 512, 4096, 65536, 1 << 20, 3 << 20, (5 << 20) + 77, 12 << 20, 40 << 20)


def events(seed: int = 1) -> list[tuple[int, int]]:
    """(id, bytes) of a request, (id, 0) of a free; as many blocks stay as a large training step holds."""
    chance = random.Random(seed)
    made: list[tuple[int, int]] = []
    alive: list[int] = []
    while len(made) < EVENTS:
        if alive and chance.random() < 0.49:
            made.append((alive.pop(chance.randrange(len(alive))), 0))
        else:
            alive.append(len(made))
            made.append((len(made), chance.choice(SIZES)))
    return made


def seconds(make: Callable[[], CachingAllocator], program: list[tuple[int, int]]) -> float:
    """CPU seconds of the whole program, the best of three."""
    taken: list[float] = []
    for _ in range(3):
        allocator, began = make(), time.process_time()
        for id, nbytes in program:
            if nbytes:
                allocator.malloc(id, nbytes)
            else:
                allocator.free(id)
        taken.append(time.process_time() - began)
    return min(taken)


def main() -> None:
    """Print a row for each way to run it."""
    program = events()
    print(f"{EVENTS:,} events, CPU seconds")
    makes: dict[str, Callable[[], CachingAllocator]] = {
        "default": CachingAllocator,
        "default, statistics": lambda: CachingAllocator(counted=True),
        "expandable_segments:True": lambda: CachingAllocator(settings=parse("expandable_segments:True")),
        "max_split_size_mb:64": lambda: CachingAllocator(settings=parse("max_split_size_mb:64")),
    }
    for name, make in makes.items():
        found = seconds(make, program)
        held = "" if name != "default" else f"   {'within' if found <= PROMISE_S else 'ABOVE'} {PROMISE_S} s"
        print(f"{name:<28}{found:>8.3f}{held}")


if __name__ == "__main__":
    main()
