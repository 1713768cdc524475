"""The outside world of the app, in one place: project files, runs, trust, the report.

Everything is imported when it is first needed, so that the first screen appears without it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from tui.errors import ProjectError


class Source(Protocol):
    """What the app asks of the world; tests put a fake in its place."""

    def load(self, path: Path) -> Any:
        """The project in ``path``; a ProjectError when it cannot be read."""
        ...

    def stamp(self, path: Path) -> object:
        """Something that differs when the project's file was written again."""
        ...

    def fingerprint(self, project: Any) -> str:
        """Of the spec as it is now; "" when it cannot be made."""
        ...

    def counted(self, project: Any) -> bool:
        """Whether the inventory is of the model as the spec has it now."""
        ...

    def untrusted(self, project: Any) -> tuple[str, ...]:
        """What the project would run and was not allowed here, one line each."""
        ...

    def allow(self, project: Any) -> None:
        """Remember that this user allows what ``untrusted`` listed."""
        ...

    def running(self, path: Path) -> Any | None:
        """The run of the project that is going on, whoever started it."""
        ...

    def start(self, path: Path, steps: Sequence[str], options: Sequence[str] = ()) -> Any:
        """Start a run that outlives the app; blocks, so it is called in a thread."""
        ...

    def stop(self, run: Any) -> None:
        """End a run; blocks, so it is called in a thread."""
        ...

    def follow(self, run: Any) -> AsyncGenerator[Any]:
        """Its events, each as ``.event``, until it ends."""
        ...

    def elapsed_s(self, run: Any) -> float | None:
        """Seconds since the run started."""
        ...

    def describe(self, run: Any) -> str:
        """The run in a few words."""
        ...

    def markdown(self, project: Any) -> str:
        """The report."""
        ...

    def write_report(self, project: Any) -> Path:
        """Write the report beside the project; the file that was written."""
        ...

    def write_ledger(self, project: Any, made: Any) -> Sequence[Path]:
        """Write a ledger as CSV and as Markdown beside the project; the files that were written."""
        ...

    def recent(self) -> list[tuple[str, str, str]]:
        """(title, path, date) of projects that were opened here, the newest first."""
        ...

    def opened(self, project: Any) -> None:
        """Remember a project among the recent ones."""
        ...

    def edit(self, path: Path) -> str:
        """Let the user's editor have the terminal; a sentence when there is none, else ""."""
        ...

    def warm(self) -> None:
        """Import what an edit needs; blocks, so it is called in a thread."""
        ...

    def check(self, project: Any, changes: Mapping[str, Any]) -> Any:
        """The project as it would be with changes by dotted key, nothing written; a ProjectError if it may not."""
        ...

    def save(self, project: Any, changes: Mapping[str, Any]) -> Any:
        """Write changes of the project as it was seen; blocks, so it is called in a thread.

        A ChangedOnDisk when somebody else changed the file, another PeakmarkError when it cannot be written.
        """
        ...

    def written(self, project: Any) -> Mapping[str, Any]:
        """The hand-written part as plain values."""
        ...

    def formula(self, project: Any) -> Any:
        """Its parameter formula, or None; a ValueError or ProjectError with the reason."""
        ...

    def modules(self, project: Any) -> Any:
        """The module tree of the last count; a RunError when it is gone.  Blocks: called in a thread."""
        ...

    def timeline(self, name: str) -> Any:
        """The timeline that ``Probe.timeline`` names; a RunError when it is gone.  Blocks: called in a thread."""
        ...

    def search_plan(self, project: Any) -> Sequence[str]:
        """What a search for the largest batch would do, in sentences."""
        ...

    def gpus(self) -> Sequence[tuple[str, str]]:
        """(name, line for people) of every GPU that can be predicted for."""
        ...

    async def snapshot(
        self, path: Path, at: str, settings: Sequence[str], capacity: int | None = None
    ) -> Any:
        """What a memory snapshot says of the instant ``at``; a PeakmarkError when it cannot be read."""
        ...

    def change(self, project: Any, text: str, before: Sequence[Any] = ()) -> Any:
        """The change of the spec that ``name=value`` asks for, after others; a UsageError if it may not be."""
        ...

    async def what_if(
        self, path: Path, changes: Sequence[Any], device: str, gpu: str, predicting: bool
    ) -> Any:
        """The spec now and changed, side by side; cancelling it ends the child that predicts.

        A PeakmarkError when it cannot be.
        """
        ...

    def accept(self, project: Any, changes: Sequence[Any]) -> None:
        """Write changes into the project as it was seen; a PeakmarkError when that cannot be."""
        ...

    def output(self, journal: str, stamp: object) -> Any:
        """The end of the log beside a journal, None when it is as it was at ``stamp``; a RunError when it is gone.

        Blocks: called in a thread.
        """
        ...


