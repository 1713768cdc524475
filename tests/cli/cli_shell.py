"""Runs ``python -m tui`` as a person or a script would, with everything of its own in a temporary folder."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LIMIT_S = 150.0
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2

TINY = """\
# A tiny project, with a comment that stays.
schema = 1
title = "tiny"

[workload]
source = "mlp"
args = { inputs = 16, hidden = [32], outputs = 4 }   # 676 parameters
formula = "mlp"

[workload.batch]
micro = 4
accumulate = 2

[precision]
compare = ["fp32", "tf32"]
seeds = 1
steps = 6

[budget]
job = "4 GiB"
reserve = "64 MiB"

[quality]
batches = 2

[environment]
device = "cpu"
"""

OWN = TINY.replace('source = "mlp"', 'source = "workload.py"').replace('formula = "mlp"', 'formula = "none"')


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """stdout, which must be exactly one JSON document."""
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one line of stderr that says what was wrong."""
        lines = [line for line in self.err.splitlines() if line.startswith("peakmark: ")]
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err + self.out
        return lines[0].removeprefix("peakmark: ")


class Shell:
    """A folder to work in, and a state folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.state = folder / "state"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PEAKMARK_STATE": str(self.state),
            "PEAKMARK_LOCKS": str(folder / "locks"),
            "XDG_STATE_HOME": str(folder / "xdg"),
            "XDG_CONFIG_HOME": str(folder / "xdg"),
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
        }

    def write(self, text: str, name: str = "tiny.toml") -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.write_text(text)
        return path

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        """Start a command."""
        variables = {**self.environment, **more.pop("environment", {})}
        return subprocess.Popen(
            [sys.executable, "-m", "tui", *words],
            cwd=self.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=more.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            **more,
        )

    def __call__(self, *words: str, **more: Any) -> Done:
        """Run a command to its end."""
        return finished(self.start(*words, **more))

    def journals(self, pattern: str = "*.jsonl") -> str:
        """The text of every journal that matches."""
        return "".join(path.read_text() for path in sorted((self.state / "runs").glob(pattern)))


def without_privileges() -> None:
    """In a new process: take the file permissions seriously, as they are for everybody but root."""
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def finished(running: subprocess.Popen[str]) -> Done:
    """Wait for a command's end."""
    try:
        out, err = running.communicate(timeout=LIMIT_S)
    finally:
        running.kill()
    return Done(running.returncode, out or "", err or "")


def until(condition: Callable[[], Any], what: str, limit_s: float = 90.0) -> Any:
    """Wait until ``condition`` gives something true, and return that."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
    return found


def children_of(shell: Shell) -> list[int]:
    """Process ids of measuring children whose plan lies in the shell's state folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if str(shell.state).encode() in command and b"boot.py" in command and state not in "ZX":
            found.append(int(entry.name))
    return found
