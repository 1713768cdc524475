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
    """Tie this process to ``parent_pid`` (0: to the stdin pipe alone)."""
    threading.Thread(target=_watch_stdin, name="lifeline", daemon=True).start()
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


def _watch_stdin() -> None:
    # os.read, not sys.stdin: its lock would abort the interpreter at exit
    while True:
        try:
            if not os.read(0, 4096):
                break
        except OSError:
            break
    os._exit(ORPHANED)
