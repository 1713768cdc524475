"""The report: one Markdown page that says what was validated, by which evidence, and what is not known.

Deterministic: no clock, no absolute path.  Every figure carries the id of the measurement it is from.
"""

from __future__ import annotations

from tui.budget.ledger import probe_verdict
from tui.project.fingerprint import spec_hash
from tui.project.load import Project
from tui.project.measured import Operating
from tui.project.model import Spec
from tui.report import markdown_evidence as evidence
from tui.report import markdown_memory as memory
from tui.report import sentences
from tui.report.batch_text import batch_semantics
from tui.report.envelope import Source
from tui.report.lines import clean
from tui.report.markdown_exhausted import exhausted
from tui.report.markdown_prediction import prediction
from tui.report.markdown_readings import readings
from tui.report.markdown_search import search
from tui.report.markdown_text import escaped, fenced
from tui.report.markdown_unknown import unknowns
from tui.report.operating import is_current, operating
from tui.report.project_text import as_run, project_toml
from tui.report.text_probe import probe_unit


def markdown(project: Project) -> str:
    """The report of ``project``, ready to be written beside it.

    Raises:
        ProjectError: the workload's file, whose content is part of what was measured, cannot be read.
    """
    return report_markdown(Source(project.spec, project.measured, project.path.name, spec_hash(project)))


