"""5 Precision: which setting is worth it, and what does it cost in learning?"""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text

from tui import units
from tui.app.choose import latest
from tui.app.lines import cut, ending, fit, line, wrap
from tui.app.page import BLANK, Cursor, Page, Row, Scene, Section, answer
from tui.app.views.bars import curve
from tui.app.views.empty import nothing
from tui.app.views.figures import interval, plural, scale_of, sized, when
from tui.project.measured import Precision, Setting
from tui.project.model import Spec

_LABEL, _CELL = 28, 17
AROUND, CHART_LEAST, CHART_MOST = 5, 8, 16
"""Rows of the frame around a page, and the least and most rows of the chart of loss curves."""
Column = tuple[str, Setting]


def page(scene: Scene, width: int, height: int, cursor: Cursor) -> Page:
    """Settings as columns, measures as rows; Tab moves to the next columns when they do not all fit."""
    if scene.live and scene.live.step == "precision":
        return _running(scene, width)
    newest = latest(scene.project.measured.precision)
    if newest is None:
        return nothing("precision", width)
    key, found = newest
    shown = _columns(found, width, cursor.pane)
    table = _Table(scene, found, shown, width)
    hidden = len(found.settings) - len(shown)
    rows = [table.heading(), table.verdict()]
    if hidden:
        rows.insert(0, Row(line((f" {plural(hidden, 'more setting')}: Tab shows the next", "dim"))))
    sections = [Section("", tuple(rows))]
    learning = (
        f"learning, {found.steps} steps, same start and batches, {found.seeds} seeds of {found.reference}"
    )
    if found.settings:
        sections.append(Section(learning, table.learning()))
        sections.append(Section(f"memory, {table.scale.unit} at the peak", table.memory(height > 24)))
        sections.append(Section("speed", table.speed()))
        used = sum(len(one.rows) + bool(one.title) for one in sections)
        if (left := height - AROUND - used - 2) >= CHART_LEAST:  # its title and its legend
            sections += _chart(found, width, left)
    keys = (("r", "run all"), ("b", "bytes"), ("c", "copy"), *((("Tab", "more"),) if hidden else ()))
    return Page(_answer(scene, found, width), tuple(sections), _loader(key, found), keys)


