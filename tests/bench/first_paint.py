"""CPU seconds and modules until the first screen stands, against a minimal Textual app in the same run.

``python tests/bench/first_paint.py PROJECT.toml [ROUNDS]``: both are started in a pseudo-terminal of 80 x 24,
interleaved; the ratio should stay at or below 2.5.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import statistics
import struct
import sys
import termios
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][0-9A-Za-z]|\x1b[=>]")

MINIMAL = """
from textual.app import App
from textual.widgets import Label
class Minimal(App):
    def compose(self):
        yield Label("Ready")
Minimal().run()
"""


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until_painted(argv: list[str], expected: bytes, environment: dict[str, str]) -> tuple[float, float]:
    """(wall seconds, CPU seconds) from exec to the read that completes ``expected``; the process is ended."""
    begun = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(argv[0], argv, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    seen = b""
    try:
        while expected not in ESCAPES.sub(b"", seen):
            if time.monotonic() - begun > LIMIT_S:
                raise TimeoutError(f"{argv} did not show {expected!r}")
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 65536)
        return time.monotonic() - begun, cpu_seconds(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def main() -> None:
    """Print each round, then the ratio of the least CPU times."""
    project, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
    }
    minimal, ours = [], []
    for place in range(rounds):
        minimal.append(until_painted([sys.executable, "-c", MINIMAL], b"Ready", environment))
        ours.append(until_painted([sys.executable, "-m", "tui", project], b"q quit", environment))
        print(
            f"round {place + 1}: minimal {minimal[-1][0]:.2f} s wall {minimal[-1][1]:.2f} s CPU, "
            f"peakmark {ours[-1][0]:.2f} s wall {ours[-1][1]:.2f} s CPU",
            flush=True,
        )
    least = [min(cpu for _, cpu in found) for found in (minimal, ours)]
    middle = [statistics.median(cpu for _, cpu in found) for found in (minimal, ours)]
    print(
        f"CPU to first paint: {least[1] / least[0]:.2f} x minimal by the least, "
        f"{middle[1] / middle[0]:.2f} x by the median"
    )


if __name__ == "__main__":
    main()
