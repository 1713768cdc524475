"""The report's search: what was tried, the largest and the fastest apart, and by which measurements."""

from __future__ import annotations

from tui.report import search_text
from tui.report.envelope import Source
from tui.report.markdown_text import escaped
from tui.report.operating import is_current


def search(source: Source) -> list[str]:
    """The latest search of this spec; nothing when there was none."""
    table = source.measured.search
    current = [id for id, one in table.items() if is_current(one.spec, source.fingerprint)]
    if not current:
        return []
    id = max(current)
    found = table[id]
    length = f" at length {found.length:,}" if found.length is not None else ""
    lines = [
        f"## Largest micro-batch ({id})",
        "",
        escaped(f"{search_text.span(found)[:1].upper()}{search_text.span(found)[1:]}{length}."),
        "",
        f"* {escaped(search_text.verdict(source.spec, source.measured, found))}",
    ]
    if fastest := search_text.fastest(source.measured, found):
        lines.append(f"* {escaped(fastest)}")
    evidence = {"largest": found.largest_probe, "failed": found.failed_probe, "fastest": found.fastest_probe}
    told = ", ".join(f"{name} {probe}" for name, probe in evidence.items() if probe is not None)
    if told:
        lines.append(f"* Evidence, each in a fresh process: {told}.")
    lines.append("* Between the sizes that were tried nothing was run; a batch there is not proven to fit.")
    return lines
