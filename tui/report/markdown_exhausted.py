"""The report's batches that ran out of memory: cause, what was alive, and what would fit."""

from __future__ import annotations

from tui.project.measured import Probe
from tui.report.envelope import Source
from tui.report.figures import Unit
from tui.report.markdown_text import escaped, table
from tui.report.operating import is_current
from tui.report.text_exhausted import SHOWN, row_label
from tui.report.text_probe import probe_unit


def exhausted(source: Source) -> list[str]:
    """A row for each batch of this spec that ran out and says why, the smallest first; nothing without one."""
    probes = [
        one
        for _, one in sorted(source.measured.probe.items())
        if one.exhausted_class is not None and is_current(one.spec, source.fingerprint)
    ]
    last = {(one.micro_batch, one.accumulate, one.length, one.precision): one for one in probes}
    ordered = sorted(last.values(), key=lambda one: (one.micro_batch, one.accumulate))
    if not ordered:
        return []
    head = ["micro x acc", "what", "cause", "alive", "fits"]
    return [
        "## Out of memory",
        "",
        *table(head, [_row(one, probe_unit(one)) for one in ordered], numbers=False),
    ]


def _row(probe: Probe, unit: Unit) -> list[str]:
    length = "" if probe.length is None else f", length {probe.length}"
    alive = sorted(((size, key) for key, size in probe.alive.items() if size), reverse=True)[:SHOWN]
    held = ", ".join(f"{row_label(key)} {unit.text(size)}" for size, key in alive)
    modules = ", ".join(list(probe.alive_modules)[:SHOWN])
    return [
        f"{probe.micro_batch} x {probe.accumulate}{length}",
        escaped(probe.failure.removeprefix("out of memory: ")),
        escaped(f"{str(probe.exhausted_class).upper()}: {probe.exhausted_why}"),
        escaped(f"{held}; most of it by {modules}" if modules else held) or "n/a",
        escaped(probe.would_fit or "n/a"),
    ]
