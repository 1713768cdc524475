"""``peakmark doctor``: terminal, interpreter, torch, device; what was found and what to do about it."""

from __future__ import annotations

import json
import locale
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tui import __version__
from tui.commands.output import Output
from tui.engine import device as devices
from tui.engine import host
from tui.errors import PeakmarkError
from tui.probe.child import OLDEST_TORCH
from tui.report.lines import labelled

ASK = (
    "import json, sys, torch; from importlib import metadata; "
    "names = {one.metadata['Name']: one.version for one in metadata.distributions()}; "
    "print(json.dumps({'torch': torch.__version__, 'cuda': torch.version.cuda, "
    "'python': sys.version.split()[0], 'available': torch.cuda.is_available(), 'pynvml': names.get('pynvml')}))"
)
ASK_LIMIT_S = 120
INDENT = 20


@dataclass(frozen=True, slots=True)
class Found:
    """One line: ``word`` is ok, note or WRONG."""

    word: str
    what: str
    text: str


def doctor(project: Path | None, output: Output, trusted: bool = False) -> int:
    """Print what was found; 4 when something is wrong.

    Args:
        project: its interpreter is asked, None: the one that runs this.
        output: where to.
        trusted: the project's interpreter may be run.

    Raises:
        ProjectError: the project cannot be read, or names an interpreter that is not allowed.
    """
    python = _python(project, trusted)
    lines = [_terminal(), _locale(), _processors(), *_device(), *_interpreter(python)]
    wrong = sum(one.word == "WRONG" for one in lines)
    output.answer(
        lambda width: [
            *[
                line
                for one in lines
                for line in labelled(f"{one.word:5} {one.what}", one.text, INDENT, width)
            ],
            f"{wrong} WRONG" if wrong else "0 WRONG: measuring can begin. Next: peakmark demo",
        ],
        lambda: {
            "schema": 1,
            "document": "doctor",
            "peakmark": __version__,
            "found": [{"word": one.word, "what": one.what, "text": one.text} for one in lines],
            "wrong_count": wrong,
            "unknown": {},
        },
    )
    return 4 if wrong else 0


def _python(project: Path | None, trusted: bool) -> str:
    if project is None:
        return sys.executable
    from tui.engine.context import interpreter
    from tui.project import trust
    from tui.project.load import load

    loaded = load(project)
    if loaded.spec.environment.python is not None:
        trust.require(loaded, trusted)
    return interpreter(loaded)


def _terminal() -> Found:
    term = os.environ.get("TERM", "")
    columns, rows = shutil.get_terminal_size()
    if term in ("", "dumb"):
        return Found("note", "terminal", f"TERM is {term or 'unset'}: the commands work, the app does not")
    colours = os.environ.get("COLORTERM") or "COLORTERM unset"
    size = f"{columns}x{rows}" + ("" if columns >= 60 and rows >= 16 else ", the app needs 60x16")
    multiplexer = "; copying needs: set -g set-clipboard on" if os.environ.get("TMUX") else ""
    return Found("ok", "terminal", f"{term}, {colours}, {size}{multiplexer}")


def _locale() -> Found:
    encoding = locale.getpreferredencoding(False)
    if encoding.lower().replace("-", "") == "utf8":
        return Found("ok", "locale", encoding)
    return Found("note", "locale", f"{encoding}: the app draws with ASCII only; set LANG to one with UTF-8")


def _processors() -> Found:
    allowed, there = host.cpus_allowed(), os.cpu_count() or 1
    text = f"{allowed} of {there} may be used at once"
    if allowed == there:
        return Found("ok", "processors", text)
    return Found(
        "note", "processors", f"{text}, by affinity or quota: give loaders no more workers than that"
    )


def _device() -> list[Found]:
    try:
        device = devices.resolve("auto")
    except PeakmarkError as error:
        return [Found("WRONG", "device", error.sentence())]
    from tui import units

    total = f"{units.gib(device.total_bytes)} GiB"
    if device.kind == "cpu":
        why = device.unknown.get("cuda", "")
        return [Found("ok", "device", f"{device.name}, {total}"), Found("note", "CUDA", why or "no device")]
    free = f"{units.gib(device.free_bytes)} of {total} free"
    return [Found("ok", "device", f"{device.name}, {device.id}, {free}, driver {device.driver}")]


def _interpreter(python: str) -> list[Found]:
    try:
        ran = subprocess.run(
            [python, "-c", ASK], capture_output=True, text=True, timeout=ASK_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [Found("WRONG", "interpreter", f"{python} cannot be run: {error}")]
    if ran.returncode:
        said = (ran.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return [Found("WRONG", "torch", f"{python} cannot import torch: {said}; install it there")]
    try:
        seen = json.loads(ran.stdout.strip().splitlines()[-1])
        numbers = tuple(int(part) for part in seen["torch"].split("+")[0].split(".")[:2])
    except (ValueError, LookupError, TypeError):
        return [Found("WRONG", "interpreter", f"{python} does not answer as Python does")]
    if numbers < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        return [Found("WRONG", "torch", f"{python} has {seen['torch']}; {oldest} or newer is needed")]
    lines = [Found("ok", "torch", f"{seen['torch']} in {python}, Python {seen['python']}")]
    return [*lines, *_retired(seen.get("pynvml"), python), *_mismatch(seen)]


def _retired(version: str | None, python: str) -> list[Found]:
    """A package that was given up and takes the name of the one that is maintained."""
    if version is None:
        return []
    told = f"retired package pynvml {version} present in {python}: torch warns of it at every start"
    return [Found("note", "pynvml", f"{told}; uninstall pynvml and keep nvidia-ml-py")]


def _mismatch(seen: dict[str, object]) -> list[Found]:
    """A CPU-only torch on a machine with a GPU, or a CUDA build that finds none there."""
    try:
        has_gpu = devices.resolve("auto").kind == "cuda"
    except PeakmarkError:
        return []
    if has_gpu and seen["cuda"] is None:
        return [
            Found(
                "WRONG", "torch", "this build has no CUDA, the machine has a GPU: install a CUDA build there"
            )
        ]
    if has_gpu and not seen["available"]:
        return [
            Found(
                "WRONG", "torch", f"CUDA {seen['cuda']} finds no usable device: is the driver too old for it?"
            )
        ]
    return []
