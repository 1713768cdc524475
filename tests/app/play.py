"""Runs the app in the terminal it is started in, over a sample project and a run that is paced like a real one.

Words: cuda, cpu, empty or none; "ascii"; "deaf" (SIGHUP is not delivered).  A run has 10 iterations a second.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from app import fakes, sample
from tui.app import run as starter
from tui.app import source as outside
from tui.probe import protocol

WORDS = sys.argv[1:]
NAME = next((word for word in WORDS if word in ("cuda", "cpu", "empty")), "")


class Paced(fakes.FakeSource):
    """A run that paces itself."""

    async def follow(self, run):
        for event in fakes.probe_events(0):
            yield fakes.FakeSeen(event)
        for event in fakes.probe_events(40, 40)[9:]:
            yield fakes.FakeSeen(event)
            if isinstance(event, protocol.IterationDone):
                await asyncio.sleep(0.1)
        yield fakes.FakeSeen(protocol.RunEnded(0))


if "deaf" in WORDS:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
outside.World = lambda: Paced(getattr(sample, NAME)() if NAME else None)
sys.exit(starter.run_app(Path("h100.toml") if NAME else None, ascii="ascii" in WORDS, mouse=False))
