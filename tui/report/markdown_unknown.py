"""Everything the report does not know: what, why, and which command settles it."""

from __future__ import annotations

from collections.abc import Iterator

from tui import units
from tui.budget.choose import ledger_probe
from tui.budget.declared import counter_note
from tui.budget.ledger import NOT_DECLARED, NOT_PREDICTED, ledger
from tui.project.measured import Operating
from tui.report.envelope import Source
from tui.report.markdown_text import escaped, table
from tui.report.settle import IS_REFERENCE, settled_by

Unknown = tuple[str, str, str]
"""What is unknown, why, and what settles it."""


_NAMES = {"others_cpu_ratio": "others' share of the CPUs"}


def unknowns(source: Source, found: Operating | None) -> list[str]:
    """The table of assumptions and unknowns; never empty: every report leaves something out."""
    rows = list(dict.fromkeys([*_missing_steps(source, found), *_figures(source, found), *_always()]))
    cells = [[escaped(what), escaped(why), _settled(how)] for what, why, how in rows]
    lines = [
        "## Assumptions and unknowns",
        "",
        *table(["unknown", "because", "settled by"], cells, numbers=False),
    ]
    assumed = _assumed(source, found)
    return [*lines, "", *(f"* {escaped(one)}" for one in assumed)]


def _settled(how: str) -> str:
    return f"`{how}`" if how.startswith("peakmark ") else escaped(how)


def _missing_steps(source: Source, found: Operating | None) -> Iterator[Unknown]:
    measured, name = source.measured, source.project
    if measured.inventory is None:
        yield "parameters", "they were not counted", f"peakmark params {name}"
    if not measured.verify:
        yield "whether figures can be trusted", "never verified", f"peakmark verify {name}"
    if not measured.probe:
        yield "memory and speed", "nothing was measured", f"peakmark probe {name}"
    if not measured.precision:
        yield "other precision settings", "they were not compared", f"peakmark precision {name}"
    if not measured.restore:
        yield "whether a kill loses work", "no restore was rehearsed", f"peakmark restore {name}"
    if found is not None and found.fallback is None:
        yield (
            "a smaller configuration",
            "none of the same global batch was run",
            f"peakmark probe {name} --batch N",
        )
    if source.spec.quality.target is None:
        yield "when it has learned enough", "no quality target is entered", f"quality.target in {name}"
    elif measured.precision:
        latest = measured.precision[max(measured.precision)]
        if not any(one.quality_met for one in latest.settings.values()):
            target = f"quality target {units.number(source.spec.quality.target)}"
            yield target, f"no setting gets there in {latest.steps} steps", "a longer training"


def _figures(source: Source, found: Operating | None) -> Iterator[Unknown]:
    """Every n/a among the figures above."""
    measured, name = source.measured, source.project
    chosen_probe = ledger_probe(source.spec, measured)
    probe_id = found.probe if found else (chosen_probe[0] if chosen_probe else None)
    if probe_id is not None:
        yield from _of_probe(source, probe_id)
    inventory = measured.inventory
    if inventory is not None:
        for key, reason in inventory.unknown.items():
            yield key.replace("_", " "), reason, f"peakmark params {name}"
    chosen = (found.precision if found else None) or max(measured.precision, default=None)
    if chosen is not None and chosen in measured.precision:
        made = measured.precision[chosen]
        place = measured.environment.get(made.environment)
        device = "cpu" if place is not None and place.device_id == "cpu" else "cuda"
        settings = [(f"{setting}: ", one.unknown) for setting, one in made.settings.items()]
        for prefix, unknown in [("", made.unknown), *settings]:
            for key, reason in unknown.items():
                if reason != IS_REFERENCE:
                    how = settled_by(key, reason, f"peakmark precision {name}", name, device)
                    yield prefix + key.replace("_", " "), reason, how


def _of_probe(source: Source, probe_id: str) -> Iterator[Unknown]:
    probe, name = source.measured.probe[probe_id], source.project
    command = f"peakmark probe {name}"
    if not probe.phases:
        yield "the measured rows", probe.failure or "no phase was measured to its end", command
    for row in ledger(source.spec, source.measured, probe_id).rows if probe.phases else ():
        for column in ("measured", "declared"):
            reason = row.reasons.get(column)
            if reason and reason not in (NOT_DECLARED, NOT_PREDICTED):
                known = column == "declared" and row.measured is not None
                how = settled_by(row.key, reason, command, name, probe.device)
                what = f"{row.label.removeprefix('= ')}, {column}"
                yield what, reason, "the measurement" if known and how == command else how
    for key, reason in probe.unknown.items():
        how = settled_by(key, reason, command, name, probe.device)
        yield _NAMES.get(key, key.replace("_", " ")), reason, how


def _always() -> Iterator[Unknown]:
    yield (
        "hours of running",
        "a probe lasts minutes: drift and leaks are not in it",
        "peakmark probe --iterations N",
    )
    yield (
        "shorter or longer samples",
        "memory was measured at the longest length entered",
        "peakmark probe --length N",
    )


def _assumed(source: Source, found: Operating | None) -> list[str]:
    spec = source.spec
    optimizer = f"{spec.workload.optimizer.name}, implementation {spec.workload.optimizer.implementation}"
    declared = "declared rows hold for it; an optimizer that the workload's own file makes may differ"
    lines = [f"optimizer as entered: {optimizer}; {declared}"]
    device = source.measured.probe[found.probe].device if found else "cpu"
    note = counter_note(spec, source.measured.inventory, device)
    return lines + ([f"{note}, so they are in no row"] if note else [])
