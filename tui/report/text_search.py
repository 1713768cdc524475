"""A search as text: every candidate with its evidence, the line through them, the largest and the fastest."""

from __future__ import annotations

from tui import units
from tui.budget.ledger import probe_verdict
from tui.project.measured import Measured, Probe, Search
from tui.project.model import Spec
from tui.report import search_text, sentences
from tui.report.figures import GIBIBYTES, Unit, unit_for
from tui.report.line_text import line_sentence
from tui.report.lines import clip, closing, joined, right, wrap

WIDTHS = (2, 8, 9)
"""Columns of number, micro and global."""
SIZES = (9, 11, 10)
"""Columns of process, spare and samples/s: a device of 99 GiB in MiB, with a sign, still stands apart."""


def search_lines(spec: Spec, measured: Measured, id: str, *, project: str, width: int = 80) -> list[str]:
    """The search ``id`` in full.

    Raises:
        KeyError: there is no such search.
    """
    found = measured.search[id]
    probes = [measured.probe[one] for one in found.probes if one in measured.probe]
    unit = _unit(spec, probes)
    lines = joined(_head(spec, measured, id, found, probes, unit), width)
    if found.probes:
        lines += _table(spec, found, probes, unit, width)
    points = {one.micro_batch: size for one in probes if (size := one.training_process_bytes) is not None}
    if text := line_sentence(spec, "process", points, unit):
        lines += wrap(text, width)
    if text := search_text.fastest(measured, found):
        lines += wrap(text, width)
    following = f" Next: peakmark probe {project} --search" if found.outcome == "interrupted" else ""
    text = f"{search_text.verdict(spec, measured, found)} Saved in {project}.{following}"
    return [*lines, *closing(text, width)]


def _table(spec: Spec, found: Search, probes: list[Probe], unit: Unit, width: int) -> list[str]:
    names = right(("", "micro", "global"), WIDTHS) + "  result".ljust(20)
    lines = [clip(names + right(("process", "spare", "samples/s"), SIZES) + "  how", width)]
    lines += [clip(_row(spec, at, probe, unit).rstrip(), width) for at, probe in enumerate(probes, 1)]
    if missing := len(found.probes) - len(probes):
        lines += wrap(f"{missing} more are in the project's history.", width)
    return lines + wrap(_below(found, unit), width)


def _unit(spec: Spec, probes: list[Probe]) -> Unit:
    sizes = [probe_verdict(spec, one).process_bytes for one in probes]
    known = [one for one in sizes if one is not None]
    return unit_for(max(known)) if known else GIBIBYTES


def _head(
    spec: Spec, measured: Measured, id: str, found: Search, probes: list[Probe], unit: Unit
) -> list[str]:
    length = f", length {found.length:,}" if found.length is not None else ""
    cap = next((one.limit_bytes for one in probes if one.limit_bytes is not None), None)
    return [
        f"{id}: {search_text.span(found)}{length}",
        sentences.title(spec),
        *([sentences.device(measured.environment.get(found.environment))] if found.environment else []),
        found.precision,
        f"{unit.name}, a fresh process each" + (f" held to {unit.text(cap)}" if cap is not None else ""),
        *(["--quick"] if found.quick else []),
        *([f"{len(found.reused)} measured before it was interrupted"] if found.reused else []),
        f"took {units.long_duration(found.seconds)}",
    ]


def _row(spec: Spec, place: int, probe: Probe, unit: Unit) -> str:
    total = probe.micro_batch * probe.accumulate * spec.placement.ranks
    lead = right((str(place), f"{probe.micro_batch:,}", f"{total:,}"), WIDTHS)
    verdict = probe_verdict(spec, probe)
    process = "n/a" if verdict.process_bytes is None else unit.cell(verdict.process_bytes)
    spare = "n/a" if verdict.spare_bytes is None else _signed(verdict.spare_bytes, unit)
    cells = right((process, spare, units.rate(probe.samples_per_s)), SIZES)
    word = clip(search_text.candidate_word(probe), 17)
    return f"{lead}  {word.ljust(18)}{cells}  {search_text.manner(probe)}"


def _signed(size: int, unit: Unit) -> str:
    return unit.signed(size) if size < 0 else unit.cell(size)


def _below(found: Search, unit: Unit) -> str:
    if found.budget_bytes is None:
        text = "spare is of what the device leaves"
    else:
        text = f"spare is of the budget {unit.text(found.budget_bytes)}"
    text += f" less the reserve {unit.text(found.reserve_bytes)}" if found.reserve_bytes else ""
    return f"{text}. fit: timed alone, full: traced too, soak: traced when it holds; the number: timed iterations."
