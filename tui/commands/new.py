"""``peakmark new`` and ``peakmark demo``."""

from __future__ import annotations

import os
from pathlib import Path

from tui.commands import steps
from tui.commands.output import Output
from tui.commands.templates import FAMILY_ARGS, demo_text, fallback, project_text
from tui.engine.context import Options
from tui.errors import ProjectError, UsageError
from tui.project import save
from tui.project.load import load

DEMO_NAME = "demo.toml"


def new(path: Path, source: str, output: Output) -> int:
    """Write a commented project file for ``source``: a family, FILE.py[:NAME] or a CONFIG.json.

    Raises:
        UsageError: no such family or file, or a project file with another ending.
        ProjectError: the file exists.
    """
    if path.suffix != ".toml":
        raise UsageError(f"{path} does not end in .toml", hint=f"name it {path.with_suffix('.toml')}")
    named = source
    if source not in FAMILY_ARGS:
        named = _relative(path, source)
    save.create(path, project_text(path.name, named))
    output.lines([f"wrote {path}: read it, set the batch and the budget, then: peakmark run {path}"])
    if named.partition(":")[0].endswith(".py"):
        output.lines([f"it names Python of your own ({named}): add --trust to run it"])
    return 0


def _relative(path: Path, source: str) -> str:
    """The source as the project names it, relative to the project's folder."""
    file, colon, name = source.partition(":")
    if not file.endswith((".py", ".json")):
        families = ", ".join(FAMILY_ARGS)
        raise UsageError(
            f"--from {source} is not a family, a FILE.py or a CONFIG.json", hint=f"families are {families}"
        )
    if not Path(file).is_file():
        raise UsageError(f"--from {file}: no such file")
    return Path(os.path.relpath(file, path.resolve().parent)).as_posix() + colon + name


def demo(folder: Path, options: Options, output: Output) -> int:
    """Write the sample project, run every step on this machine's device, print the ledger and the report's path.

    Raises:
        ProjectError: there is a demo.toml that is not a demo's.
        PeakmarkError: a step could not run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / DEMO_NAME
    if path.exists():
        output.talk(f"{path} exists: going on with it")
    else:
        save.create(path, demo_text(DEMO_NAME))
        output.talk(f"wrote {path}: a small decoder and data with something to learn")
    batch = load(path).spec.workload.batch
    code, main_probe = _whole(path, options, output)
    if code >= 2:
        return code
    smaller = fallback(batch.micro, batch.accumulate)
    code = max(code, _fallback(path, smaller, options, output))
    steps.ledger(path, None, output, main_probe)
    if not output.json:
        output.lines(["", f"report  {path.with_suffix('.md')}", f"look    peakmark {path}"])
    return code


def _whole(path: Path, options: Options, output: Output) -> tuple[int, str | None]:
    """The exit code, and the id of the probe of the project's own batch."""
    code, ended = steps.do(path, ("params", "verify", "probe", "precision", "restore"), options, output)
    failed = next((event for event in ended.steps if event.code >= 2 and not event.result), None)
    if failed is not None:
        error = ProjectError(failed.text)
        error.code = code
        raise error
    return code, next((event.result for event in ended.steps if event.step == "probe" and event.result), None)


def _fallback(path: Path, smaller: tuple[int, int], options: Options, output: Output) -> int:
    """Measure a smaller batch of the same samples a step, and write the report again with it."""
    from dataclasses import replace

    output.talk(f"fallback: micro-batch {smaller[0]} x accumulate {smaller[1]}, the same samples a step")
    narrowed = replace(options, batches=(smaller[0],), accumulate=smaller[1])
    code, _ = steps.do(path, ("probe", "report"), narrowed, output)
    return code
