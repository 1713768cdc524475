"""Ends this process when the one that started it is gone, however it went.

Two ways, because each alone has a gap: a thread that reads the stdin pipe waits for the interpreter's lock, and
the kernel's parent-death signal follows the thread that started us, not the process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading

PR_SET_PDEATHSIG = 1
ORPHANED = 70
"""Exit code of a child that lost its parent."""


def hold(parent_pid: int) -> None:
    """Tie this process to ``parent_pid`` (0: to the stdin pipe alone); stdin itself is empty from now on.

    A workload that asks on stdin then meets the end of it, instead of waiting for an answer that nobody gives.
    """
    _tie(_set_aside(), parent_pid)


def share(parent_pid: int) -> None:
    """As ``hold``, but leave stdin to the processes that this one starts, which hold it themselves."""
    _tie(os.dup(0), parent_pid)


def _tie(pipe: int, parent_pid: int) -> None:
    threading.Thread(target=_watch, args=(pipe,), name="lifeline", daemon=True).start()
    if not parent_pid:
        return
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return  # not Linux: the pipe is enough
    if os.getppid() != parent_pid and _gone(parent_pid):
        os._exit(ORPHANED)


def _gone(pid: int) -> bool:
    # A launch prefix may stand between us and the runner: only its death counts, not a different parent.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _set_aside() -> int:
    """Another descriptor of the stdin pipe, with nothing to read in its place."""
    pipe = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return pipe


def _watch(pipe: int) -> None:
    # os.read, not sys.stdin: its lock would abort the interpreter at exit
    while True:
        try:
            if not os.read(pipe, 4096):
                break
        except OSError:
            break
    os._exit(ORPHANED)