class World:
    """The real one."""

    def load(self, path: Path) -> Any:
        from tui.project.load import load

        return load(path)

    def stamp(self, path: Path) -> object:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def fingerprint(self, project: Any) -> str:
        from tui.project.fingerprint import spec_hash

        try:
            return spec_hash(project)
        except ProjectError:
            return ""

    def counted(self, project: Any) -> bool:
        from tui.project.fingerprint import is_counted

        try:
            return is_counted(project)
        except ProjectError:
            return False

    def untrusted(self, project: Any) -> tuple[str, ...]:
        from tui.project import trust

        if trust.is_allowed(project):
            return ()
        return tuple(f"{one.key} = {one.text}   sha256 {one.sha256[:16]}" for one in trust.what_runs(project))

    def allow(self, project: Any) -> None:
        from tui.project import trust

        trust.allow(project)

    def running(self, path: Path) -> Any | None:
        from tui.engine import runs

        return runs.run_of(path)

    def start(self, path: Path, steps: Sequence[str], options: Sequence[str] = ()) -> Any:
        from tui.engine import runs

        return runs.start(path, steps, options)

    def stop(self, run: Any) -> None:
        from tui.engine import runs

        runs.stop(run)

    def follow(self, run: Any) -> AsyncGenerator[Any]:
        from tui.engine.follow import follow

        return follow(run)

    def elapsed_s(self, run: Any) -> float | None:
        return max(0.0, (datetime.now(UTC) - run.started_at).total_seconds())

    def describe(self, run: Any) -> str:
        from tui import units

        return f"{', '.join(run.steps)}, {units.duration(self.elapsed_s(run))}"

    def markdown(self, project: Any) -> str:
        from tui.report.markdown import markdown

        return markdown(project)

    def write_report(self, project: Any) -> Path:
        from tui.project.atomic import write

        path = project.path.with_suffix(".md")
        write(path, self.markdown(project).encode())
        return path

    def write_ledger(self, project: Any, made: Any) -> Sequence[Path]:
        from tui.project.atomic import write
        from tui.report import ledger_csv, markdown_memory_ledger

        pages = {
            project.path.with_suffix(".ledger.csv"): ledger_csv.text(made),
            project.path.with_suffix(".ledger.md"): markdown_memory_ledger.page(project.spec, made),
        }
        for path, page in pages.items():
            write(path, page.encode())
        return tuple(pages)

    def recent(self) -> list[tuple[str, str, str]]:
        from tui.app.recent import listed

        return listed()

    def opened(self, project: Any) -> None:
        from tui.app.recent import remember

        remember(project.path, project.spec.title)

    def edit(self, path: Path) -> str:
        words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
        try:
            subprocess.run([*words, str(path)], check=False)
        except OSError as error:
            return f"{words[0]} cannot be started: {error.strerror}; name an editor in EDITOR"
        return ""

    def warm(self) -> None:
        import tui.project.edit
        import tui.project.save
        import tui.report.operating  # noqa: F401

    def check(self, project: Any, changes: Mapping[str, Any]) -> Any:
        from tui.project.edit import changed
        from tui.project.load import parse
        from tui.project.marker import divide

        name = str(project.path)
        text = changed(divide(project.text, name).user, changes, name)
        return parse(project.path, text.encode(errors="replace"))

    def save(self, project: Any, changes: Mapping[str, Any]) -> Any:
        from tui.project.save import edit

        return edit(project.path, changes, seen=project)

    def written(self, project: Any) -> Mapping[str, Any]:
        import tomllib

        from tui.project.marker import divide

        return tomllib.loads(divide(project.text, str(project.path)).user)

    def formula(self, project: Any) -> Any:
        from tui.budget.checked import formula_of
        from tui.project.configuration import of

        return formula_of(project.spec, of(project))

    def modules(self, project: Any) -> Any:
        from tui.project.modules import path_of, read

        return read(path_of(project.measured.inventory.journal))

    def timeline(self, name: str) -> Any:
        from tui.project.timeline import path_of, read

        return read(path_of(name))

    def search_plan(self, project: Any) -> Sequence[str]:
        from tui.app.search_plan import told

        return told(project)

    def output(self, journal: str, stamp: object) -> Any:
        from tui.app.output import read, stamp_of
        from tui.project.paths import state_folder

        path = (state_folder() / journal).with_suffix(".log")
        return None if stamp is not None and stamp_of(path) == stamp else read(path)

    def change(self, project: Any, text: str, before: Sequence[Any] = ()) -> Any:
        from tui.budget import what_if

        made = what_if.parse(text, project.spec)
        kept = [one for one in before if one.key != made.key]
        what_if.apply(project, [*kept, made])
        return made

    async def what_if(
        self, path: Path, changes: Sequence[Any], device: str, gpu: str, predicting: bool
    ) -> Any:
        from tui.engine.context import Options
        from tui.engine.steps.what_if import scenarios

        options = Options(device=device or None, gpu=gpu or None)
        made = await scenarios(path, [list(changes)], options, predicting=predicting)
        return made.comparisons[0]

    def accept(self, project: Any, changes: Sequence[Any]) -> None:
        from tui.engine.steps.what_if import accept

        accept(project.path, changes, project)

    def gpus(self) -> Sequence[tuple[str, str]]:
        from tui import units
        from tui.budget import gpus

        return [
            (
                one.name,
                f"{one.name.removeprefix('NVIDIA '):<32} {units.gib(one.total_bytes):>8} GiB   "
                + (f"capability {one.capability[0]}.{one.capability[1]}" if one.capability else ""),
            )
            for one in gpus.table()
        ]

    async def snapshot(
        self, path: Path, at: str, settings: Sequence[str], capacity: int | None = None
    ) -> Any:
        from tui.engine.snapshots import load

        return await load(path, at=at, settings=settings, capacity=capacity)
