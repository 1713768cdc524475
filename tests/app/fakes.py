"""A source that a test drives by hand, in place of files, runs and trust."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from app.sample import SPEC
from tui.app.app import PeakmarkApp
from tui.app.output import Output, cleaned
from tui.app.search_plan import told
from tui.app.steps import is_of
from tui.budget import what_if
from tui.budget.checked import formula_of
from tui.budget.what_if_rows import Case, compare
from tui.errors import ProjectError, RunError
from tui.probe import protocol
from tui.project.decode import decode
from tui.project.keys import Place, split
from tui.project.model import Spec
from tui.project.schema import SPEC_RULES, check_spec


@dataclass
class FakeSeen:
    event: Any
    measurement: str | None = None


@dataclass
class FakeRun:
    id: str = "run-1"
    steps: tuple[str, ...] = ("probe",)


@dataclass
class FakeSource:
    """Holds one project; ``queue`` is what the run says, None ends it without a word."""

    project: Any
    left_behind: FakeRun | None = None
    asked: tuple[str, ...] = ()
    queue: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    started: list[tuple[str, ...]] = field(default_factory=list)
    stopped: list[Any] = field(default_factory=list)
    allowed: int = 0
    closed: bool = False
    refused: Exception | None = None
    text: str = "# Report\n\nprocess 14.756 GiB\n"
    known: list[tuple[str, str, str]] = field(default_factory=list)
    print: str = SPEC
    saved: list[dict[str, Any]] = field(default_factory=list)
    tree: Any = None
    line: Any = None
    """The timeline of every probe; None: it is gone."""
    lines: dict[str, Any] = field(default_factory=dict)
    """Other timelines, by name."""
    history: Any = None
    """What a memory snapshot is, by instant and settings; an error is raised."""
    capacity: int | None = None
    """What a replay of it might reserve, when it was read last."""
    looked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    log: Any = None
    """What the child has printed so far; None: no log."""
    options: list[tuple[str, ...]] = field(default_factory=list)
    future: Any = None
    """The prediction of every changed spec; a text: why there is none."""
    imagined: list[tuple[Any, ...]] = field(default_factory=list)
    accepted: list[tuple[Any, ...]] = field(default_factory=list)

    def load(self, path: Path) -> Any:
        if self.project is None:
            raise ProjectError("no such file", where=str(path), hint="create it")
        return self.project

    def stamp(self, path: Path) -> object:
        return id(self.project)

    def __post_init__(self) -> None:
        self._first = self.project.spec.workload if self.project is not None else None

    def fingerprint(self, project: Any) -> str:
        return self.print if project.spec.workload == self._first else "sha256:0ddc0ffee000"

    def counted(self, project: Any) -> bool:
        inventory = project.measured.inventory
        return inventory is not None and is_of(inventory.spec, self.fingerprint(project))

    def untrusted(self, project: Any) -> tuple[str, ...]:
        return () if self.allowed else self.asked

    def allow(self, project: Any) -> None:
        self.allowed += 1

    def running(self, path: Path) -> FakeRun | None:
        return self.left_behind

    def start(self, path: Path, steps: Sequence[str], options: Sequence[str] = ()) -> FakeRun:
        if self.refused is not None:
            raise self.refused
        self.started.append(tuple(steps))
        self.options.append(tuple(options))
        return FakeRun(steps=tuple(steps))

    def stop(self, run: Any) -> None:
        self.stopped.append(run)

    async def follow(self, run: Any) -> AsyncGenerator[FakeSeen]:
        try:
            while (event := await self.queue.get()) is not None:
                yield FakeSeen(event)
                if isinstance(event, protocol.RunEnded):
                    return
        finally:
            self.closed = True

    def elapsed_s(self, run: Any) -> float | None:
        return 19.0

    def describe(self, run: Any) -> str:
        return "probe, 0:21"

    def markdown(self, project: Any) -> str:
        return self.text

    def write_report(self, project: Any) -> Path:
        return Path("h100.md")

    def write_ledger(self, project: Any, made: Any) -> Sequence[Path]:
        self.accepted.append((made.probe_id or made.prediction_id,))
        return Path("h100.ledger.csv"), Path("h100.ledger.md")

    def recent(self) -> list[tuple[str, str, str]]:
        return self.known

    def opened(self, project: Any) -> None:
        pass

    def edit(self, path: Path) -> str:
        return ""

    def warm(self) -> None:
        pass

    def check(self, project: Any, changes: Mapping[str, Any]) -> Any:
        place = Place("h100.toml", {})
        table = dict(self.written(project))
        for key, value in changes.items():
            _put(table, split(key), value)
        spec = decode(Spec, table, "", place, SPEC_RULES)
        check_spec(spec, place)
        return replace(project, spec=spec)

    def save(self, project: Any, changes: Mapping[str, Any]) -> Any:
        if self.refused is not None:
            raise self.refused
        self.saved.append(dict(changes))
        self.project = self.check(project, changes)
        return self.project

    def written(self, project: Any) -> Mapping[str, Any]:
        return _plain(asdict(project.spec))

    def formula(self, project: Any) -> Any:
        return formula_of(project.spec)

    def modules(self, project: Any) -> Any:
        if self.tree is None:
            raise RunError("the module tree of the last count is not on this machine any more")
        return self.tree

    def timeline(self, name: str) -> Any:
        if name in self.lines:
            return self.lines[name]
        if self.line is None:
            raise RunError("the timeline of this measurement is not on this machine any more")
        return self.line

    def search_plan(self, project: Any) -> Sequence[str]:
        return told(project)

    def gpus(self) -> Sequence[tuple[str, str]]:
        return [("H100 80GB HBM3", "H100 80GB HBM3   79.647 GiB   9.0"), ("L4", "L4   22.494 GiB   8.9")]

    async def snapshot(
        self, path: Path, at: str, settings: Sequence[str], capacity: int | None = None
    ) -> Any:
        self.looked.append((at, tuple(settings)))
        self.capacity = capacity
        made = self.history(at, tuple(settings))
        if isinstance(made, Exception):
            raise made
        return made

    def change(self, project: Any, text: str, before: Sequence[Any] = ()) -> Any:
        return what_if.parse(text, project.spec)

    async def what_if(
        self, path: Path, changes: Sequence[Any], device: str, gpu: str, predicting: bool
    ) -> Any:
        self.imagined.append((device, gpu, predicting))
        measured = self.project.measured
        then = self.check(self.project, {one.key: one.becomes for one in changes})
        found = max(measured.prediction.items())[1] if measured.prediction else None
        refused = self.future if predicting and isinstance(self.future, str) else ""
        future = self.future if predicting and not refused else None
        before, after = (
            " ".join(f"{one.key} = {value}" for one in changes for value in [pick(one)])
            for pick in (lambda one: one.was, lambda one: one.becomes)
        )
        then = replace(then, text=after)
        now_case = Case(replace(self.project, text=before), measured.inventory, "cuda", found)
        then_case = Case(then, measured.inventory, "cuda", future, refused)
        return compare(now_case, then_case, tuple(changes))

    def accept(self, project: Any, changes: Sequence[Any]) -> None:
        if self.refused is not None:
            raise self.refused
        self.accepted.append(tuple(changes))
        self.project = self.check(project, {one.key: one.becomes for one in changes})

    def output(self, journal: str, stamp: object) -> Any:
        if self.log is None:
            raise RunError("the log of this measurement is not on this machine any more")
        lines = tuple(cleaned(self.log))
        return None if stamp == len(self.log) else Output("p.log", lines, len(self.log), False, len(self.log))


def _plain(value: Any) -> Any:
    """As a file would say it: nothing is None, arrays are lists."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if one is not None}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _put(table: Any, parts: tuple[str, ...], value: Any) -> None:
    for part in parts[:-1]:
        table = table.setdefault(part, {})
    if value is None:
        table.pop(parts[-1], None)
    else:
        table[parts[-1]] = value


