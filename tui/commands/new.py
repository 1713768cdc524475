"""``peakmark new`` and ``peakmark demo``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tui import __version__
from tui.commands import steps
from tui.commands.ledger import ledger
from tui.commands.ledger_arguments import Shown
from tui.commands.output import Output
from tui.commands.templates import FAMILY_ARGS, ZOO_ARGS, demo_text, fallback, project_text
from tui.engine.context import Options
from tui.errors import SaveError, UsageError, VerdictError
from tui.project import save
from tui.project.load import load

_TOKENS = 128
"""Of a sample of a configuration, as the child takes it where the project says none."""
_ROOM = _TOKENS + 2
"""Positions below which ``_TOKENS`` may not fit: some kinds keep two for padding."""
DEMO_NAME = "demo.toml"


def new(path: Path, source: str, output: Output) -> int:
    """Write a commented project file for ``source``: a family, FILE.py[:NAME], a CONFIG.json, timm:NAME or
    torchvision:NAME.  Whether a package has the model is seen where it is measured, not here.

    Raises:
        UsageError: no such family or file, or a project file with another ending.
        ProjectError: the file exists.
    """
    if not path.name.strip("."):
        raise UsageError("the new project has no name", hint="name a file, such as project.toml")
    if path.suffix != ".toml":
        raise UsageError(f"{path} does not end in .toml", hint=f"name it {path.with_suffix('.toml')}")
    if not str(path).isprintable():
        raise UsageError(
            f"{str(path)!r} holds characters that cannot be shown", hint="give the file a plain name"
        )
    named = source
    if source not in FAMILY_ARGS and not _of_package(source):
        named = _relative(path, source)
    save.create(path, project_text(path.name, named, **_length_of(source)))
    own = named.partition(":")[0].endswith(".py")
    lines = [f"wrote {path}: read it, set the batch and the budget, then: peakmark run {path}"]
    lines += [f"it names Python of your own ({named}): add --trust to run it"] if own else []
    output.answer(
        lambda width: lines,
        lambda: {
            "schema": 1,
            "document": "new",
            "peakmark": __version__,
            "project": str(path),
            "source": named,
            "needs_trust": own,
            "unknown": {},
        },
    )
    return 0


def _length_of(source: str) -> dict[str, str]:
    """The line of the length for a configuration, so that what is measured is written where it can be changed.

    A file that cannot be read is told where it is measured.
    """
    if not source.endswith(".json"):
        return {}
    try:
        table: Any = json.loads(Path(source).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(table, dict):
        return {}
    said = cast(dict[str, Any], table)
    positions = said.get("max_position_embeddings") or said.get("n_positions") or -1
    if "image_size" in said or "num_channels" in said:
        line = "# length = 224            # pixels a side of an image; left out: as the configuration says"
    elif "vocab_size" not in said or not isinstance(positions, int) or 0 < positions < _ROOM:
        line = f"# length = {_TOKENS}            # tokens a sample; left out: {_TOKENS}, or all positions where fewer"
    else:
        line = f"length = {_TOKENS}              # tokens a sample; memory is measured at the largest"
    return {"length": line + "\n"}


def _of_package(source: str) -> bool:
    """Whether the source is a model of a package by name.

    Raises:
        UsageError: a package without a name, or with one that no model has.
    """
    package, colon, name = source.partition(":")
    if package not in ZOO_ARGS:
        return False
    if not colon or not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise UsageError(
            f"--from {source} does not name a model of {package}",
            hint=f"write {package}:NAME, such as resnet50",
        )
    return True


def _relative(path: Path, source: str) -> str:
    """The source as the project names it, relative to the project's folder."""
    file, colon, name = source.partition(":")
    if not file.endswith((".py", ".json")):
        families = ", ".join(FAMILY_ARGS)
        raise UsageError(
            f"--from {source} is not a family, a FILE.py, a CONFIG.json, timm:NAME or torchvision:NAME",
            hint=f"families are {families}",
        )
    if not Path(file).is_file():
        raise UsageError(f"--from {file}: no such file")
    return Path(os.path.relpath(file, path.resolve().parent)).as_posix() + colon + name


def demo(folder: Path, options: Options, output: Output) -> int:
    """Write the sample project, run every step on this machine's device, print the ledger and the report's path.

    A project that is there already is gone on with.

    Raises:
        PeakmarkError: the project could not be written or read, or a step could not run.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SaveError(f"the folder cannot be made: {reason}", where=str(folder)) from error
    path = folder / DEMO_NAME
    if path.exists():
        output.talk(f"{path} exists: going on with it")
    else:
        save.create(path, demo_text(DEMO_NAME))
        output.talk(f"wrote {path}: a small decoder and data with something to learn")
    batch = load(path).spec.workload.batch
    code, ended = _done(path, steps.SHOWN_BY_RUN, options, output)
    main_probe = next((one.result for one in ended.steps if one.step == "probe" and one.result), None)
    micro, accumulate = fallback(batch.micro, batch.accumulate)
    output.talk(f"fallback: micro-batch {micro} x accumulate {accumulate}, the same samples a step")
    smaller = replace(options, batches=(micro,), accumulate=accumulate)
    code = max(code, _done(path, ("probe", "report"), smaller, output)[0])
    ledger(path, Shown(probe_id=main_probe), output)
    if not (output.json or output.plain):
        output.lines(["", f"report  {path.with_suffix('.md')}", f"look    peakmark {path}"])
    return code


def _done(path: Path, wanted: Sequence[str], options: Options, output: Output) -> tuple[int, steps.Ended]:
    """Run steps that go on after a negative verdict.

    Raises:
        PeakmarkError: one could not run, could not save, or was stopped.
    """
    code, ended = steps.do(path, wanted, options, output)
    if code > VerdictError.code:
        raise ended.failed(code) or steps.fault(code, ended.text)
    return code, ended
