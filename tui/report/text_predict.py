"""A prediction as text: what it will take, what that stands on, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence

from tui import units
from tui.budget import gpus
from tui.budget import prediction as predictions
from tui.budget import timeline as timelines
from tui.budget.verdict import Verdict
from tui.project.measured import Measured
from tui.project.model import Spec
from tui.project.prediction import Prediction
from tui.project.timeline import Timeline
from tui.report import sentences
from tui.report.figures import Unit, span, unit_for
from tui.report.lines import clip, closing, hanging, joined, labelled, right, wrap

LABEL = 20
INDENT = 13
OF_THE_MODEL = ("weights", "gradients", "optimizer_state", "buffers", "library_workspaces")
"""Rows that no batch has a part in."""


def predict_lines(
    spec: Spec,
    measured: Measured,
    ids: Sequence[str],
    *,
    project: str,
    width: int = 80,
    phase: str | None = None,
    held: Timeline | None = None,
) -> list[str]:
    """One prediction in full, or several as a table.

    Args:
        spec: budget and title.
        measured: holds the predictions.
        ids: which ones; none: the latest.
        project: the file's name, for the next command.
        width: terminal columns.
        phase: whose rows are listed; None: none.
        held: the timeline of the one prediction, to name what is largest at its peak.

    Raises:
        KeyError: there is no such prediction or phase.
    """
    chosen = list(ids) or ([max(measured.prediction)] if measured.prediction else [])
    if not chosen:
        return closing(f"UNKNOWN: nothing was predicted yet. Next: peakmark predict {project}", width)
    if len(chosen) > 1:
        return _several(spec, measured, chosen, width)
    return _one(spec, measured.prediction[chosen[0]], chosen[0], project, width, phase, held)


def unit_of(found: Prediction) -> Unit:
    """GiB, or MiB where every peak is below one."""
    return unit_for(predictions.most(found, "requested_bytes"))


def _one(
    spec: Spec, found: Prediction, id: str, project: str, width: int, phase: str | None, held: Timeline | None
) -> list[str]:
    unit = unit_of(found)
    lines = joined(
        [f"PREDICTED in {_seconds(found)}, no GPU used", _batch(spec, found), found.precision], width
    )
    lines += joined([id, _target(found)], width)
    lines += _totals(found, unit, width)
    lines += _peak(found, unit, width, held)
    if phase is not None:
        lines += _rows(found, phase, unit, width)
    lines += _stands_on(found, width)
    lines += _largest(spec, found, unit, width)
    verdict = predictions.prediction_verdict(spec, found)
    lines += [one for text in sentences.budget(verdict, unit) for one in wrap(text, width)]
    return [
        *lines,
        *closing(f"{sentences.verdict(verdict, unit)} Next: {_next(spec, found, project)}", width),
    ]


def _seconds(found: Prediction) -> str:
    return "n/a s" if found.seconds is None else units.long_duration(found.seconds)


def _batch(spec: Spec, found: Prediction) -> str:
    return sentences.batch(found.micro_batch, found.accumulate, found.ranks, found.length)


def _target(found: Prediction) -> str:
    if found.semantics == "cpu":
        return f"the CPU's own operators ({found.target_from})"
    if not found.target:
        return f"CUDA, for no GPU in particular: {found.target_from}"
    return f"for {found.target} ({found.target_from}), {units.gib(found.target_total_bytes)} GiB"


def _totals(found: Prediction, unit: Unit, width: int) -> list[str]:
    """The highest of all phases: reserved bytes are highest in the last ones, as the cache only grows."""
    exact = "exact for the same program and torch version"
    if found.approximate:
        exact = "exact but for what is approximate, see below"
    rows = [("requested", "requested_bytes", exact)]
    if found.semantics == "cuda":
        rows += [
            ("tensor-allocated", "allocated_bytes", "exact likewise"),
            ("allocator-reserved", "reserved_bytes", _band()),
        ]
    lines: list[str] = []
    for label, name, note in rows:
        lines += _total(label, unit.text(predictions.most(found, name)), note, width)
    process = predictions.process_range(found)
    if process is None:
        why = (
            predictions.ON_CPU
            if found.semantics == "cpu"
            else found.unknown.get("context_low_bytes", "not known")
        )
        return [*lines, *_total("process", "n/a", why, width)]
    shown = unit.text(process[0]) if process[0] == process[1] else f"{span(process, unit)} {unit.name}"
    return [*lines, *_total("process", shown, _context(found), width)]


def _total(label: str, shown: str, note: str, width: int) -> list[str]:
    head = f"{label.ljust(LABEL)}{shown.rjust(13)}  "
    return wrap(note, width, len(head), head)


def _band() -> str:
    return f"+-{predictions.RESERVED_BAND * 100:.1f} %: depends on the history of the cache"


def _reserved_so_far(found: Prediction, phase: str) -> str:
    """Where the most is reserved, if a phase has less: the cache had not grown so far yet."""
    sizes = {name: one.reserved_bytes or 0 for name, one in found.phases.items()}
    most = max(sizes, key=lambda name: sizes[name])
    return "" if sizes[phase] == sizes[most] else f"  in this phase; at its most in {most}"


def _context(found: Prediction) -> str:
    low, high = found.context_low_bytes or 0, found.context_high_bytes or 0
    mib, what = 2**20, "context and NCCL" if found.ranks > 1 else "context"
    if low == high:
        return f"+ {what} {low // mib:,} MiB ({found.context_from})"
    named = f"{low // mib:,}-{-(-high // mib):,} MiB"
    return f"+ {what} {named} ({_short(found.context_from)}; not calibrated)"


def _short(origin: str) -> str:
    """The first part of where a range comes from: the whole of it is in the document."""
    return origin.partition(": ")[0] if origin.startswith("published: ") else origin


def _peak(found: Prediction, unit: Unit, width: int, held: Timeline | None) -> list[str]:
    peak = predictions.worst_peak(found)
    if peak is None:
        return []
    where = f"peak: {found.worst_phase}"
    where += f", in operator {peak.operator}" if peak.operator else ""
    where += f" of {peak.module}" if peak.module else ""
    where = f"{where}; alive then"
    if not peak.requested_bytes:
        return hanging(where.removesuffix("; alive then"), width)
    if (alike := _alike(found, held)) is not None:
        count, what, size = alike
        share = units.percent(size / peak.requested_bytes)
        several = f"{count} tensors of {what}" if count > 1 else f"a tensor of {what}"
        return hanging(f"{where}: {several} = {unit.text(size)}, {share}", width)
    row, size = max(peak.rows.items(), key=lambda item: item[1])
    share = units.percent(size / peak.requested_bytes)
    return hanging(f"{where}: most of it {row.replace('_', ' ')}, {unit.text(size)}, {share}", width)


def _alike(found: Prediction, held: Timeline | None) -> tuple[int, str, int] | None:
    """(count, shape and dtype, bytes together) of the tensors of one kind that take most at the peak."""
    name = (found.worst_phase or "").removeprefix("first.")
    at = None if held is None else timelines.peak_in(held, name)
    peak = predictions.worst_peak(found)
    if held is None or at is None or peak is None or at[1] != peak.requested_bytes:
        return None  # the timeline is of the steady iteration
    kinds: dict[str, list[int]] = {}
    for one in timelines.alive(held, at[0]):
        if one.shape and one.row not in OF_THE_MODEL:
            kinds.setdefault(f"{one.shape} {one.dtype}", []).append(one.bytes)
    if not kinds:
        return None
    what, sizes = max(kinds.items(), key=lambda item: sum(item[1]))
    return len(sizes), what, sum(sizes)


def _rows(found: Prediction, phase: str, unit: Unit, width: int) -> list[str]:
    peak = found.phases[phase]
    lines = [clip(f"{f'{phase}, {unit.name}'.ljust(LABEL + 4)}{'predicted'.rjust(10)}", width)]
    cells = [(row.replace("_", " "), size, "") for row, size in peak.rows.items()]
    cells += [("= requested", peak.requested_bytes, "")]
    if found.semantics == "cuda":
        cells += [
            ("= tensor-allocated", peak.allocated_bytes or 0, ""),
            ("= allocator-reserved", peak.reserved_bytes or 0, _reserved_so_far(found, phase)),
        ]
    return lines + [
        clip(f"{label.ljust(LABEL + 4)}{unit.cell(size).rjust(10)}{note}", width)
        for label, size, note in cells
    ]


def allocator(found: Prediction) -> str:
    """Its settings, and how far the rules that were simulated are proved under them."""
    if not found.allocator:
        return "allocator defaults"
    rules = f" ({found.allocator_rules})" if found.allocator_rules else ""
    return f"allocator {found.allocator}{rules}"


def _stands_on(found: Prediction, width: int) -> list[str]:
    """What the figures assume, leave out, and were told."""
    assumed = [*found.assumptions, allocator(found), f"torch {found.torch}"]
    if found.semantics == "cpu":
        assumed = [*found.assumptions, f"torch {found.torch}"]
    elif (known := gpus.known(found.target)) is not None and known.sm_count is not None:
        assumed.append(f"{known.sm_count} SMs")
    elif found.semantics == "cuda":
        assumed.append("SM count n/a: scratch of reductions is that of no GPU in particular")
    lines = labelled("assumed", " · ".join(assumed), INDENT, width)
    if found.approximate:
        lines += labelled("approximate", " · ".join(found.approximate), INDENT, width)
    left_out = [*found.not_covered, "other processes"]
    lines += labelled("not covered", " · ".join(left_out), INDENT, width)
    told = " · ".join(found.answered) or "none"
    lines += labelled(".item()", told, INDENT, width)
    if found.exhausted:
        lines += labelled("stopped", found.exhausted, INDENT, width)
    return lines


def _largest(spec: Spec, found: Prediction, unit: Unit, width: int) -> list[str]:
    lines: list[str] = []
    if found.line_per_sample_bytes is not None:
        fixed, each = unit.text(found.line_fixed_bytes), _fine(found.line_per_sample_bytes)
        left = "through two batches"
        if found.line_residual_bytes is not None:
            left = f"residual {units.size(found.line_residual_bytes)}"
        lines += labelled("batch line", f"requested = {fixed} + {each} x micro ({left})", INDENT, width)
    if found.largest is not None:
        held = f"micro {found.largest}"
        if found.largest_next is not None:
            held += f"; {found.largest_next} does not"
        limit = f"fits in {unit.text(found.largest_limit_bytes)} reserved ({_limit(spec, found)})"
        lines += labelled("largest", f"{held.replace(';', f' {limit};', 1) if ';' in held else f'{held} {limit}'}",
                          INDENT, width)  # fmt: skip
    elif (why := found.unknown.get("largest")) is not None:
        shown = why if why.startswith("not asked for") else f"n/a: {why}"
        lines += labelled("largest", shown, INDENT, width)
    if found.emptying is not None:
        lines += labelled("", _emptying(found), INDENT, width)
    return lines


def _emptying(found: Prediction) -> str:
    """What more there is when the allocator empties its cache, beside the largest without."""
    after = f"; {found.emptying_next} runs out of memory" if found.emptying_next is not None else ""
    if found.emptying == found.largest:
        return f"emptying its cache makes room for no more{after}"
    often = predictions.times(found.emptying_retries or 0)
    above = "" if found.largest is None else "above it the cache has to be emptied: "
    return f"{above}micro {found.emptying} runs with the cache emptied {often}{after}"


def _fine(size: int) -> str:
    """Bytes of one sample, with four digits that matter."""
    return f"{size / 2**30:.4f} GiB" if size >= 2**27 else units.size(size)


def _limit(spec: Spec, found: Prediction) -> str:
    total = predictions.whole_budget(spec, found.target_total_bytes)
    reserve = f" less reserve {units.gib(spec.budget.reserve)}" if spec.budget.reserve else ""
    context = f"{(found.context_high_bytes or 0) // 2**20:,} MiB"
    return f"{units.gib(total)} GiB{reserve} less context {context}"


def _next(spec: Spec, found: Prediction, project: str) -> str:
    """What to do now: measure it where that can be done, on the kind of device that it was predicted for."""
    length = "" if found.length is None else f" --length {found.length}"
    command = f"peakmark probe {project} --batch {found.micro_batch}{length}"
    if found.ranks > 1 and found.strategy not in MEASURED_STRATEGIES:
        return (
            f"peakmark ledger {project}; {found.ranks} ranks of {found.strategy} are predicted and declared, "
            "and measured by nothing here"
        )
    on_cpu = spec.environment.device == "cpu"
    if found.semantics == "cpu":
        return command if on_cpu else f"{command} --device cpu"
    command += " --device auto" if on_cpu else ""
    if found.ranks > 1:
        return f"on a machine with {found.ranks} such GPUs: {command}"
    if found.target_from in HERE:
        return command
    what = "a GPU" if gpus.known(found.target) is None else f"the {found.target}"
    return f"on a machine with {what}: {command}"


NOT_ASKED = "not asked for: --largest"
MEASURED_STRATEGIES = ("ddp", "fsdp2")
HERE = ("this machine", "this run's device", "the run's device", "--device", "environment.device")
"""``target_from`` of a GPU that is in this machine."""


def _several(spec: Spec, measured: Measured, ids: Sequence[str], width: int) -> list[str]:
    table = [(id, measured.prediction[id]) for id in ids]
    unit = max((unit_of(one) for _, one in table), key=lambda one: one.bytes)
    first = table[0][1]
    lines = joined([f"PREDICTED in {_seconds(first)}, no GPU used", _target(first), first.precision], width)
    sized = any(one.length is not None for _, one in table)
    names = ("length", *NAMES) if sized else NAMES
    columns = (8, *COLUMNS) if sized else COLUMNS
    lines.append(clip(right(names, columns) + f"  {unit.name}", width))
    verdicts = [predictions.prediction_verdict(spec, one) for _, one in table]
    for (_, one), found in zip(table, verdicts, strict=True):
        sizes = [predictions.most(one, f"{name}_bytes") for name in ("requested", "allocated", "reserved")]
        process = predictions.process_range(one)
        shown = "n/a" if process is None else span(process, unit)
        cells = [str(one.micro_batch), str(one.micro_batch * one.accumulate * one.ranks)]
        cells += [*(unit.cell(size) for size in sizes), shown]
        cells = [str(one.length), *cells] if sized else cells
        lines.append(clip(right(cells, columns) + f"  {_word(found)}", width))
    alike = len({found.why for found in verdicts}) == 1
    lines += hanging(verdicts[0].why, width) if alike and verdicts[0].why else []
    for (_, one), found in zip(table, verdicts, strict=True):
        if found.why and found.word != "FITS" and not alike:
            at = f"micro {one.micro_batch}" + (f", length {one.length}" if sized else "")
            lines += hanging(f"{at}: {found.why}", width)
    lines += _stands_on(first, width)
    if first.largest is not None or first.unknown.get("largest") not in (None, NOT_ASKED):
        if sized:
            lines.append(f"of length {first.length}, the first:")
        lines += _largest(spec, first, unit, width)
    lines += wrap(_limits(verdicts[0], unit), width) if verdicts[0].budget_bytes is not None else []
    words = [one.word for one in verdicts]
    every = f"{words.count('FITS')} of {len(words)}"
    word = "FITS" if words.count("FITS") == len(words) else next(one for one in words if one != "FITS")
    return [*lines, *wrap(f"{word}, by prediction: {every} fit.", width)]


def _word(found: predictions.PredictedVerdict) -> str:
    if not found.retries:
        return found.word
    return f"{found.word}, {found.retries:,} {'retry' if found.retries == 1 else 'retries'}"


def _limits(found: Verdict, unit: Unit) -> str:
    """Of every point: each has a process of its own, which the table shows."""
    room = (found.budget_bytes or 0) - found.reserve_bytes
    said = f"budget {unit.cell(found.budget_bytes)} - reserve {unit.cell(found.reserve_bytes)}"
    return f"{said} = {unit.cell(room)} {unit.name} for the process ({found.budget_from})"


NAMES = ("micro", "global", "requested", "allocated", "reserved", "process")
COLUMNS = (6, 7, 10, 10, 9, 12)