def _columns(found: Precision, width: int, pane: int) -> list[Column]:
    every = sorted(found.settings.items(), key=lambda item: item[0] != found.reference)
    room = max(1, (width - _LABEL) // _CELL)
    if len(every) <= room:
        return every
    others = every[1:]
    first = pane % len(others) if others else 0
    return [every[0], *(others[first:] + others[:first])[: max(1, room - 1)]]


def _answer(scene: Scene, found: Precision, width: int) -> Text:
    right = when(found.at) if width > 100 else ""
    if "precision" in scene.stale:
        return answer(width, "~", "STALE", f"{scene.stale['precision']}: r compares again", good=False)
    if found.outcome in ("failed", "cancelled"):
        return answer(
            width, "×", found.outcome.upper(), found.failure or "no reason was recorded", good=False
        )
    gains = {key: one for key, one in found.settings.items() if one.verdict == "usable" and one.gain}
    if not gains:
        return answer(width, "-", "NO GAIN HERE", f"no setting gains memory or speed over {found.reference}")
    reference = found.settings.get(found.reference)
    name, best = max(gains.items(), key=lambda item: (item[1].samples_per_s or 0.0, item[0]))
    said = f": gain in {' and '.join(best.gain)}"
    if reference and reference.samples_per_s and best.samples_per_s:
        times = units.ratio(best.samples_per_s / reference.samples_per_s)
        rate = f"{times} x the samples/s of {found.reference}"
        said = f": {rate}" if "speed" in best.gain else f": less memory, at {rate}"
        if {"memory", "speed"} <= set(best.gain):
            said += ", and less memory"
    return answer(width, "●", "GAIN", (name, "strong"), said, right=right)


def _running(scene: Scene, width: int) -> Page:
    live = scene.live
    assert live is not None
    child = live.child
    rows = [BLANK]
    for one in live.ended:
        mark, role = ("●", "dim") if one.outcome == "done" else ("×", "amber")
        rows.append(Row(cut(line(" ", (mark, role), f" {one.title}   {one.text}"), width)))
    now = line(" ", ("»", "water"), " ", (child.title or live.text or "starting", "strong"))
    if child.total:
        now.append(f"   {child.done} of {child.total} {child.what}")
    if child.last_loss is not None:
        now.append(f"   loss {units.number(child.last_loss)}")
    rows.append(Row(cut(now, width)))
    right = units.duration(live.elapsed_s) if live.elapsed_s is not None else ""
    head = answer(
        width, "»", "RUNNING", "every setting from the same weights, batches and order", right=right
    )
    return Page(head, (Section("", tuple(rows)),), line((f" {child.id}", "dim")), (("x", "stop"),))


def _chart(found: Precision, width: int, height: int) -> list[Section]:
    from tui.app.views.curves import loss_chart  # plotext is wanted by tall terminals alone

    curves = {name: setting.losses for name, setting in found.settings.items()}
    lines = loss_chart(curves, found.steps, width, min(CHART_MOST, height))
    rows = tuple(Row(line((one, "dim"))) for one in lines)
    return [Section(f"training loss over {found.steps} steps", rows)] if rows else []


def _loader(key: str, found: Precision) -> Text:
    if found.loader_samples_per_s is None:
        why = found.unknown.get("loader_samples_per_s", "the loader was not timed")
        return line((f" {key}   loader n/a: {why}", "dim"))
    return line(
        f" loader {units.rate(found.loader_samples_per_s)} samples/s alone, "
        f"compute {units.rate(found.compute_samples_per_s)} alone, "
        f"together {units.rate(found.together_samples_per_s)}: stall {units.percent(found.stall_ratio)}"
    )


class _Table:
    """Rows over the settings that are shown."""

    def __init__(self, scene: Scene, found: Precision, columns: list[Column], width: int) -> None:
        self.spec: Spec = scene.project.spec
        self.found, self.columns, self.width = found, columns, width
        environment = scene.project.measured.environment.get(found.environment)
        self.on_cpu = environment is not None and environment.device_id == "cpu"
        requested = [one.requested_bytes for one in found.settings.values() if one.requested_bytes]
        self.scale = scale_of(scene.exact, max(requested, default=None))
        self.cell = max(_CELL, min(30, (width - _LABEL) // max(1, len(columns))))

    def row(self, name: str, say: Callable[[str, Setting], str | tuple[str, str]], reason: str = "") -> Row:
        """One measure; a cell that says n/a gives its reason in the detail row."""
        text = line(" " + fit(name, _LABEL - 1))
        reasons = []
        for index, (key, setting) in enumerate(self.columns, 1):
            said = say(key, setting)
            value, role = said if isinstance(said, tuple) else (said, "")
            if value == "n/a":
                reasons.append(f"{key} n/a: {_why(setting, reason)}")
            ending(text, _LABEL + self.cell * index, fit(value, self.cell - 1), role)
        detail = line(" " + "; ".join(reasons)) if reasons else line(f" {name}")
        return Row(cut(text, self.width), pick=True, name=name, detail=detail)

    def heading(self) -> Row:
        """The settings' names, the one in use marked."""
        text = line("")
        for index, (key, _) in enumerate(self.columns, 1):
            ending(text, _LABEL + self.cell * index, fit(key, self.cell - 1), "dim")
        return Row(cut(text, self.width))

    def verdict(self) -> Row:
        """reference, gain, usable or unusable, and which one the project uses."""
        made = self.row("verdict", self._verdict)
        whys = [f"{key}: {one.why}" for key, one in self.columns if one.why]
        return Row(made.line, True, line(" " + "; ".join(whys)) if whys else made.detail, "verdict")

    def _verdict(self, key: str, setting: Setting) -> tuple[str, str]:
        chosen = ", chosen" if key == self.spec.precision.use else ""
        if setting.outcome != "done" or setting.verdict == "unusable":
            word = setting.verdict if setting.outcome == "done" else setting.outcome
            return f"× {word}{chosen}", "amber.strong"
        if setting.verdict == "reference":
            return "reference" + chosen, "strong" if chosen else ""
        return (("gain" if setting.gain else "- no gain here") + chosen), "strong" if setting.gain else ""

    def learning(self) -> tuple[Row, ...]:
        """Losses, gradients, and what went wrong in the numbers."""
        reference, quality = self.found.reference, self.spec.quality
        rows = [
            self.row("training loss", lambda _, one: (curve(one.losses, 12) or "n/a", "water"), "losses"),
            self.row("final training loss", lambda _, one: units.number(one.final_loss), "final_loss"),
            self.row(f"  distance from {reference}", self._distance, "distance"),
            self.row("validation loss", lambda _, one: units.number(one.validation_loss), "validation_loss"),
            self.row(f"  distance from {reference}", self._validation, "validation_distance"),
        ]
        if quality.target is not None:
            word = "at most" if quality.direction == "min" else "at least"
            rows.append(
                self.row(f"  target, {word} {quality.target:g}", lambda _, one: _met(one), "quality_met")
            )
        rows.append(self.row("gradient, relative error", self._gradient, "gradient_error"))
        rows.append(self.row("non-finite, skipped steps", _faults))
        return tuple(rows)

    def _distance(self, key: str, one: Setting) -> str:
        return self._from_reference(key, one.distance, self.found.noise_floor_training)

    def _validation(self, key: str, one: Setting) -> str:
        return self._from_reference(key, one.validation_distance, self.found.noise_floor)

    def _from_reference(self, key: str, value: float | None, noise: float | None) -> str:
        if key == self.found.reference:
            return "n/a" if noise is None else f"{units.number(noise)} is noise"
        return units.number(value) if value is None or value <= 0 else f"+{units.number(value)}"

    def _gradient(self, key: str, one: Setting) -> str | tuple[str, str]:
        if key == self.found.reference:
            return "reference"
        over = one.gradient_error is not None and not one.gradient_error <= self.found.gradient_limit
        return (units.number(one.gradient_error), "amber.strong" if over else "")

    def memory(self, tall: bool) -> tuple[Row, ...]:
        """Peaks; the least process is marked."""
        best = self._best(lambda one: one.process_bytes, min)

        def say(field: str) -> Callable[[str, Setting], str | tuple[str, str]]:
            return lambda key, one: _best(
                sized(self._bytes(one, field), self.scale), key == best and field == "process_bytes"
            )

        rows = [
            ("requested", "requested_bytes"),
            ("reserved", "reserved_bytes"),
            ("process", "process_bytes"),
        ]
        if tall:
            rows.insert(1, ("tensor-allocated", "allocated_bytes"))
        return tuple(self.row(name, say(field), field) for name, field in rows)

    def _bytes(self, one: Setting, field: str) -> int | None:
        """A size of a setting; the CPU's allocator does not round, so what it allocates is what was asked."""
        if field == "allocated_bytes" and one.allocated_bytes is None and self.on_cpu:
            return one.requested_bytes
        return getattr(one, field)

    def speed(self) -> tuple[Row, ...]:
        """Rates; the fastest is marked."""
        best = self._best(lambda one: one.samples_per_s, max)
        rows = [
            self.row(
                "samples/s",
                lambda key, one: _best(units.rate(one.samples_per_s), key == best),
                "samples_per_s",
            ),
            self.row(
                "  95 % interval",
                lambda _, one: interval(one.samples_per_s_low, one.samples_per_s_high),
                "samples_per_s_low",
            ),
            self.row("step, ms", lambda _, one: units.milliseconds(one.step_ms_median), "step_ms_median"),
        ]
        if self.width > 80:
            for key, one in self.columns:
                rows += [
                    Row(line((f" {part}", "dim"))) for part in wrap(f"{key}: {one.effective}", self.width - 2)
                ]
        return tuple(rows)

    def _best(self, value: Callable[[Setting], float | None], pick: Callable[..., str]) -> str:
        usable = {
            key: found
            for key, one in self.columns
            if one.verdict in ("usable", "reference") and (found := value(one)) is not None
        }
        if len(usable) < 2 or len(set(usable.values())) == 1:
            return ""
        return pick(usable, key=lambda key: usable[key])


def _best(value: str, best: bool) -> str | tuple[str, str]:
    return (f"best {value}", "strong") if best else value


def _met(one: Setting) -> str:
    return "n/a" if one.quality_met is None else "met" if one.quality_met else "not met"


def _faults(_: str, one: Setting) -> str | tuple[str, str]:
    said = f"{one.nonfinite}, {one.skipped}"
    return (said, "amber.strong") if one.nonfinite or one.skipped else said


def _why(setting: Setting, reason: str) -> str:
    return setting.unknown.get(reason) or setting.why or "not measured"
