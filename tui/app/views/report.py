"""6 Report: what is run, what if it breaks, and is it still true?"""

from __future__ import annotations

from rich.text import Text

from tui import units
from tui.app.choose import latest, operating_of
from tui.app.lines import at, cut, fit, line
from tui.app.page import BLANK, Cursor, Page, Row, Scene, Section, answer, panes
from tui.app.views.empty import nothing
from tui.app.views.figures import interval, scale_of, sized, when
from tui.budget.ledger import probe_verdict
from tui.project.measured import Operating, Probe, Restore

PANES = ("configuration", "restore", "preview")
_FIRST = 27


def page(scene: Scene, width: int, height: int, cursor: Cursor) -> Page:
    """The accepted configuration with its evidence, the restore rehearsal, or the Markdown."""
    found = operating_of(scene.project.measured)
    running = scene.live is not None and scene.live.step in ("report", "restore")
    head = Section("", (panes(PANES, cursor.pane, width),))
    keys = (("r", "run"), ("s", "save"), ("c", "copy"), ("Tab", "pane"), ("e", "edit"))
    if running:
        keys = (("x", "stop"), *keys[1:])
    if cursor.pane == 2:
        told = line((f" {len(scene.preview)} lines of Markdown; s writes the file", "dim"))
        return Page(_answer(scene, found, width), (head, _preview(scene, width)), told, keys)
    if cursor.pane == 1:
        body = _restore(scene, width)
        return Page(_answer(scene, found, width), (head, *body), line(""), keys)
    if found is None:
        empty = nothing("report", width)
        return Page(_answer(scene, found, width), (head, *empty.sections), empty.detail, keys)
    key, operating = found
    told = line((f" {key}, accepted {when(operating.accepted_at)}", "dim"))
    return Page(_answer(scene, found, width), (head, *_configuration(scene, operating, width)), told, keys)


def _answer(scene: Scene, found: tuple[str, Operating] | None, width: int) -> Text:
    live = scene.live
    if live is not None and live.step in ("report", "restore"):
        doing = "writing the report" if live.step == "report" else "save, kill, resume in a new process"
        said = live.child.title or live.text or doing
        right = units.duration(live.elapsed_s) if live.elapsed_s is not None else ""
        return answer(width, "»", "RUNNING", said, right=right)
    if found is None:
        return answer(width, "○", "EMPTY", "nothing accepted: r writes the report of what is proven")
    if "report" in scene.stale:
        return answer(width, "~", "STALE", f"{scene.stale['report']}: r makes it again", good=False)
    return answer(
        width, "●", "VALIDATED", "every figure is from a measurement that passed", right="nothing stale"
    )


def _configuration(scene: Scene, operating: Operating, width: int) -> list[Section]:
    measured = scene.project.measured
    main = measured.probe.get(operating.probe)
    spare = measured.probe.get(operating.fallback or "")
    if main is None:
        why = f" the probe {operating.probe} that was accepted is no longer in the project"
        return [Section("", (BLANK, Row(line((why, "amber")))))]
    table = _Pairs(scene, width, main, spare)
    tested = _tested(operating.micro_batch_tested)
    allocator = getattr(measured.environment.get(operating.environment), "allocator", "") or "default"
    top = [
        table.heading(),
        table.row("micro-batch x accumulate", _batch),
        table.row("tested batches", lambda _: tested),
        table.row("length, precision", lambda one: f"{_length(one)}, {one.precision}"),
        table.row("placement, allocator", lambda _: f"{_ranks(scene)}, {allocator}"),
    ]
    memory = [
        table.row("process, at its most", table.process, "strong"),
        table.row("to spare", table.to_spare),
    ]
    restore = measured.restore.get(operating.restore or "")
    if restore is not None:
        peak = sized(restore.restore_peak_bytes, table.scale)
        memory.append(table.row(f"{restore.restore_peak_of} in the restore", lambda _: peak))
    speed = [
        table.row("samples/s", _rate),
        table.row("step, ms", lambda one: units.milliseconds(one.step_ms_median)),
    ]
    return [
        Section("", tuple(top)),
        Section(f"memory, {table.scale.unit}", tuple(memory)),
        Section("speed", tuple(speed)),
        Section("evidence", table.evidence(operating, restore)),
    ]


def _tested(batches: tuple[int, ...]) -> str:
    return ", ".join(str(one) for one in batches) if batches else "n/a"


def _length(probe: Probe) -> str:
    return f"{probe.length:,}" if probe.length else "fixed"


def _ranks(scene: Scene) -> str:
    ranks = scene.project.spec.placement.ranks
    return f"{ranks} rank{'s' if ranks != 1 else ''}"


