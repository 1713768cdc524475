"""Plays a measuring child: ``python player.py PLAN.json`` carries out the function that the plan names.

Without torch and without the real child, so that every way of ending can be had in a fraction of a second.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tui.probe.journal import JOURNAL_LOST, Journal
from tui.probe.protocol import (
    CheckDone,
    EnvironmentSeen,
    Failed,
    Finished,
    PhaseEntered,
    Plan,
    ReadingTaken,
    ResultReady,
    Started,
)

plan = Plan.load(Path(sys.argv[1]).read_text())
extra = plan.extra
journal = Journal(plan.journal)
FOREVER_S = 120


def begin(phase="backward"):
    journal.add(Started(plan.task, os.getpid(), os.getsid(0), sys.version.split()[0], "2.13.0", 0, 1))
    if extra.get("timing"):
        phase = "forward"  # without an iteration: what a child says before those it times
    journal.add(PhaseEntered(phase))


def wait():
    """Until somebody ends us, but not for ever."""
    threading.Event().wait(FOREVER_S)


def tell_pid(key):
    Path(extra[key]).write_text(f"{os.getpid()}\n")


def hold_lifeline():
    """As the real child does: end when nobody holds the other end of standard input any more."""

    def watch():
        while os.read(0, 1):
            pass
        os._exit(70)

    threading.Thread(target=watch, daemon=True).start()


def finishes():
    begin("step")
    journal.add(EnvironmentSeen({"torch": "2.13.0"}))
    journal.add(CheckDone("finite", "numerics", "finite", "pass", "loss 2.5 -> 2.0"))
    journal.add(ReadingTaken("process", "step", 4096, "VmHWM", "peak resident set"))
    journal.add(ResultReady("timed", {"step_ms": [1.0, 2.0]}))
    journal.add(Finished())


def raises():
    begin()
    raise ValueError("a tensor is missing")


def exits_at_once():
    sys.exit(extra["code"])


def fails():
    begin()
    journal.add(
        Failed("workload", "batch(n=8) gave 4 samples", "workload.py:21", "return n of them", "backward")
    )


def runs_out_of_memory():
    begin()
    journal.add(Failed("out-of-memory", "asked for 4096 B", phase="backward", details={"asked_bytes": 4096}))


def is_killed():
    begin()
    os.kill(os.getpid(), extra.get("signal", signal.SIGKILL))
    wait()


def loses_its_journal():
    begin()
    Path(plan.journal).unlink()


def hangs():
    """Ignores SIGTERM, and so does its child, which has a session of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(120)"
    for key, own in (("grandchild", False), ("outsider", True)):
        other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=own)
        other.stdout.readline()
        Path(extra[key]).write_text(f"{other.pid}\n")
    tell_pid("child")
    begin()
    wait()


def saves_when_stopped():
    """Takes a moment at SIGTERM to say one thing more."""

    def stop(*_):
        journal.add(ResultReady("partial", {"iterations": 3}))
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    begin()
    wait()


def prints_garbage():
    begin()
    line = b"\xff\xfe\x00 not an event {\n" * 64
    for _ in range(4096):  # 4.7 MB
        os.write(1, line)
    os.write(2, b"\x1b[31mthe last words\x1b[0m\n\n")
    journal.add(Finished())


def writes_half_a_line():
    begin()
    with open(plan.journal, "ab") as handle:
        handle.write(b'{"v":1,"t":1,"event":"Finis')
    os._exit(0)


def writes_nonsense():
    begin()
    with open(plan.journal, "ab") as handle:
        handle.write(b"not an event\n" + b'{"v":1,"t":1,"event":"PhaseEntered","phase":7}\n')
    journal.add(Finished())


def leaves_a_grandchild():
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    Path(extra["grandchild"]).write_text(f"{other.pid}\n")
    begin()
    journal.add(Finished())


def leaves_an_outsider():
    code = "import time; time.sleep(120)"
    other = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    Path(extra["outsider"]).write_text(f"{other.pid}\n")
    begin()
    journal.add(Finished())


def closes_its_journal():
    begin()
    os.closerange(3, 64)
    os._exit(3)


def fills_the_disk():
    """The kernel refuses the rest of a line, as a full disk does."""
    begin()
    size = os.path.getsize(plan.journal)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))
    journal.add(ResultReady("timed", {"step_ms": [1.0] * 1000}))
    journal.add(Finished())
    os._exit(JOURNAL_LOST if journal.lost else 0)


def waits():
    hold_lifeline()
    tell_pid("child")
    begin()
    wait()


def shows_surroundings():
    begin()
    facts = {
        "environment": {key: os.environ.get(key) for key in extra["keys"]},
        "cwd": os.getcwd(),
        "parent": plan.parent,
        "session": os.getsid(0) == os.getpid(),
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
    }
    journal.add(ResultReady("surroundings", json.loads(json.dumps(facts))))
    journal.add(Finished())


if __name__ == "__main__":
    globals()[extra["act"]]()
