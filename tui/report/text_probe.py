"""Probes as text: one batch in full, several as a table, and what happened when memory ran out."""

from __future__ import annotations

from collections.abc import Sequence

from tui import units
from tui.budget.ledger import probe_verdict
from tui.budget.readings import allocated_bytes
from tui.budget.would_fit import before_any_batch, most_by_line
from tui.project.measured import Measured, Probe
from tui.project.model import Spec
from tui.report import advice, sentences
from tui.report.figures import Unit, unit_for
from tui.report.lines import closing, joined, labelled, wrap
from tui.report.text_exhausted import exhausted_lines, remedy
from tui.report.text_host import host_text
from tui.report.text_ranks import rank_lines
from tui.report.text_readings import batches_text, clocks_text, phases_lines, readings_lines, time_warnings

LABEL = 10
OTHERS_LIMIT = 0.10
"""Others' share of the CPUs above which a rate says more about the machine than about the workload."""
UNMEASURED = ("out-of-memory", "failed", "cancelled", "not-tested")
"""Outcomes of probes that were not measured to their end."""


def probe_lines(
    spec: Spec, measured: Measured, ids: Sequence[str] = (), *, project: str, width: int = 80
) -> list[str]:
    """One probe in full, or several as a table.

    Args:
        spec: budget and placement.
        measured: holds the probes.
        ids: which ones; none: the latest.
        project: the file's name, for the next command.
        width: terminal columns.

    Raises:
        KeyError: there is no such probe.
    """
    chosen = list(ids) or ([max(measured.probe)] if measured.probe else [])
    if not chosen:
        head = joined([sentences.title(spec), sentences.spec_batch(spec), spec.precision.use], width)
        return [*head, *closing(f"UNKNOWN: nothing was measured yet. Next: peakmark probe {project}", width)]
    if len(chosen) > 1:
        from tui.report.text_sweep import sweep_lines

        return sweep_lines(spec, measured, chosen, project, width)
    probe = measured.probe[chosen[0]]
    if probe.outcome in UNMEASURED:
        return _ended(spec, measured, chosen[0], project, width)
    return _one(spec, measured, chosen[0], project, width)


def probe_unit(probe: Probe) -> Unit:
    """GiB, or MiB for a probe whose peaks are all below one."""
    peaks = [peak.requested_bytes for peak in probe.phases.values()]
    return unit_for(max(peaks) if peaks else probe.asked_bytes)


def _head(spec: Spec, measured: Measured, probe_id: str, width: int) -> list[str]:
    probe = measured.probe[probe_id]
    place = sentences.device(measured.environment.get(probe.environment))
    shared = _shared(probe)
    lines = joined([probe_id, place, probe.precision, f"nice {probe.nice}", *shared], width)
    length = f" x {probe.length}" if probe.length is not None else ""
    total = probe.micro_batch * probe.accumulate * spec.placement.ranks
    several = "micro-batch" if probe.accumulate == 1 else "micro-batches"
    micro = f"{probe.accumulate} {several} of {probe.micro_batch}{length}"
    ranks = f", on {spec.placement.ranks} ranks" if spec.placement.ranks > 1 else ""
    return [*lines, *wrap(f"iteration = {micro}{ranks}, then 1 optimizer step = {total} samples", width)]


def _shared(probe: Probe) -> list[str]:
    """Who else used the device: on the CPU their share of its time."""
    if probe.device == "cpu":
        return [*(["CONTENDED"] if probe.contended else []), sentences.others_cpu(probe)]
    return ["CONTENDED" if probe.contended else "not contended"]


def _one(spec: Spec, measured: Measured, probe_id: str, project: str, width: int) -> list[str]:
    probe = measured.probe[probe_id]
    unit = probe_unit(probe)
    lines = _head(spec, measured, probe_id, width)
    lines += memory_lines(probe, unit, width)
    lines += rank_lines(spec, measured, probe_id, unit, LABEL, width)
    if (moved := host_text(probe, unit)) is not None:
        lines += labelled("host", moved, LABEL, width)
    lines += labelled("time", _time(probe), LABEL, width)
    lines += labelled("loader", batches_text(probe), LABEL, width)
    if probe.device != "cpu":
        lines += labelled("clocks", clocks_text(probe), LABEL, width)
    lines += labelled("rate", f"{sentences.rate(probe)} · {_tokens(probe)}", LABEL, width)
    lines += labelled(
        "loss", f"{units.number(probe.loss_first)} -> {units.number(probe.loss_last)}", LABEL, width
    )
    more = f"; every reading and phase: peakmark ledger {project} --readings"
    lines += labelled("from", _origin(probe) + more, LABEL, width)
    for warning in warnings(probe):
        lines += labelled("warning", warning, LABEL, width)
    verdict = probe_verdict(spec, probe)
    command = "precision" if spec.placement.ranks == 1 else "ledger"
    following = f" Next: peakmark {command} {project}" if verdict.word == "FITS" else ""
    return [*lines, *closing(sentences.verdict(verdict, unit) + f" Saved in {project}.{following}", width)]


def memory_lines(probe: Probe, unit: Unit, width: int) -> list[str]:
    """The totals of the worst phase."""
    text = f"{_memory(probe, unit)} ({unit.name}, {probe.worst_phase}; process at its most)"
    return labelled("memory", text, LABEL, width)


