"""How long the app's event loop stands still beside processes that take every core, and how fast keys are answered.

``python tests/bench/event_loop_gap.py [SECONDS [NICE]]``: the app runs in a pseudo-terminal of 80 x 24 over a project
with 50 probes and a timeline of 200,000 storages, watches a paced run, and is driven by keys while busy loops
take two cores.  Prints the longest and the 99th-percentile gap of the event loop, and key to paint; and the gaps
of an event loop that does nothing at the same time, for a machine that others use too.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

TICK_S = 0.005
STORAGES = 200_000
LIMIT_MS = 100.0
BUSY = 2
NICE = 10
"""Of the busy processes, as of a measuring child; the second argument sets another."""


# --- the app, in the pseudo-terminal --------------------------------------------------------------------


def app(project: Path, gaps: Path) -> int:
    """Run the app over ``project`` and write the gaps of its event loop, ms, and what it did then, to ``gaps``."""
    import asyncio

    from tui.app import run as starter
    from tui.app import source as outside
    from tui.app.app import PeakmarkApp

    seen: list[tuple[float, float, float, float]] = []

    class Measured(PeakmarkApp):
        async def _sample(self) -> None:
            last = time.perf_counter(), time.thread_time(), time.process_time()
            while True:
                await asyncio.sleep(TICK_S)
                now = time.perf_counter(), time.thread_time(), time.process_time()
                gap, own, whole = (1000 * (one - before) for one, before in zip(now, last, strict=True))
                seen.append((time.time(), gap - 1000 * TICK_S, own, whole))
                last = now

        def on_ready(self) -> None:
            self._sampling = asyncio.get_running_loop().create_task(self._sample())

    import tui.app.app as module

    module.PeakmarkApp = Measured
    outside.World = paced(project)
    code = starter.run_app(project, mouse=False)
    gaps.write_text(json.dumps(seen))
    return code


def paced(project: Path) -> type:
    """The real world but for its runs: one of 10 iterations a second that prints and ends measurements."""
    import asyncio

    from app import fakes

    from tui.app import source as outside
    from tui.probe import protocol

    class Paced(outside.World):
        """Real files, and a run of 10 iterations a second that prints and ends measurements."""

        def running(self, path: Path) -> None:
            return None

        def start(self, path: Path, steps: object, options: object = ()) -> fakes.FakeRun:
            return fakes.FakeRun()

        def untrusted(self, project: object) -> tuple[str, ...]:
            return ()

        def elapsed_s(self, run: object) -> float:
            return 19.0

        def stop(self, run: object) -> None:
            pass

        async def follow(self, run: object):
            log = Path(os.environ["PEAKMARK_STATE"]) / "runs" / "p-1.log"
            for event in fakes.probe_events(0):
                yield fakes.FakeSeen(event)
            for place in range(100_000):
                for event in fakes.probe_events(1, 400)[9:]:
                    yield fakes.FakeSeen(event)
                with log.open("a") as text:
                    text.write(f"\x1b[32miteration {place}\x1b[0m loss 9.4\n" * 20)
                if place % 10 == 9:
                    project.touch()
                    yield fakes.FakeSeen(protocol.MeasurementEnded("p-1", "done"))
                    yield fakes.FakeSeen(fakes.probe_events(0)[2])
                await asyncio.sleep(0.1)

    return Paced


# --- around it ------------------------------------------------------------------------------------------


def prepare(folder: Path) -> Path:
    """A project file with 50 probes, and the file of a large timeline in the state folder."""
    from app import sample, timelines

    from tui.project import save

    path = folder / "bench.toml"
    path.write_text(
        'schema = 1\ntitle = "bench"\n[workload]\nsource = "decoder"\n[precision]\nuse = "bf16-autocast"\n'
    )
    made = timelines.large(STORAGES)
    strings: dict[str, int] = {}
    rows = [
        [one.born, one.died, one.bytes]
        + [
            strings.setdefault(text, len(strings))
            for text in (one.row, one.module, one.operator, one.shape, one.dtype)
        ]
        for one in made.storages
    ]
    phases = [[one.name, one.micro, one.first, one.last] for one in made.phases]
    table = {"version": 1, "events": made.events, "phases": phases, "strings": [*strings], "storages": rows}
    (folder / "runs").mkdir()
    (folder / "runs" / "p.timeline.json").write_text(json.dumps(table, separators=(",", ":")))
    probes = {
        f"p-20261201T1411{n:02}-b{n}": sample.cuda_probe(n + 1, timeline="runs/p.timeline.json")
        for n in range(50)
    }
    measured = replace(sample.cuda().measured, probe=probes, operating={})
    save.record(path, lambda _: measured)
    return path


def busy(stop: float, nice: int) -> None:
    """Take one core until ``stop``."""
    os.nice(nice)
    while time.time() < stop:
        sum(range(10_000))


def bare(stop: float, results: object) -> None:
    """The same looks from an event loop that does nothing else: what the machine itself makes of it."""
    import asyncio

    async def look() -> list[float]:
        found, last = [], time.perf_counter()
        while time.time() < stop:
            await asyncio.sleep(TICK_S)
            now = time.perf_counter()
            found.append(1000 * (now - last - TICK_S))
            last = now
        return found

    results.put(asyncio.run(look()))


KEYS = (
    "\t",
    "\x1b[C",
    "\x1b[C",
    "\x1b[D",
    "\t",
    "j",
    "\r",
    "j",
    ">",
    "v",
    "\t",
    "j",
    "v",
    "\t",
    "o",
    "o",
    "d",
    "b",
    "3",
    "4",
)
"""Through every pane: Tab, arrows, folds, sorts, views, the log, meanings, bytes, another screen."""


def main() -> None:
    """Print the figures; exit 1 when the longest gap is not below the limit."""
    from app.terminal import Terminal

    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    nice = int(sys.argv[2]) if len(sys.argv) > 2 else NICE
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["PEAKMARK_STATE"] = name
        project, gaps = prepare(folder), folder / "gaps.json"
        argv = [sys.executable, __file__, "--app", str(project), str(gaps)]
        with Terminal(argv, PEAKMARK_STATE=name) as terminal:
            terminal.wait_for("all  ? help", limit_s=60)
            terminal.press("4")
            terminal.wait_for("next pane", limit_s=30)
            terminal.press("r")
            terminal.read(0.5)
            terminal.press("r")
            stop = time.time() + seconds
            loops = [multiprocessing.Process(target=busy, args=(stop, nice)) for _ in range(BUSY)]
            control = multiprocessing.Queue()
            loops.append(multiprocessing.Process(target=bare, args=(stop, control)))
            for one in loops:
                one.start()
            begun, answered = time.time(), []
            while time.time() < stop - 1:
                answered += [one for key in KEYS if (one := to_paint(terminal, key)) is not None]
            ended = time.time()
            idle = sorted(control.get())
            for one in loops:
                one.join()
            terminal.press("q")
            terminal.read(1.0)
            terminal.press("l")
            terminal.end(20)
        seen = [one for one in json.loads(gaps.read_text()) if begun <= one[0] <= ended]
    tell(seen, ended - begun)
    p99 = idle[int(0.99 * len(idle))]
    print(f"an event loop that does nothing, at the same time: longest {idle[-1]:.1f} ms, p99 {p99:.1f}")
    answered.sort()
    print(
        f"key to paint, {len(answered)} keys: p50 {1000 * statistics.median(answered):.0f} ms, "
        f"p90 {1000 * answered[int(0.9 * len(answered))]:.0f}, longest {1000 * answered[-1]:.0f}"
    )
    print(f"most CPU time of the app in one gap: {max(whole for *_, whole in seen):.0f} ms")
    longest = max(gap for _, gap, *_ in seen)
    sys.exit(0 if longest < LIMIT_MS or longest < idle[-1] else 1)


def tell(seen: list[list[float]], seconds: float) -> None:
    """Print the gaps, and how much CPU time the loop itself and the whole app had in the longest ones."""
    found = sorted(gap for _, gap, *_ in seen)
    p99, p90 = (found[int(share * len(found))] for share in (0.99, 0.9))
    print(f"event loop, {seconds:.0f} s beside {BUSY} busy processes, {len(found):,} looks")
    print(f"  longest {found[-1]:.1f} ms, p99 {p99:.1f}, p90 {p90:.1f}")
    for at, gap, own, whole in sorted(seen, key=lambda one: -one[1])[:5]:
        print(
            f"  {gap:.0f} ms at {at - seen[0][0]:.1f} s: CPU {own:.0f} ms of the loop, {whole:.0f} of the app"
        )


def to_paint(terminal, key: str) -> float | None:
    """Seconds from a key to the first bytes after it; None: nothing changed within half a second."""
    while terminal.master >= 0:  # what is on its way belongs to no key
        before = len(terminal.written)
        terminal.read(0.04)
        if len(terminal.written) == before:
            break
    begun, before = time.monotonic(), len(terminal.written)
    terminal.press(key)
    while time.monotonic() < begun + 0.5:
        terminal.read(0.002)
        if len(terminal.written) > before:
            return time.monotonic() - begun
    return None


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--app":
        sys.exit(app(Path(sys.argv[2]), Path(sys.argv[3])))
    main()
