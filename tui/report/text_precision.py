"""A precision comparison as text: learning, memory and speed of each setting side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tui import units
from tui.project.measured import Measured, Precision, Setting
from tui.project.model import Spec
from tui.report import sentences
from tui.report.figures import Unit, unit_for
from tui.report.lines import clip, closing, hanging, joined, right

LABEL, COLUMN = 24, 18
Cells = Callable[[Setting], str]


def precision_lines(
    spec: Spec, measured: Measured, precision_id: str | None = None, *, project: str, width: int = 80
) -> list[str]:
    """One comparison (None: the latest), its settings side by side.

    The last line begins with a verdict: gain, no gain here, NOT DECIDED, FAILED or UNKNOWN.

    Raises:
        KeyError: there is no such comparison.
    """
    precision_id = precision_id or max(measured.precision, default=None)
    if precision_id is None:
        head = joined([sentences.title(spec), ", ".join(spec.precision.compare)], width)
        return [
            *head,
            *closing(f"UNKNOWN: nothing was compared yet. Next: peakmark precision {project}", width),
        ]
    found = measured.precision[precision_id]
    place = sentences.device(measured.environment.get(found.environment))
    lines = joined([precision_id, place, f"micro-batch {found.micro_batch}"], width)
    seeds = f"reference {found.reference} with {found.seeds} seed{'' if found.seeds == 1 else 's'}"
    lines += joined([f"same weights, batches, order · {found.steps} steps", seeds], width)
    names = list(found.settings)
    each = max(1, (width - LABEL) // COLUMN)
    for start in range(0, len(names), each):
        lines += _table(found, names[start : start + each], width)
    lines += _remarks(found, width)
    return [*lines, *closing(verdict_text(spec, found, project), width)]


def gain_text(setting: Setting) -> str:
    """``usable, gain in both``: the verdict on one setting and what it gains."""
    if setting.outcome != "done":
        return setting.outcome
    if setting.verdict != "usable":
        return setting.verdict or "n/a"
    if set(setting.gain) == {"memory", "speed"}:
        return "gain in both"
    return f"gain in {setting.gain[0]}" if setting.gain else "no gain here"


def verdict_text(spec: Spec, found: Precision, project: str) -> str:
    """The last line of a comparison."""
    if found.outcome != "done":
        return f"FAILED: {found.failure or 'the comparison was ' + found.outcome}."
    target = spec.quality.target
    if target is not None and not any(one.quality_met for one in found.settings.values()):
        missed = f"quality target {units.number(target)}, which no setting reaches in {found.steps} steps"
        return f"NOT DECIDED: {missed}."
    better = [name for name, one in found.settings.items() if one.verdict == "usable" and one.gain]
    if not better:
        return f"no gain here: {found.reference} stays. Next: peakmark restore {project}"
    named = " and ".join(f"{name} ({' and '.join(found.settings[name].gain)})" for name in better)
    return f"gain: {named}. Next: peakmark restore {project}"


def unit_of(found: Precision) -> Unit:
    """GiB, or MiB when every setting requests less than one."""
    sizes = [one.requested_bytes for one in found.settings.values() if one.requested_bytes is not None]
    return unit_for(max(sizes) if sizes else None)


def _table(found: Precision, names: Sequence[str], width: int) -> list[str]:
    unit = unit_of(found)
    reference = found.settings.get(found.reference)
    base = reference.requested_bytes if reference else None
    rows: list[tuple[str, Cells]] = [
        (f"validation loss @{found.steps}", lambda one: units.number(one.validation_loss)),
        (f"  from {found.reference}", lambda one: _signed(one.validation_distance)),
        ("  final training loss", lambda one: units.number(one.final_loss)),
        ("first gradient, error", lambda one: _error(one, one is reference)),
        ("non-finite, skipped", lambda one: f"{one.nonfinite}, {one.skipped}"),
        (f"requested {unit.name}", lambda one: unit.cell(one.requested_bytes)),
        (f"  from {found.reference}", lambda one: _less(one.requested_bytes, base, unit)),
        ("samples/s", lambda one: units.rate(one.samples_per_s)),
        ("  95 %", lambda one: units.interval(one.samples_per_s_low, one.samples_per_s_high)),
    ]
    if any(one.quality_met is not None for one in found.settings.values()):
        rows.append(
            ("quality target", lambda one: {True: "met", False: "missed", None: "n/a"}[one.quality_met])
        )
    rows.append(("verdict", gain_text))
    widths = [COLUMN] * len(names)
    lines = [clip(" " * LABEL + right([clip(name, COLUMN - 1) for name in names], widths), width)]
    for label, cells in rows:
        shown = [clip(cells(found.settings[name]), COLUMN - 1) for name in names]
        lines.append(clip(clip(label, LABEL).ljust(LABEL) + right(shown, widths), width).rstrip())
    return lines


def _remarks(found: Precision, width: int) -> list[str]:
    lines: list[str] = []
    floor = units.number(found.noise_floor)
    if found.noise_floor is None:
        floor += ": " + found.unknown.get("noise_floor", "not measured")
    lines += hanging(f"noise floor of the validation loss {floor}", width)
    lines += hanging(f"limit of the first gradient's error {units.number(found.gradient_limit)}", width)
    for name, setting in found.settings.items():
        lines += hanging(f"{name}: {setting.effective or 'not seen inside'}", width)
        if setting.why:
            lines += hanging(f"{name}: {setting.verdict or setting.outcome}: {setting.why}", width)
        for key, reason in setting.unknown.items():
            lines += hanging(f"n/a {name} {key.replace('_', ' ')}: {reason}", width)
    lines += hanging(loader_text(found), width)
    return lines


def loader_text(found: Precision) -> str:
    """What the data pipeline does alone and together with the model."""
    if found.loader_samples_per_s is None:
        return "loader n/a: " + found.unknown.get("loader_samples_per_s", "not timed")
    alone = f"loader alone {units.rate(found.loader_samples_per_s)} samples/s"
    return (
        f"{alone}, compute alone {units.rate(found.compute_samples_per_s)}, "
        f"together {units.rate(found.together_samples_per_s)}: stall {units.percent(found.stall_ratio)}"
    )


def _signed(value: float | None) -> str:
    if value is None or value == 0:
        return units.number(value)
    return ("+" if value > 0 else "-") + units.number(abs(value))


def _error(setting: Setting, is_reference: bool) -> str:
    return "-" if is_reference and setting.gradient_error is None else units.number(setting.gradient_error)


def _less(size: int | None, base: int | None, unit: Unit) -> str:
    if size is None or base is None:
        return "n/a"
    if size == base:
        return "0"
    return f"{unit.signed(size - base)} ({units.percent(size / base - 1, sign=True)})"