def every_reading(probe: Probe, width: int) -> list[str]:
    """Every reading with its phase, time and source, then every phase's peak and what is left at its end."""
    unit = probe_unit(probe)
    return readings_lines(probe, unit, LABEL, width) + phases_lines(probe, unit, LABEL, width)


def _memory(probe: Probe, unit: Unit) -> str:
    """The four totals of the worst phase, from the inside out."""
    peak = probe.phases.get(probe.worst_phase or "")
    outer = "heap reserved" if probe.device == "cpu" else "reserved"
    process = probe.readings.get("process")
    sizes = [
        ("requested", peak.requested_bytes if peak else None),
        ("allocated", allocated_bytes(probe.device, peak) if peak else None),
        (outer, peak.reserved_bytes if peak else None),
        ("process", process.bytes if process else None),
    ]
    text = " · ".join(f"{name} {unit.cell(size)}" for name, size in sizes)
    if process and process.bytes is None and process.unknown:
        text += f" ({process.unknown})"
    return text


def _time(probe: Probe) -> str:
    if probe.step_ms_median is None:
        return "n/a: " + probe.unknown.get("step_ms_median", "not timed")
    parts = [f"median {units.milliseconds(probe.step_ms_median)} ms"]
    if probe.step_ms_p90 is not None:
        parts.append(f"p90 {units.milliseconds(probe.step_ms_p90)} ms")
    if probe.first_ms is not None:
        parts.append(f"first iteration {units.milliseconds(probe.first_ms)} ms (not averaged)")
    if probe.compile_ms is not None:
        parts.append(f"of it compiling {units.milliseconds(probe.compile_ms)} ms")
    if probe.compiled_again:
        parts.append(f"compiled again {probe.compiled_again} times while it was timed")
    return " · ".join(parts)


def _tokens(probe: Probe) -> str:
    if probe.tokens_per_s is None:
        return "tokens/s n/a: " + probe.unknown.get("tokens_per_s", "not counted")
    return f"{units.rate(probe.tokens_per_s)} tokens/s"


def _origin(probe: Probe) -> str:
    timed = f"{probe.iterations} untraced iteration{'' if probe.iterations == 1 else 's'}"
    if probe.step_ms_mean is not None:
        timed += f" = {units.long_duration(probe.iterations * probe.step_ms_mean / 1000)}"
    return f"{timed} after {probe.warmup} warm-up; memory from a traced run of its own"


def warnings(probe: Probe) -> list[str]:
    """What makes a probe's figures less than they look."""
    found: list[str] = []
    if probe.contended:
        held = "contended: what other processes hold changed during the run"
        found.append(f"{held}; not usable for an operating configuration")
    others = probe.others_cpu_ratio
    if probe.device == "cpu" and others is not None and others > OTHERS_LIMIT:
        told = f"{sentences.others_cpu(probe)} while it was timed"
        found.append(f"{told}: the rate is that of a shared machine")
    found += time_warnings(probe)
    if probe.growth_bytes:
        what = ", ".join(f"{name} {units.size(size)}" for name, size in probe.growth_of.items())
        left = f": {what}" if what else ""
        found.append(f"leak: memory grows by {units.exact(probe.growth_bytes)} B an iteration{left}")
    if probe.tracking_bytes and abs(probe.tracking_bytes) > _noticeable(probe):
        size = units.size(abs(probe.tracking_bytes))
        found.append(f"labels: the labelled iteration's peak differs by {size} from the one reported")
    return found


def _noticeable(probe: Probe) -> int:
    """Bytes from which a difference of the labelled iteration says something about the rows: a thousandth."""
    return max((peak.requested_bytes for peak in probe.phases.values()), default=0) // 1000


def _ended(spec: Spec, measured: Measured, probe_id: str, project: str, width: int) -> list[str]:
    probe = measured.probe[probe_id]
    unit = probe_unit(probe)
    lines = _head(spec, measured, probe_id, width)
    if probe.outcome == "out-of-memory":
        lines += exhausted_lines(probe, unit, LABEL, width)
    elif probe.phases:
        lines += memory_lines(probe, unit, width)
    if probe.step_ms_median is not None or (probe.phases and probe.outcome != "out-of-memory"):
        lines += labelled("time", _time(probe), LABEL, width)
    verdict = probe_verdict(spec, probe)
    lines += closing(sentences.verdict(verdict, unit), width)
    if probe.outcome == "out-of-memory":
        tried = [remedy(probe, measured.environment.get(probe.environment))]
        tried.append(_to_try(spec, measured, probe, unit, project))
        lines += closing(" ".join(filter(None, tried)), width) if any(tried) else []
    return lines


def _to_try(spec: Spec, measured: Measured, probe: Probe, unit: Unit, project: str) -> str:
    """A smaller batch of the same samples a step, why none can fit, or "" when there is nothing to say."""
    if said := advice.at_any_batch(spec, measured, probe, unit):
        return said
    if before_any_batch(probe):
        return ""
    total = probe.micro_batch * probe.accumulate
    micro = advice.smaller(measured, [probe], most_by_line(spec, probe, measured.probe.values()))
    if micro is None or total % micro:
        return ""
    same = f"micro {micro} x accumulate {total // micro}, the same global batch"
    return f"Try {same}. Next: peakmark probe {project} --batch {micro}"