def probe_events(done: int, total: int = 20) -> list[Any]:
    """What a run says up to iteration ``done`` of a timed probe."""
    p = protocol
    events: list[Any] = [
        p.RunStarted("run-1", 1, "h100.toml", ["probe"], "GPU-1f0c"),
        p.StepStarted("probe"),
        p.MeasurementStarted("p-1", "probe", "timed", "8 x 1024, bf16-autocast", "runs/p-1.jsonl"),
    ]
    events += [p.PhaseEntered(name) for name in ("start", "context", "build", "optimizer", "first.forward")]
    events.append(p.PhaseEntered("warmup"))
    for index in range(done):
        low, high = 12 * 2**30, 13 * 2**30
        events.append(p.Progress(index + 1, total, "iterations"))
        events.append(
            p.IterationDone(
                index,
                "timed",
                118.0 + index % 3,
                9.4,
                32,
                True,
                [low, high, 2 * 2**30],
                "memory_stats, inside",
            )
        )
        events.append(p.PhaseEntered("backward", index + 1, 2))
    events.append(p.ReadingTaken("requested", "backward", 14_773_325_824, "memory_stats, inside", "as asked"))
    events.append(p.ReadingTaken("process", "backward", 15_844_402_790, "device less others", "charged"))
    events.append(p.ReadingTaken("others", "backward", None, "NVML", "others", "hidden in this container"))
    return events


def opened(source: FakeSource, **options: object) -> PeakmarkApp:
    return PeakmarkApp(Path("h100.toml"), source, **options)


async def settle(app: PeakmarkApp, pilot) -> str:
    """Everything that is at hand is taken in and drawn; the text of the screen."""
    for _ in range(4):
        await pilot.pause()
        while app.catching_up:
            await pilot.pause()
    app.screen.redraw()
    await pilot.pause()
    return app.screen.shown()


def say(source: FakeSource, *events: object) -> None:
    for event in events:
        source.queue.put_nowait(event)