def _batch(probe: Probe) -> str:
    return f"{probe.micro_batch} x {probe.accumulate} = {probe.micro_batch * probe.accumulate} samples"


def _rate(probe: Probe) -> str:
    return (
        f"{units.rate(probe.samples_per_s)} ({interval(probe.samples_per_s_low, probe.samples_per_s_high)})"
    )


class _Pairs:
    """Rows with the operating configuration, and the fallback beside it."""

    def __init__(self, scene: Scene, width: int, main: Probe, spare: Probe | None) -> None:
        self.spec, self.width = scene.project.spec, width
        self.scale = scale_of(scene.exact, None)
        self.stale = "report" in scene.stale
        self.probes = [main] if spare is None else [main, spare]
        self.second = max(56, _FIRST + (width - _FIRST) // 2)

    def heading(self) -> Row:
        """operating, fallback."""
        text = at(line(""), _FIRST, "operating", "dim")
        return Row(
            at(text, self.second, "fallback" if len(self.probes) == 2 else "no fallback tested", "dim")
        )

    def row(self, name: str, say: object, role: str = "") -> Row:
        """One line; ``say`` makes a cell from a probe."""
        text = line(("~" if self.stale else " ", "amber"), (name, "dim"))
        for probe, column in zip(self.probes, (_FIRST, self.second), strict=False):
            room = (self.second if column == _FIRST and len(self.probes) == 2 else self.width) - column - 1
            at(text, column, fit(str(say(probe)), room), role)  # type: ignore[operator]
        return Row(cut(text, self.width), pick=True, name=name)

    def process(self, probe: Probe) -> str:
        """The process's most in any phase."""
        return sized(probe_verdict(self.spec, probe).process_bytes, self.scale)

    def to_spare(self, probe: Probe) -> str:
        """What is left of the budget after the reserve."""
        found = probe_verdict(self.spec, probe)
        if found.spare_bytes is None or found.budget_bytes is None:
            return f"n/a: {found.why}"
        limit = sized(found.budget_bytes - found.reserve_bytes, self.scale)
        return f"{sized(found.spare_bytes, self.scale)} of {limit}"

    def evidence(self, operating: Operating, restore: Restore | None) -> tuple[Row, ...]:
        """The ids of the measurements that passed."""
        ids = [operating.probe, operating.fallback or ""]
        rows = [
            self.row("measurement", lambda probe: ids[self.probes.index(probe)]),
            self.row("verified", lambda probe: operating.verify if probe is self.probes[0] else "the same"),
        ]
        if restore is None:
            rows.append(self.row("restore rehearsed", lambda probe: "not rehearsed: peakmark restore"))
            return tuple(rows)
        took = f"killed in {restore.killed_in}, " + (
            f"back in {restore.recovery_s:.1f} s" if restore.recovery_s is not None else restore.outcome
        )
        rows.append(
            self.row("restore rehearsed", lambda probe: took if probe is self.probes[0] else "the same")
        )
        size = f"{units.size(restore.checkpoint_bytes)}, sha256 {(restore.checkpoint_sha256 or 'n/a')[:8]}"
        rows.append(self.row("checkpoint", lambda probe: size if probe is self.probes[0] else "the same"))
        return tuple(rows)


def _restore(scene: Scene, width: int) -> list[Section]:
    newest = latest(scene.project.measured.restore)
    if newest is None:
        text = " not rehearsed: r saves a checkpoint, kills the run, resumes it and compares every step"
        return [Section("", (BLANK, Row(cut(line(text), width))))]
    key, restore = newest
    head = f" {key}   {restore.outcome}: saved after {restore.saved_after}, killed in {restore.killed_in}"
    rows = [BLANK, Row(line((head, "strong"))), BLANK]
    for check in restore.checks.values():
        failed = check.outcome == "fail"
        mark = {"pass": "●", "fail": "×", "note": "!"}.get(check.outcome, "-")
        text = line(" ", (mark, "amber.strong" if failed else "dim"), f" {fit(check.title, 24)}")
        at(text, 28, fit(check.text, width - 29), "strong" if failed else "")
        rows.append(Row(text, pick=True, name=check.title, detail=line(f" {check.title}: {check.text}")))
    recovery, peak = units.long_duration(restore.recovery_s), units.size(restore.restore_peak_bytes)
    said = f" recovery {recovery}, {restore.restore_peak_of} {peak}"
    return [Section("", (*rows, BLANK, Row(line(said))))]


def _preview(scene: Scene, width: int) -> Section:
    rows = tuple(Row(line(" " + fit(one, width - 2)), pick=True) for one in scene.preview)
    return Section("", rows or (BLANK, Row(line((" the report has no lines yet", "dim")))))