def report_markdown(source: Source) -> str:
    """The report as Markdown, at whatever stage the project is; ends with a newline."""
    accepted_id, found = accepted(source)
    sections = [
        [f"# {escaped(sentences.title(source.spec))}", "", *_quote(source, accepted_id, found)],
        _configuration(source, found),
        memory.by_phase(source, found),
        prediction(source, found),
        readings(source, found),
        memory.candidates(source),
        exhausted(source),
        search(source),
        evidence.precision(source, found),
        evidence.throughput(source, found),
        evidence.restore(source, found),
        evidence.environment(source, found),
        evidence.parameters(source),
        unknowns(source, found),
        _hand_off(source, found),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def accepted(source: Source) -> tuple[str | None, Operating | None]:
    """The configuration that was accepted last, if its evidence is there and current; else what is proven now.

    The id is None for one that nobody has accepted yet.
    """
    measured = source.measured
    for id, one in sorted(
        measured.operating.items(), key=lambda item: (item[1].accepted_at, item[0]), reverse=True
    ):
        whole = one.probe in measured.probe and one.verify in measured.verify
        if whole and is_current(one.spec, source.fingerprint):
            return id, one
    return None, operating(source.spec, measured, source.fingerprint)


def next_command(source: Source) -> str:
    """What to run next so that a configuration can be validated."""
    measured, mark = source.measured, source.fingerprint
    if _verified(source) != "verified":
        return f"peakmark verify {source.project}"
    if not any(is_current(one.spec, mark) and one.outcome == "fits" for one in measured.probe.values()):
        return f"peakmark probe {source.project}"
    return f"peakmark run {source.project}"


def _quote(source: Source, accepted_id: str | None, found: Operating | None) -> list[str]:
    """The verdict, first of all."""
    if found is None:
        return [
            f"> **NOT VALIDATED: {_why_not(source)}.** Next: `{next_command(source)}`",
            ">",
            "> Nothing below is an operating configuration.",
        ]
    probe = source.measured.probe[found.probe]
    unit = probe_unit(probe)
    verdict = probe_verdict(source.spec, probe)
    batch = sentences.probe_batch(source.spec, probe)
    room = f"in {unit.text(verdict.process_bytes)} of a budget of {unit.text(verdict.budget_bytes)}"
    kept = f"reserve of {unit.text(verdict.reserve_bytes)} kept, {unit.text(verdict.spare_bytes)} to spare"
    lines = [f"> **VALIDATED: runs as {batch}, {probe.precision}, {room}; {kept}.**", ">"]
    if verdict.word != "FITS":
        lines = [f"> **{escaped(sentences.verdict(verdict, unit))}**", ">"]
    restored = "Restores after a kill." if found.restore else "Restore not rehearsed."
    day = f"{found.accepted_at:%Y-%m-%d}"
    name = (
        f"Configuration {accepted_id}, accepted {day}"
        if accepted_id
        else f"Not accepted yet; evidence of {day}"
    )
    lines.append(f"> {escaped(sentences.rate(probe))}. {restored} {name}.")
    quality = sentences.quality(source.spec, source.measured.precision.get(found.precision or ""), probe)
    return [*lines, f"> {escaped(quality)}"] if quality else lines


def _why_not(source: Source) -> str:
    measured, mark = source.measured, source.fingerprint
    probes = [one for one in measured.probe.values() if is_current(one.spec, mark)]
    if not measured.probe and not measured.verify:
        return "nothing was measured yet"
    if not probes:
        return "no probe of this spec was run"
    if _verified(source) is None:
        return "this spec was not verified"
    if _verified(source) != "verified":
        return "the last Verify failed"
    return "no uncontended probe of this spec fits with the reserve"


def _verified(source: Source) -> str | None:
    """Outcome of the latest Verify of this spec, None when there is none."""
    table = source.measured.verify
    current = [id for id, one in table.items() if is_current(one.spec, source.fingerprint)]
    return table[max(current)].outcome if current else None


def _configuration(source: Source, found: Operating | None) -> list[str]:
    heading = "## Operating configuration" if found else "## Configuration asked for, not validated"
    if found is None:
        text = project_toml(source.spec)
        return [heading, "", *fenced(text, "toml"), "", *_batch(source.spec)]
    probe = source.measured.probe[found.probe]
    place = source.measured.environment.get(found.environment)
    settings = place.allocator if place and place.allocator else "default"
    ran = as_run(source.spec, probe)
    lines = [heading, "", *fenced(project_toml(ran), "toml"), ""]
    lines.append(
        f"A whole project: save it beside its workload and run it. Allocator settings: {clean(settings)}."
    )
    if found.micro_batch_tested:
        batches = ", ".join(str(one) for one in found.micro_batch_tested)
        lines.append(f"Micro-batches that were run and fit: {batches}; between them nothing was run.")
    return [*lines, "", *_batch(ran), "", *_fallback(source, found)]


def _batch(spec: Spec) -> list[str]:
    """What the batch means, a sentence a point."""
    return [f"* {escaped(one)}" for one in batch_semantics(spec)]


def _fallback(source: Source, found: Operating) -> list[str]:
    spare = source.measured.probe.get(found.fallback or "")
    if spare is None:
        return ["**Fallback**: none. No smaller micro-batch of the same global batch was run and fits."]
    unit = probe_unit(spare)
    process = unit.text(probe_verdict(source.spec, spare).process_bytes)
    batch = f"`micro = {spare.micro_batch}, accumulate = {spare.accumulate}`"
    return [
        f"**Fallback**, itself tested ({found.fallback}): {batch}, the same "
        f"{spare.micro_batch * spare.accumulate * source.spec.placement.ranks} samples a step, process {process}, "
        f"{escaped(sentences.rate(spare))}. Take it when others need the device."
    ]


def _none_written(where: str, source: Source) -> str:
    return f"none written; write it as {where} in {source.project}"


def _hand_off(source: Source, found: Operating | None) -> list[str]:
    notes, budget = source.spec.notes, source.spec.budget
    rows = [
        ("Brief", notes.brief, "brief under [notes]"),
        ("Reserve is for", budget.reserve_for, "reserve_for under [budget]"),
        ("Recovery notes", notes.recovery, "recovery under [notes]"),
        ("Decisions", notes.handoff, "handoff under [notes]"),
    ]
    lines = ["## Hand-off", ""]
    lines += [
        f"* {name}: {escaped(text) if text else _none_written(where, source)}" for name, text, where in rows
    ]
    first = f"peakmark run {source.project} --steps verify,probe" if found else next_command(source)
    last = "; unless it exits 0, do not rely on this page." if found else "."
    return [*lines, "", f"First do `{first}`{last}"]
