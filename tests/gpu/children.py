"""Children of the measuring side, started from a script that has torch and the standard library alone.

``tui/probe`` is loaded by path under its private name, as ``boot.py`` does, so that nothing needs to be installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, Optional

HERE = Path(__file__).resolve().parent
BOOT = HERE.parents[1] / "tui" / "probe" / "boot.py"

FACTS = """
import json, torch
found = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": None}
if torch.cuda.is_available():
    one = torch.cuda.get_device_properties(0)
    found["device"] = {
        "name": one.name, "total_bytes": one.total_memory, "capability": [one.major, one.minor],
        "sm_count": one.multi_processor_count, "threads_per_sm": one.max_threads_per_multi_processor,
    }
print(json.dumps(found))
"""


class Ended(NamedTuple):
    """What a child left: tables by kind, highest readings by name, and why there is no result ("": there is)."""

    tables: dict[str, Any]
    readings: dict[str, int]
    why: str
    seconds: float


def protocol() -> Any:
    """The protocol module of the measuring side."""
    spec = importlib.util.spec_from_file_location("peakmark_boot", str(BOOT))
    assert spec is not None
    assert spec.loader is not None
    boot = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(boot)
    if boot.NAME not in sys.modules:
        boot.load_package(str(BOOT.parent))
    return importlib.import_module(boot.NAME + ".protocol")


def facts(python: str, timeout_s: float) -> dict[str, Any]:
    """torch's version and the first CUDA device as ``python`` sees them, asked in a process of its own."""
    done = subprocess.run([python, "-c", FACTS], capture_output=True, text=True, timeout=timeout_s)
    if done.returncode:
        raise SystemExit(f"{python} cannot import torch: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)


def used_bytes() -> Optional[int]:
    """Used on the first GPU as the driver's own tool says, in steps of 1 MiB; None: it does not say."""
    ask = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=20)
        return int(done.stdout.split()[0]) << 20
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def run(plan: Any, python: str, folder: Path, timeout_s: float) -> Ended:
    """``plan`` in a child of ``python`` to its end, or killed after ``timeout_s`` seconds."""
    told = protocol()
    journal = Path(plan.journal)
    journal.unlink(missing_ok=True)
    path = folder / (plan.id + ".plan.json")
    path.write_text(plan.dump())
    begun, late = time.monotonic(), False
    with open(folder / (plan.id + ".log"), "w") as log:
        child = subprocess.Popen(
            [python, str(BOOT), str(path)],
            stdin=subprocess.PIPE,  # its lifeline: it ends when this script does
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        try:
            child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            child.kill()
            child.wait()
    events = _events(told, journal)
    return Ended(
        {one.kind: one.table for one in events if type(one).__name__ == "ResultReady"},
        _highest(one for one in events if type(one).__name__ == "ReadingTaken"),
        _why(events, late, child.returncode, timeout_s),
        time.monotonic() - begun,
    )


def _events(told: Any, journal: Path) -> list[Any]:
    try:
        lines = journal.read_bytes().splitlines(keepends=True)
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(told.decode(line))
        except Exception:  # a torn last line of a child that was killed
            break
    return found


def _highest(readings: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in readings:
        if one.bytes is not None:
            found[one.name] = max(found.get(one.name, 0), one.bytes, one.end or 0)
    return found


def _why(events: list[Any], late: bool, code: int, timeout_s: float) -> str:
    for one in events:
        if type(one).__name__ == "Failed":
            return one.sentence
    if late:
        return f"stopped after {timeout_s:.0f} s"
    if not any(type(one).__name__ == "Finished" for one in events):
        return f"the child ended with code {code}; its log says why"
    return ""
