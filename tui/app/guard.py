"""The app ends cleanly by signal, and when its terminal is gone.

Textual handles neither: a SIGTERM would leave the terminal in its alternate screen, and a terminal that
vanished without a SIGHUP would leave the process reading end-of-file for ever.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Callable

POLL_MS = 500
PATIENCE_S = 5.0
"""After this long without an orderly end the process leaves at once."""

ENDING = (signal.SIGTERM, signal.SIGHUP)


def install(leave: Callable[[int], None]) -> None:
    """Call ``leave(128 + n)`` in the event loop on SIGTERM or SIGHUP."""
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, leave, 128 + number)


def watch_terminal(descriptor: int | None = None) -> threading.Thread | None:
    """Start a daemon thread that ends this process when the terminal behind ``descriptor`` has vanished.

    A thread and not a timer: the event loop itself may be blocked by writing to a terminal that is gone.
    """
    if descriptor is None:
        if sys.__stdin__ is None or not sys.__stdin__.isatty():
            return None
        descriptor = sys.__stdin__.fileno()
    thread = threading.Thread(target=_watch, args=(descriptor,), name="terminal guard", daemon=True)
    thread.start()
    return thread


def _watch(descriptor: int) -> None:
    poller = select.poll()
    poller.register(descriptor, 0)
    pause = threading.Event()
    while not any(
        events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in poller.poll(POLL_MS)
    ):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    pause.wait(PATIENCE_S)
    os._exit(128 + signal.SIGHUP)
