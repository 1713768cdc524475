"""How long a prediction takes from the command to its answer, what it needs, and how it grows."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from probe.helpers import Events, plan
from torch._subclasses.fake_tensor import FakeTensorMode

from tui.probe.predict import point
from tui.probe.predict.fake import convertible
from tui.probe.predict.semantics import Target, open_semantics
from tui.probe.session import Session

ROOT = Path(__file__).parents[2]
GPU = "H100 80GB"
TARGET = {"name": "H100", "total_bytes": None, "capability": [9, 0], "sm_count": 132, "threads_per_sm": 2048}
GPT2 = {"layers": 12, "heads": 12, "width": 768, "vocab": 50257, "context": 1024}
LLAMA = {
    "layers": 32,
    "heads": 32,
    "width": 4096,
    "hidden": 11008,
    "vocab": 32000,
    "context": 2048,
    "gated": True,
    "norm": "rmsnorm",
    "positions": "rotary",
    "bias": False,
    "tied": False,
}
CASES = (
    ("GPT-2 124M, 8 x 1024", GPT2, 8, 1024, "fp32", 10.0),
    ("Llama-7B shape, 1 x 2048", LLAMA, 1, 2048, "bf16", 20.0),
)
"""Name, arguments of the decoder family, micro-batch, length, precision, seconds at most."""


class Taken(NamedTuple):
    """One command: wall and CPU seconds, and the highest resident bytes of any of its processes."""

    wall_s: float
    cpu_s: float
    rss_bytes: int


def command(args: dict[str, Any], micro: int, length: int, precision: str) -> Taken:
    """``peakmark predict`` from a shell, in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "p.toml").write_text(project(args, micro, length, precision))
        script = (
            "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], capture_output=True);"
            "sys.stderr.buffer.write(done.stdout + done.stderr);"
            "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
            "print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)"
        )
        asked = [sys.executable, "-m", "tui", "predict", "p.toml", "--gpu", GPU]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PEAKMARK_STATE": name, "PEAKMARK_LOCKS": name}
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", script, *asked], cwd=folder, env=env, capture_output=True, text=True
        )
        wall = time.monotonic() - begun
    code, cpu, rss = done.stdout.split()
    if int(code) > 1:  # 1 is a verdict
        raise SystemExit(f"peakmark predict ended with {code}: {done.stderr.strip()[-400:]}")
    return Taken(wall, float(cpu), int(rss) * 1024)


def project(args: dict[str, Any], micro: int, length: int, precision: str) -> str:
    """A project file of the decoder family."""

    def word(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')

    named = ", ".join(f"{key} = {word(value)}" for key, value in args.items())
    return (
        f'schema = 1\n[workload]\nsource = "decoder"\nargs = {{ {named} }}\n'
        f'[workload.batch]\nmicro = {micro}\nlength = {length}\n[precision]\nuse = "{precision}"\n'
    )


def asked(args: dict[str, Any], micro: int, length: int, precision: str) -> Any:
    """The same as a plan."""
    return plan("predict", "decoder", args, micro=micro, length=length, precision=precision)


def ours(args: dict[str, Any], micro: int, length: int, precision: str) -> tuple[float, int]:
    """CPU seconds of a trace of two iterations and a validation, and its operators."""
    semantics = open_semantics("cuda", Target.of(TARGET))
    semantics.open()
    try:
        begun = time.process_time()
        found = point.trace(asked(args, micro, length, precision), Events(), semantics)  # type: ignore[arg-type]
        return time.process_time() - begun, found.operators
    finally:
        semantics.close()


def theirs(args: dict[str, Any], micro: int, length: int, precision: str) -> float:
    """CPU seconds of torch's MemTracker over two iterations of the same model on fakes."""
    from torch.distributed._tools.mem_tracker import MemTracker

    made = asked(args, micro, length, precision)
    begun = time.process_time()
    with FakeTensorMode(), convertible(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = Session(made, Events())  # type: ignore[arg-type]
        batches = [torch.zeros(micro, length, dtype=torch.int64) for _ in range(2)]
        tracker = MemTracker()
        tracker.track_external(session.model, session.optimizer)
        with tracker:
            for _ in range(2):
                session.optimizer.zero_grad(set_to_none=True)
                session.model(*batches).backward()
                session.optimizer.step()
                tracker.reset_mod_stats()
    return time.process_time() - begun


def section() -> list[str]:
    """The lines of the page."""
    lines = [
        "## Speed",
        "",
        f"Of {os.cpu_count()} cores with a load of {os.getloadavg()[0]:.1f} from elsewhere, from the command `peakmark "
        "predict` to its answer (best of two); CPU seconds are what it takes on cores of its own; memory is that of "
        "the largest process. The ratio is CPU time of torch's `MemTracker` over two iterations of the same model "
        "on fakes to that of a whole trace, in one run.",
        "",
        "| workload | seconds | aim | CPU s | resident MiB | aim | operators | trace CPU s | MemTracker CPU s "
        "| ratio (aim 3) |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, args, micro, length, precision, most in CASES:
        taken = min(command(args, micro, length, precision) for _ in range(2))
        spent, operators = min(ours(args, micro, length, precision) for _ in range(2))
        other = theirs(args, micro, length, precision)
        cells = [
            f"{taken.wall_s:.1f}",
            f"{most:.0f}",
            f"{taken.cpu_s:.1f}",
            f"{taken.rss_bytes >> 20:,}",
            "700",
        ]
        cells += [f"{operators:,}", f"{spent:.1f}", f"{other:.1f}", f"{other / spent:.1f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    lines += ["", "Growth: the decoder of GPT-2's width with more layers.", ""]
    lines += ["| layers | operators | trace CPU s | us an operator |", "| ---: | ---: | ---: | ---: |"]
    for layers in (6, 12, 24, 48):
        spent, operators = ours({**GPT2, "layers": layers}, 1, 1024, "fp32")
        lines.append(f"| {layers} | {operators:,} | {spent:.2f} | {1e6 * spent / operators:.0f} |")
        print(lines[-1], flush=True)
    return [*lines, ""]
